"""Equal stages have equal keys; whatever goes into the weights changes them, from that stage on."""

import json
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from training.core.recipe import MEMOS, POCKET, RETRIEVALS, Pocket, Recipe, Stage, from_dict
from training.core.stages import steps
from training.runs.services import run_key

ALL = {"stage1", "plain", "stage2"}
LATER = {"plain", "stage2"}
# field -> the stages whose weights it changes, in a recipe of a named base with all three stages; a new field must be
# entered here
CHANGES: dict[str, set[str]] = {
    **dict.fromkeys(
        ("format", "base", "seed", "bf16", "max_seq_len", "max_prompt_tokens", "embeddings"), ALL
    ),
    **dict.fromkeys(("token_init", "memo", "mcts_negatives", "lora", "stage1"), ALL),
    "plain": LATER,
    "stage2": {"stage2"},
    "max_new_tokens": LATER,  # part of what the stage exports
    "empty_thinking_share": {"stage2"},
    **dict.fromkeys(
        ("threads", "checkpoint_seconds", "activation_checkpointing", "pocket", "replay", "retrieval"), set()
    ),
}
OTHER: dict[str, Any] = {
    "format": "a",
    "memo": "mr",
    "base": "other/base",
    "embeddings": "new_rows",
    "token_init": "opaque",
    "pocket.encoder": "some/encoder",
    "retrieval": "n",
    "stage1.betas": (0.8, 0.99),
    "plain.betas": (0.8, 0.99),
    "stage2.betas": (0.8, 0.99),
    "stage1.micro_batch": 2,
    "plain.micro_batch": 2,
    "stage2.micro_batch": 2,
}
WHOLE = Recipe(retrieval="n>r", memo="m", base="some/base")


def keys(
    recipe: Recipe, snapshot: str = "snapshot", catalog: str = "catalog", plain: str = ""
) -> dict[str, str]:
    return {step.stage: step.key for step in steps(recipe, snapshot, catalog, plain)}


