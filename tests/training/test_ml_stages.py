"""Cells end to end at tiny size: what each export says it is, what cells share, and catalogs that grew in between."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from catalog.core.tokens import tool_units  # noqa: E402
from tests.training.small_bases import write_base  # noqa: E402
from tests.training.small_encoder import quick_recipe  # noqa: E402
from tests.training.small_snapshot import NAMES, RULE, silent, write_snapshot  # noqa: E402
from tests.training.small_tokenizers import family_tokenizer  # noqa: E402
from tests.training.small_training import exported_chat  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from trace_site.lib.files import sha256_file  # noqa: E402
from training.core import stages  # noqa: E402
from training.core.recipe import POCKET, Recipe, Stage  # noqa: E402
from training.core.records import load_snapshot  # noqa: E402
from training.ml import __main__ as command  # noqa: E402
from training.ml.stages import train_stage  # noqa: E402

pytestmark = pytest.mark.ml
SHORT = Stage(lr=3e-3, encoder_lr=1e-3, rows_lr=1e-3, batch_size=4, epochs=1)
QUICK = quick_recipe(stage1=SHORT, stage2=SHORT)
GREW = [
    ["Old/Gone", *NAMES],
    NAMES,
    [*NAMES, "PayV3/GetSlip", "Zone/Set"],
    [*NAMES[1:], "PayV3/GetSlip", "Zone/Set"],
]


def train(recipe: Recipe, snapshot: Path, folder: Path) -> list[dict[str, Any]]:
    """Every stage of the cell, one after another as a run does; returns each one's trace.json."""
    found, init = [], None
    for step in stages.steps(recipe, "snapshot", "catalog"):
        run = folder / step.stage
        train_stage(step.stage, recipe, snapshot, run, silent, init)
        init = run / "export"
        found.append(json.loads((init / "trace.json").read_text()))
    return found


# cell -> (memo, retrieval) of each export
CELLS = {
    ("llama", "a", "mr", "n>r"): [("mr", "none"), ("mr", "n"), ("mr", "n>r")],
    ("llama", "b", "m", "n"): [("m", "none"), ("m", "n")],
    ("llama", "c", "none", "n>r"): [("none", "n"), ("none", "n>r")],
    ("llama", "b", "mr", "r+R"): [("mr", "none"), ("mr", "r+R")],
    (POCKET, "b", "mr", "r+R"): [("mr", "none"), ("mr", "r+R")],
    (POCKET, "c", "m", "none"): [("m", "none")],
}


@pytest.fixture
def named(tmp_path: Path) -> Recipe:
    return replace(QUICK, base=str(write_base(tmp_path / "base", "llama")), format="a", memo="none")


@pytest.mark.parametrize("cell", list(CELLS))
def test_each_stage_of_a_cell_says_what_it_is(
    cell: tuple[str, str, str, str], tmp_path: Path, named: Recipe
) -> None:
    base, fmt, memo, retrieval = cell
    snapshot = write_snapshot(tmp_path / "snapshot")
    recipe = replace(QUICK if base == POCKET else named, format=fmt, memo=memo, retrieval=retrieval)
    specs = train(recipe, snapshot, tmp_path / "run")
    assert [(s["memo"], s["retrieval"]) for s in specs] == CELLS[cell]
    done = [json.loads(path.read_text()) for path in (tmp_path / "run").glob("*/done.json")]
    assert sorted(row["stage"] for row in done) == sorted(path.name for path in (tmp_path / "run").iterdir())
    for row in done if base != POCKET else ():
        trained = row["training"]
        traced = trained.get("Records with a trace", trained.get("Records with reasoning"))
        assert bool(traced) == (row["stage"] == "stage2" or (row["stage"] == "stage1" and memo == "mr"))
    if base == POCKET and retrieval == "r+R":
        assert specs[-1]["stages"][-1]["Records that a clause decides"] == 2 * 2


