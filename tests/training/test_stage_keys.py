"""Equal stages have equal keys; whatever goes into the weights changes them, from that stage on."""

import json
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from training.core.recipe import RETRIEVALS, Pocket, Recipe, Stage, from_dict
from training.core.stages import steps, trained_as
from training.runs.services import run_key

ALL = {"stage1", "plain", "stage2"}
LATER = {"plain", "stage2"}
# field -> the stages whose weights it changes, in a recipe with all three stages; a new field must be entered here
CHANGES: dict[str, set[str]] = {
    **dict.fromkeys(
        ("format", "base", "seed", "bf16", "max_seq_len", "max_prompt_tokens", "embeddings"), ALL
    ),
    **dict.fromkeys(("token_init", "memo", "mcts_negatives", "letters", "stage1"), ALL),
    **dict.fromkeys(("pocket",), ALL),
    "plain": LATER,
    "stage2": {"stage2"},
    "max_new_tokens": LATER,  # part of what the stage exports
    "empty_thinking_share": {"stage2"},
    "replay": LATER,
    "decoder_from": {"stage2"},
    **dict.fromkeys(
        ("threads", "checkpoint_seconds", "activation_checkpointing", "lora", "retrieval", "plain_first"),
        set(),
    ),
}
OTHER: dict[str, Any] = {
    "format": "a",
    "memo": "mr",
    "base": "some/base",
    "embeddings": "new_rows",
    "token_init": "opaque",
    "pocket.encoder": "some/encoder",
    "pocket.heads": 2,
    "retrieval": "n",
    "decoder_from": "k" * 64,
    "stage1.betas": (0.8, 0.99),
    "plain.betas": (0.8, 0.99),
    "stage2.betas": (0.8, 0.99),
    "stage1.micro_batch": 2,
    "plain.micro_batch": 2,
    "stage2.micro_batch": 2,
}
WHOLE = Recipe(retrieval="n>r", memo="m")


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


@pytest.mark.parametrize(("name", "default"), leaves(Recipe), ids=lambda value: str(value))
def test_keys_survive_json_with_every_field_changed(name, default):
    recipe = changed(WHOLE, name, default)
    again = from_dict(json.loads(json.dumps(asdict(recipe))))
    assert keys(again) == keys(recipe) and run_key("s", again) == run_key("s", recipe)


def test_numbers_written_as_whole_ones_make_the_same_keys():
    """A recipe made in code may say epochs=2 where one that was read says 2.0."""
    typed, read = Recipe(stage1=Stage(epochs=2)), from_dict({"stage1": {"epochs": 2.0}})
    assert keys(typed) == keys(read) and run_key("s", typed) == run_key("s", read)


def test_named_base_depends_on_its_adapters_and_not_on_pocket():
    named = Recipe(base="some/base", retrieval="n>r")
    assert keys(named) == keys(from_dict({**asdict(named), "pocket": {"layers": 7}}))
    differ = keys(from_dict({**asdict(named), "lora": {"rank": 8}}))
    assert all(differ[stage] != key for stage, key in keys(named).items())


def test_stage_1_is_shared_by_recipes_and_snapshots_that_differ_in_stage_2_only():
    recipe = Recipe()
    same = from_dict({"retrieval": "n", "stage2": {"lr": 0.5}, "empty_thinking_share": 0.2})
    assert keys(recipe)["stage1"] == keys(same, snapshot="other")["stage1"]


def test_another_catalog_is_another_stage_1():
    assert keys(Recipe(), catalog="other")["stage1"] != keys(Recipe())["stage1"]


def test_plain_pass_of_n_then_r_is_the_n_model_itself():
    plain, then = Recipe(retrieval="n"), Recipe(retrieval="n>r", empty_thinking_share=0.5)
    assert [step.stage for step in steps(then, "s", "c")] == ["stage1", "plain", "stage2"]
    assert keys(then)["plain"] == keys(plain)["plain"]
    assert keys(then)["stage2"] != keys(Recipe(retrieval="r", empty_thinking_share=0.5))["stage2"]


@pytest.mark.parametrize(("retrieval", "same_as"), [("r", "n>r"), ("r+R", None)])
def test_with_plain_first_a_reasoning_cell_begins_with_a_plain_pass_over_its_own_samples(retrieval, same_as):
    recipe = Recipe(retrieval=retrieval, plain_first=True)
    found = steps(recipe, "s", "c", "p")
    assert [step.stage for step in found] == ["stage1", "plain", "stage2"]
    if same_as:
        assert keys(recipe) == keys(Recipe(retrieval=same_as))
    else:
        assert keys(recipe, plain="p")["plain"] != keys(Recipe(retrieval="n"), plain="p")["plain"]
        assert keys(recipe, "one", plain="p")["plain"] != keys(recipe, "other", plain="p")["plain"]


@pytest.mark.parametrize("plain_first", [True, False])
def test_cells_go_by_one_name_where_their_stages_are_equal(plain_first):
    known = {one: keys(Recipe(retrieval=one, plain_first=plain_first)) for one in RETRIEVALS}
    for one in RETRIEVALS:
        assert trained_as(one, plain_first) == next(
            other for other in RETRIEVALS if known[other] == known[one]
        )
    assert trained_as("n>r", plain_first) == ("r" if plain_first else "n>r")


@pytest.mark.parametrize("retrieval", ["n", "r", "n>r"])
def test_passes_without_rule_samples_do_not_depend_on_them(retrieval):
    recipe = Recipe(retrieval=retrieval)
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
    return Recipe(retrieval="n>r", pocket=Pocket(encoder=str(folder)))


def test_another_encoder_is_another_model_wherever_it_lies(tmp_path):
    one, same = encoder(tmp_path / "one", b"weights"), encoder(tmp_path / "same", b"weights")
    other = encoder(tmp_path / "other", b"others")
    assert keys(one) == keys(same)
    assert all(keys(other)[stage] != key for stage, key in keys(one).items())
    before = keys(one)
    (tmp_path / "one" / "model.safetensors").write_bytes(b"changed in place")
    assert all(keys(one)[stage] != key for stage, key in before.items())


def test_grid_of_one_format_trains_one_stage_1_a_memo_mode():
    grid = [
        Recipe(memo=m, retrieval=r) for m in ("none", "m", "mr") for r in ("none", "n", "r", "r+R", "n>r")
    ]
    found = [step for recipe in grid for step in steps(recipe, "s", "c")]
    assert len({step.key for step in found if step.stage == "stage1"}) == 2
    assert len({step.key for step in found if step.stage == "plain"}) == 3


def test_the_share_for_fast_decoding_is_part_of_a_reasoning_memo_and_of_no_plain_one():
    def first(memo: str, share: float) -> str:
        return steps(Recipe(memo=memo, empty_thinking_share=share), "s", "c")[0].key

    assert first("mr", 0.0) != first("mr", 0.5)
    assert first("m", 0.0) == first("m", 0.5)


def test_recipe_without_an_earlier_decoder_hashes_as_before_there_was_that_field():
    data = {name: value for name, value in asdict(WHOLE).items() if name != "decoder_from"}
    assert WHOLE.hash() == content_hash(data) != changed(WHOLE, "decoder_from", "").hash()


@pytest.mark.parametrize("cell", [{"base": "some/base"}, {"retrieval": "n"}])
def test_only_a_pocket_cell_that_writes_traces_goes_on_from_an_earlier_decoder(cell):
    with pytest.raises(TraceError, match="cells of the pocket model that write traces"):
        from_dict({**asdict(WHOLE), **cell, "decoder_from": "k" * 64})