def leaves(cls: Any, prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for item in fields(cls):
        default = getattr(cls(), item.name)
        name = f"{prefix}{item.name}"
        found += leaves(type(default), f"{name}.") if is_dataclass(default) else [(name, default)]
    return found


def changed(recipe: Recipe, name: str, default: Any) -> Recipe:
    """The recipe with another valid value in this field."""
    if name in OTHER:
        value = OTHER[name]
    elif isinstance(default, bool):
        value = not default
    elif isinstance(default, int):
        value = default + 1
    else:
        value = default / 2 + 0.01
    *path, last = name.split(".")
    data = asdict(recipe)
    (data[path[0]] if path else data)[last] = value
    return from_dict(data)


@pytest.mark.parametrize(("name", "default"), leaves(Recipe), ids=lambda value: str(value))
def test_field_changes_the_keys_of_the_stages_whose_weights_it_changes_and_no_others(name, default):
    if name == "retrieval":
        return
    before, after = keys(WHOLE), keys(changed(WHOLE, name, default))
    differ = {stage for stage in before if before[stage] != after[stage]}
    assert differ == CHANGES[name.partition(".")[0]]
    same_run = run_key("s", WHOLE) == run_key("s", changed(WHOLE, name, default))
    assert same_run == (name in ("threads", "checkpoint_seconds", "activation_checkpointing"))


@pytest.mark.parametrize(("name", "default"), leaves(Pocket, "pocket."), ids=lambda value: str(value))
def test_pocket_depends_on_its_encoder_and_on_what_its_exports_say_and_not_on_adapters(name, default):
    recipe = Recipe(retrieval="r+R")
    after = keys(changed(recipe, name, default))
    assert all(after[stage] != key for stage, key in keys(recipe).items())
    assert keys(recipe) == keys(from_dict({**asdict(recipe), "lora": {"rank": 8}}))
    assert keys(recipe)["stage2"] != keys(recipe.with_cell(replay=1.0))["stage2"]


@pytest.mark.parametrize(("name", "default"), leaves(Recipe), ids=lambda value: str(value))
def test_keys_survive_json_with_every_field_changed(name, default):
    recipe = changed(WHOLE, name, default)
    again = from_dict(json.loads(json.dumps(asdict(recipe))))
    assert keys(again) == keys(recipe) and run_key("s", again) == run_key("s", recipe)


def test_numbers_written_as_whole_ones_make_the_same_keys():
    """A recipe made in code may say epochs=2 where one that was read says 2.0."""
    typed, read = Recipe(stage1=Stage(epochs=2)), from_dict({"stage1": {"epochs": 2.0}})
    assert keys(typed) == keys(read) and run_key("s", typed) == run_key("s", read)


def test_stage_1_is_shared_by_recipes_and_snapshots_that_differ_in_stage_2_only():
    recipe = Recipe()
    same = from_dict({"retrieval": "n", "stage2": {"lr": 0.5}, "empty_thinking_share": 0.2})
    assert keys(recipe)["stage1"] == keys(same, snapshot="other")["stage1"]


def test_another_catalog_is_another_stage_1():
    assert keys(Recipe(), catalog="other")["stage1"] != keys(Recipe())["stage1"]


def test_plain_pass_of_n_then_r_is_the_n_model_itself():
    plain, then = (Recipe(retrieval=one, base="some/base", empty_thinking_share=0.5) for one in ("n", "n>r"))
    assert [step.stage for step in steps(then, "s", "c")] == ["stage1", "plain", "stage2"]
    assert keys(then)["plain"] == keys(plain)["plain"]
    assert keys(then)["stage2"] != keys(then.with_cell(retrieval="r"))["stage2"]


@pytest.mark.parametrize("base", [POCKET, "some/base"])
def test_no_two_cells_share_their_last_stage_or_their_run(base):
    own = [Recipe(retrieval=one, base=base) for one in RETRIEVALS]
    assert len({tuple(keys(recipe).items()) for recipe in own}) == len(RETRIEVALS)
    assert len({run_key("s", recipe) for recipe in own}) == len(RETRIEVALS)


@pytest.mark.parametrize("base", ["pocket", "some/base"])
@pytest.mark.parametrize("retrieval", ["n", "r", "n>r"])
def test_passes_without_rule_samples_do_not_depend_on_them(retrieval, base):
    recipe = Recipe(retrieval=retrieval, base=base)
    assert keys(recipe, "one", plain="p") == keys(recipe, "other", plain="p")
    assert keys(recipe, "one", plain="p") != keys(recipe, "one", plain="q")


def test_passes_with_rule_samples_depend_on_the_whole_snapshot():
    recipe = Recipe(retrieval="r+R")
    assert keys(recipe, "one", plain="p")["stage2"] != keys(recipe, "other", plain="p")["stage2"]


@pytest.mark.parametrize("base", ["pocket", "some/base"])
def test_plain_pass_without_stage_1_depends_on_nothing_that_it_does_not_read(base):
    """The words a model writes with come from its encoder or its base, not from a snapshot."""
    recipe = Recipe(memo="none", retrieval="n", base=base)
    assert keys(recipe, "one", plain="p") == keys(recipe, "other", plain="p")


def encoder(folder: Path, weights: bytes) -> Recipe:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return Recipe(retrieval="r", pocket=Pocket(encoder=str(folder)))


def test_another_encoder_is_another_model_wherever_it_lies(tmp_path):
    one, same = encoder(tmp_path / "one", b"weights"), encoder(tmp_path / "same", b"weights")
    other = encoder(tmp_path / "other", b"others")
    assert keys(one) == keys(same)
    assert all(keys(other)[stage] != key for stage, key in keys(one).items())
    before = keys(one)
    (tmp_path / "one" / "model.safetensors").write_bytes(b"changed in place")
    assert all(keys(one)[stage] != key for stage, key in before.items())


def test_grid_of_one_format_trains_one_stage_1_a_memo_mode():
    grid = [Recipe(memo=memo, retrieval=way, base="some/base") for memo in MEMOS for way in RETRIEVALS]
    found = [step for recipe in grid for step in steps(recipe, "s", "c")]
    assert len({step.key for step in found if step.stage == "stage1"}) == 2
    assert len({step.key for step in found if step.stage == "plain"}) == 3


def test_the_share_for_fast_decoding_is_part_of_a_reasoning_memo_and_of_no_plain_one():
    def first(memo: str, share: float) -> str:
        return steps(Recipe(memo=memo, empty_thinking_share=share), "s", "c")[0].key

    assert first("mr", 0.0) != first("mr", 0.5)
    assert first("m", 0.0) == first("m", 0.5)
