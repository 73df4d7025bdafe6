"""Equal stages have equal keys; whatever goes into the weights changes them."""

import pytest

from training.core.recipe import Recipe, from_dict
from training.core.stages import steps


def keys(recipe: Recipe, snapshot: str = "snapshot", catalog: str = "catalog") -> dict[str, str]:
    return {step.stage: step.key for step in steps(recipe, snapshot, catalog)}


def test_stage_1_is_shared_by_recipes_and_snapshots_that_differ_in_stage_2_only():
    recipe = Recipe()
    same = from_dict({"retrieval": "n", "stage2": {"lr": 0.5}, "empty_thinking_share": 0.2})
    assert keys(recipe)["stage1"] == keys(same, snapshot="other")["stage1"]


@pytest.mark.parametrize(
    "other",
    [{"format": "a"}, {"seed": 1}, {"stage1": {"lr": 0.1}}, {"mcts_negatives": 3}, {"token_init": "opaque"}],
    ids=str,
)
def test_what_stage_1_learns_from_changes_its_key(other):
    assert keys(from_dict(other))["stage1"] != keys(Recipe())["stage1"]
    assert keys(Recipe(), catalog="other")["stage1"] != keys(Recipe())["stage1"]


def test_plain_pass_of_n_then_r_is_the_n_model_itself():
    plain, then = Recipe(retrieval="n"), Recipe(retrieval="n>r", empty_thinking_share=0.5)
    assert [step.stage for step in steps(then, "s", "c")] == ["stage1", "plain", "stage2"]
    assert keys(then)["plain"] == keys(plain)["plain"]
    assert keys(then)["stage2"] != keys(Recipe(retrieval="r", empty_thinking_share=0.5))["stage2"]


def test_threads_and_checkpoints_change_no_key():
    assert keys(Recipe(threads=16, checkpoint_seconds=1.0)) == keys(Recipe())


def test_grid_of_one_format_trains_one_stage_1_a_memo_mode():
    grid = [
        Recipe(memo=m, retrieval=r) for m in ("none", "m", "mr") for r in ("none", "n", "r", "r+R", "n>r")
    ]
    found = [step for recipe in grid for step in steps(recipe, "s", "c")]
    assert len({step.key for step in found if step.stage == "stage1"}) == 2
    assert len({step.key for step in found if step.stage == "plain"}) == 3