def test_the_plain_pass_of_two_cells_is_one_model_byte_for_byte(tmp_path: Path, named: Recipe) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    for name, retrieval in (("one", "n"), ("two", "n>r")):
        train_stage("plain", named.with_cell(retrieval=retrieval), snapshot, tmp_path / name, silent)
    one = tmp_path / "one" / "export"
    files = [str(path.relative_to(one)) for path in one.rglob("*") if path.is_file()]
    files.remove("manifest.json")
    exports = [
        {name: sha256_file(tmp_path / run / "export" / name) for name in files} for run in ("one", "two")
    ]
    same = {name for name in files if exports[0][name] == exports[1][name]}
    assert {"model.safetensors", "tokenizer.json"} <= same
    specs = [json.loads((tmp_path / run / "export" / "trace.json").read_text()) for run in ("one", "two")]
    for spec in specs:
        for stage in spec["stages"]:
            stage.pop("Seconds", None)
    assert specs[0] == specs[1]


def test_stage1_does_not_depend_on_what_stage2_will_do(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    for retrieval in ("n", "r+R"):
        train_stage(
            "stage1",
            QUICK.with_cell(format="a", memo="m", retrieval=retrieval),
            snapshot,
            tmp_path / retrieval,
            silent,
        )
    hashes = {
        json.loads((tmp_path / r / "export" / "trace.json").read_text())["recipe_hash"] for r in ("n", "r+R")
    }
    weights = {sha256_file(tmp_path / r / "export" / "model.safetensors") for r in ("n", "r+R")}
    assert (len(hashes), len(weights)) == (1, 1)


def test_a_pass_goes_on_from_the_pass_before_it_and_from_no_other(tmp_path: Path, named: Recipe) -> None:
    snapshot, cell = write_snapshot(tmp_path / "snapshot"), named
    with pytest.raises(TraceError, match="needs the model of its plain pass"):
        train_stage("stage2", cell.with_cell(retrieval="n>r"), snapshot, tmp_path / "x", silent)
    with pytest.raises(TraceError, match="memo 'mr' needs a Stage-1 model"):
        train_stage("plain", cell.with_cell(retrieval="n", memo="mr"), snapshot, tmp_path / "x", silent)
    train_stage("plain", cell.with_cell(retrieval="n"), snapshot, tmp_path / "plain", silent)
    before = tmp_path / "plain" / "export"
    for wrong in ({"retrieval": "r"}, {"retrieval": "n>r", "memo": "m"}, {"retrieval": "n>r", "format": "b"}):
        with pytest.raises(TraceError, match="this stage goes on from") as caught:
            train_stage("stage2", cell.with_cell(**wrong), snapshot, tmp_path / "x", silent, before)
        assert caught.value.code == "wrong_init"
    with pytest.raises(TraceError, match="has no plain pass"):
        train_stage("plain", cell.with_cell(retrieval="r"), snapshot, tmp_path / "x", silent)


@pytest.mark.parametrize("base", [POCKET, "llama"])
def test_the_command_trains_the_pass_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: Recipe, base: str
) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    recipe, passes = named.with_cell(retrieval="n>r"), ("plain", "stage2")
    if base == POCKET:
        recipe, passes = QUICK.with_cell(memo="m", retrieval="r"), ("stage1", "stage2")
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    for stage, init in zip(passes, (None, tmp_path / passes[0] / "export"), strict=True):
        arguments = [stage, "--snapshot", snapshot, "--run", tmp_path / stage]
        arguments += ["--recipe", tmp_path / "recipe.yaml"]
        arguments += ["--init", init] if init else []
        monkeypatch.setattr("sys.argv", ["training.ml", *map(str, arguments)])
        assert command.main() == 0
    specs = [json.loads((tmp_path / stage / "export" / "trace.json").read_text()) for stage in passes]
    assert [spec["retrieval"] for spec in specs] == (["none", "r"] if base == POCKET else ["n", "n>r"])


@pytest.mark.parametrize("fmt", ["a", "c"])
def test_a_stage1_model_grows_when_tools_came_and_keeps_its_ids(
    fmt: str, tmp_path: Path, named: Recipe
) -> None:
    before = write_snapshot(tmp_path / "before")
    after = write_snapshot(tmp_path / "after", [s for s in _samples() if NAMES[0] not in s["answer"]], GREW)
    still = Stage(lr=1e-9, batch_size=4, epochs=1)
    recipe = named.with_cell(format=fmt, memo="m", retrieval="n", plain=still)
    train_stage("stage1", recipe, before, tmp_path / "one", silent)
    train_stage("plain", recipe, after, tmp_path / "two", silent, tmp_path / "one" / "export")
    (old, old_spec), (new, new_spec) = (exported_chat(tmp_path / run / "export") for run in ("one", "two"))
    ids = {tool["name"]: tool["ids"] for tool in new_spec["tools"]}
    for tool in old_spec[
        "tools"
    ]:  # the export made before reads right with today's tokenizer, retired tool included
        assert new.tokenizer.convert_ids_to_tokens(tool["ids"]) == tool_units(tool["name"], fmt)
        assert ids.get(tool["name"], tool["ids"]) == tool["ids"]
    assert NAMES[0] not in ids
    strings = load_snapshot(after).family_strings(fmt)
    assert new.unit_ids(strings) == list(
        range(new.unit_ids(strings)[0], new.unit_ids(strings)[0] + len(strings))
    )
    assert len(new.tokenizer) > len(old.tokenizer)
    tables = [
        load_file(tmp_path / run / "export" / "model.safetensors")["model.embed_tokens.weight"]
        for run in ("one", "two")
    ]
    kept = len(old.tokenizer)
    assert torch.allclose(tables[0][:kept], tables[1][:kept], atol=1e-5)
    fresh = tables[1][kept : len(new.tokenizer)]
    # of two new tools, each token from its own words
    assert len({tuple(row.tolist()) for row in fresh}) == {"a": 2, "c": 3}[fmt]
    assert "newer than the model gone on from" in (tmp_path / "two" / "log.txt").read_text()


@pytest.mark.parametrize("fmt", ["a", "c"])
def test_a_pocket_model_goes_on_where_the_ledger_grew_by_tools_and_clauses(fmt: str, tmp_path: Path) -> None:
    more = {**RULE, "code": "ZONE", "target": "Zone/Set", "confusables": [NAMES[4]]}
    more["statements"] = [{**RULE["statements"][0], "token": "<<hr/ZONE#1>>", "tools": ["Zone/Set"]}]
    before = write_snapshot(tmp_path / "before")
    after = write_snapshot(tmp_path / "after", _samples(), GREW[:3], rules=[RULE, more])
    still = Stage(lr=1e-9, batch_size=4, epochs=1)
    recipe = replace(QUICK, format=fmt, memo="m", retrieval="r+R", stage2=still)
    train_stage("stage1", recipe, before, tmp_path / "one", silent)
    train_stage("stage2", recipe, after, tmp_path / "two", silent, tmp_path / "one" / "export")
    one, two = (load_file(tmp_path / run / "export" / "model.safetensors") for run in ("one", "two"))
    snapshot, old = load_snapshot(after), load_snapshot(before)
    assert [len(one["tokens"]), len(two["tokens"])] == [len(s.family_strings(fmt)) for s in (old, snapshot)]
    assert [len(one["clauses"]), len(two["clauses"])] == [len(s.clause_strings()) for s in (old, snapshot)]
    assert two["tokens"][: len(one["tokens"])].equal(one["tokens"])
    fresh = two["tokens"][len(one["tokens"]) :]
    torch.testing.assert_close(fresh.norm(dim=1), torch.ones(len(fresh)))
    spec = json.loads((tmp_path / "two" / "export" / "trace.json").read_text())
    assert spec["clauses"][-1]["token"] == "<<hr/ZONE#1>>" and spec["clauses"][-1]["row"] == 4
    leads = two["clauses"][[1, 2, 4]].norm(dim=1)
    torch.testing.assert_close(leads, torch.ones(3))
    assert not two["clauses"][[0, 3]].any()  # of a rule that is gone, and one that leads away
    assert "newer than the model gone on from" in (tmp_path / "two" / "log.txt").read_text()


def test_a_model_whose_table_is_full_gets_more_rows(tmp_path: Path, named: Recipe) -> None:
    many = [*NAMES, *(f"Api{number}/do-{number}" for number in range(150))]
    before = write_snapshot(tmp_path / "before")
    after = write_snapshot(tmp_path / "after", history=[["Old/Gone", *NAMES], NAMES, many])
    recipe = named.with_cell(format="c", memo="m", retrieval="n")
    train_stage("stage1", recipe, before, tmp_path / "one", silent)
    train_stage("plain", recipe, after, tmp_path / "two", silent, tmp_path / "one" / "export")
    chat, spec = exported_chat(tmp_path / "two" / "export")
    assert len(spec["tools"]) == len(many)
    config = json.loads((tmp_path / "two" / "export" / "config.json").read_text())
    assert config["vocab_size"] > max(number for tool in spec["tools"] for number in tool["ids"])


@pytest.mark.parametrize(
    ("one", "other"), [(NAMES, ["Aaa/First", *NAMES]), ([*NAMES, "Zone/Set"], [*NAMES, "Zone/Unset"])]
)
@pytest.mark.parametrize("base", [POCKET, "llama"])
def test_a_model_of_another_ledger_is_refused_with_what_to_do(
    one: list[str], other: list[str], base: str, tmp_path: Path, named: Recipe
) -> None:
    before = write_snapshot(tmp_path / "before", history=[one])
    after = write_snapshot(tmp_path / "after", history=[other])
    recipe = (QUICK if base == POCKET else named).with_cell(format="a", memo="m", retrieval="r")
    train_stage("stage1", recipe, before, tmp_path / "one", silent)
    with pytest.raises(TraceError, match="another catalog's ledger") as caught:
        train_stage("stage2", recipe, after, tmp_path / "two", silent, tmp_path / "one" / "export")
    assert (caught.value.code, caught.value.hint) == ("stale_init", "Run Stage 1 again on this snapshot.")


@pytest.mark.parametrize("embeddings", ["full", "new_rows"])
def test_a_base_without_thinking_trains_with_the_control_tokens_it_was_given(
    embeddings: str, tmp_path: Path
) -> None:
    base = write_base(tmp_path / "base", "llama", family_tokenizer("bare"))
    before = write_snapshot(tmp_path / "before")
    after = write_snapshot(tmp_path / "after", history=GREW[:3])
    recipe = QUICK.with_cell(format="c", memo="mr", retrieval="r", base=str(base), embeddings=embeddings)
    train_stage("stage1", recipe, before, tmp_path / "one", silent)
    train_stage("stage2", recipe, after, tmp_path / "two", silent, tmp_path / "one" / "export")
    chat, spec = exported_chat(tmp_path / "two" / "export")
    added = ["<think>", "</think>", "<|user|>", "<|assistant|>"]
    assert list(chat.markers.added) == spec["markers"]["added"] == added
    assert chat.markers.family == "think"
    first = chat.unit_ids(added)[0]
    assert chat.unit_ids([*added, "<tid>"]) == list(range(first, first + 5))
    untrained, trained = (
        load_file(tmp_path / run / "export" / "model.safetensors") for run in ("one", "two")
    )
    row = chat.unit_ids(["</think>"])[0]
    name = "model.embed_tokens.weight"
    assert not torch.equal(untrained[name][row], trained[name][row])
    assert chat.tokenizer.decode(chat.query_ids("q")).startswith("<|user|>Find the API tools")


def _samples() -> list[dict[str, Any]]:
    from tests.training.small_snapshot import sample

    return [sample(number) for number in range(10)]
