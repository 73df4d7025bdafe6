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
from tests.training.small_snapshot import NAMES, write_snapshot  # noqa: E402
from tests.training.small_tokenizers import family_tokenizer  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from trace_site.lib.files import sha256_file  # noqa: E402
from training.core import stages  # noqa: E402
from training.core.recipe import Recipe, Stage  # noqa: E402
from training.core.records import load_snapshot  # noqa: E402
from training.ml import __main__ as command  # noqa: E402
from training.ml import stage1, stage2  # noqa: E402
from training.ml.bases.chat import load_chat  # noqa: E402
from training.ml.bases.model import build, take_decoder  # noqa: E402

pytestmark = pytest.mark.ml
SHORT = Stage(lr=3e-3, encoder_lr=1e-3, rows_lr=1e-3, batch_size=4, epochs=1)
QUICK = quick_recipe(stage1=SHORT, stage2=SHORT)
GREW = [
    ["Old/Gone", *NAMES],
    NAMES,
    [*NAMES, "PayV3/GetSlip", "Zone/Set"],
    [*NAMES[1:], "PayV3/GetSlip", "Zone/Set"],
]


def silent(done: int, total: int, note: str) -> None:
    pass


def train(recipe: Recipe, snapshot: Path, folder: Path) -> list[dict[str, Any]]:
    """Every stage of the cell, one after another as a run does; returns each one's trace.json."""
    found, init = [], None
    for step in stages.steps(recipe, "snapshot", "catalog"):
        run = folder / step.stage
        if step.stage == "stage1":
            stage1.main(recipe, snapshot, run, silent)
        else:
            {"plain": stage2.plain, "stage2": stage2.main}[step.stage](recipe, snapshot, run, silent, init)
        init = run / "export"
        found.append(json.loads((init / "trace.json").read_text()))
    return found


# cell -> (memo, retrieval, reasoning) of each export
CELLS = {
    ("a", "mr", "n>r"): [("mr", "none", False), ("mr", "n", False), ("mr", "n>r", True)],
    ("b", "mr", "r+R"): [("mr", "none", False), ("mr", "r+R", True)],
    ("b", "m", "n"): [("m", "none", False), ("m", "n", False)],
    ("c", "none", "n>r"): [("none", "n", False), ("none", "n>r", True)],
    ("c", "m", "none"): [("m", "none", False)],
}


@pytest.mark.parametrize("cell", list(CELLS))
def test_each_stage_of_a_cell_says_what_it_is(cell: tuple[str, str, str], tmp_path: Path) -> None:
    fmt, memo, retrieval = cell
    snapshot = write_snapshot(tmp_path / "snapshot")
    specs = train(QUICK.with_cell(format=fmt, memo=memo, retrieval=retrieval), snapshot, tmp_path / "run")
    assert [(s["memo"], s["retrieval"], s["reasoning"]) for s in specs] == CELLS[cell]
    done = [json.loads(path.read_text()) for path in (tmp_path / "run").glob("*/done.json")]
    assert sorted(row["stage"] for row in done) == sorted(path.name for path in (tmp_path / "run").iterdir())
    for row in done:
        trained = row["training"]
        traced = trained.get("Records with a trace", trained.get("Records with reasoning"))
        assert bool(traced) == (row["stage"] == "stage2" or (row["stage"] == "stage1" and memo == "mr"))


def test_the_plain_pass_of_two_cells_is_one_model_byte_for_byte(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    base = QUICK.with_cell(format="a", memo="none")
    for name, retrieval in (("one", "n"), ("two", "n>r")):
        stage2.plain(base.with_cell(retrieval=retrieval), snapshot, tmp_path / name, silent)
    one = tmp_path / "one" / "export"
    files = [str(path.relative_to(one)) for path in one.rglob("*") if path.is_file()]
    files.remove("manifest.json")
    exports = [
        {name: sha256_file(tmp_path / run / "export" / name) for name in files} for run in ("one", "two")
    ]
    same = {name for name in files if exports[0][name] == exports[1][name]}
    assert {"model.safetensors", "tokenizer.json", "encoder/tokenizer.json"} <= same
    specs = [json.loads((tmp_path / run / "export" / "trace.json").read_text()) for run in ("one", "two")]
    for spec in specs:
        for stage in spec["stages"]:
            stage.pop("Seconds", None)
    assert specs[0] == specs[1]


def test_stage1_does_not_depend_on_what_stage2_will_do(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    for retrieval in ("n", "r+R"):
        stage1.main(
            QUICK.with_cell(format="a", memo="m", retrieval=retrieval), snapshot, tmp_path / retrieval, silent
        )
    hashes = {
        json.loads((tmp_path / r / "export" / "trace.json").read_text())["recipe_hash"] for r in ("n", "r+R")
    }
    weights = {sha256_file(tmp_path / r / "export" / "model.safetensors") for r in ("n", "r+R")}
    assert (len(hashes), len(weights)) == (1, 1)


def test_a_pass_goes_on_from_the_pass_before_it_and_from_no_other(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    cell = QUICK.with_cell(format="a", memo="none")
    with pytest.raises(TraceError, match="needs the model of its plain pass"):
        stage2.main(cell.with_cell(retrieval="n>r"), snapshot, tmp_path / "x", silent)
    with pytest.raises(TraceError, match="memo 'mr' needs a Stage-1 model"):
        stage2.plain(cell.with_cell(retrieval="n", memo="mr"), snapshot, tmp_path / "x", silent)
    stage2.plain(cell.with_cell(retrieval="n"), snapshot, tmp_path / "plain", silent)
    before = tmp_path / "plain" / "export"
    for wrong in ({"retrieval": "r"}, {"retrieval": "n>r", "memo": "m"}, {"retrieval": "n>r", "format": "b"}):
        with pytest.raises(TraceError, match="this stage goes on from") as caught:
            stage2.main(cell.with_cell(**wrong), snapshot, tmp_path / "x", silent, before)
        assert caught.value.code == "wrong_init"
    with pytest.raises(TraceError, match="has no plain pass"):
        stage2.plain(cell.with_cell(retrieval="r"), snapshot, tmp_path / "x", silent)


def test_the_command_trains_the_pass_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    recipe = QUICK.with_cell(format="a", memo="none", retrieval="n>r")
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    for stage, init in (("plain", None), ("stage2", tmp_path / "plain" / "export")):
        arguments = [
            stage,
            "--snapshot",
            snapshot,
            "--run",
            tmp_path / stage,
            "--recipe",
            tmp_path / "recipe.yaml",
        ]
        arguments += ["--cache", tmp_path / "cache", *(["--init", init] if init else [])]
        monkeypatch.setattr("sys.argv", ["training.ml", *map(str, arguments)])
        assert command.main() == 0
    specs = [
        json.loads((tmp_path / stage / "export" / "trace.json").read_text()) for stage in ("plain", "stage2")
    ]
    assert [(spec["retrieval"], spec["reasoning"]) for spec in specs] == [("n", False), ("n>r", True)]
    assert len(list((tmp_path / "cache").glob("*.npy"))) == 1


@pytest.mark.parametrize("fmt", ["a", "c"])
def test_a_stage1_model_grows_when_tools_came_and_keeps_its_ids(fmt: str, tmp_path: Path) -> None:
    before = write_snapshot(tmp_path / "before")
    after = write_snapshot(tmp_path / "after", [s for s in _samples() if NAMES[0] not in s["answer"]], GREW)
    recipe = QUICK.with_cell(
        format=fmt, memo="m", retrieval="n", plain=Stage(lr=1e-9, batch_size=4, epochs=1)
    )
    stage1.main(recipe, before, tmp_path / "one", silent)
    stage2.plain(recipe, after, tmp_path / "two", silent, tmp_path / "one" / "export")
    (old, old_spec), (new, new_spec) = (load_chat(tmp_path / run / "export") for run in ("one", "two"))
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
    assert len({tuple(row.tolist()) for row in fresh}) == 2  # of two new tools, each from its own words
    assert "newer than the model gone on from" in (tmp_path / "two" / "log.txt").read_text()


def test_a_model_whose_table_is_full_gets_more_rows(tmp_path: Path) -> None:
    many = [*NAMES, *(f"Api{number}/do-{number}" for number in range(150))]
    before = write_snapshot(tmp_path / "before")
    after = write_snapshot(tmp_path / "after", history=[["Old/Gone", *NAMES], NAMES, many])
    recipe = QUICK.with_cell(format="c", memo="m", retrieval="n")
    stage1.main(recipe, before, tmp_path / "one", silent)
    stage2.plain(recipe, after, tmp_path / "two", silent, tmp_path / "one" / "export")
    chat, spec = load_chat(tmp_path / "two" / "export")
    assert len(spec["tools"]) == len(many)
    config = json.loads((tmp_path / "two" / "export" / "config.json").read_text())
    assert config["vocab_size"] > max(number for tool in spec["tools"] for number in tool["ids"])


@pytest.mark.parametrize(
    ("one", "other"), [(NAMES, ["Aaa/First", *NAMES]), ([*NAMES, "Zone/Set"], [*NAMES, "Zone/Unset"])]
)
def test_a_model_of_another_ledger_is_refused_with_what_to_do(
    one: list[str], other: list[str], tmp_path: Path
) -> None:
    before = write_snapshot(tmp_path / "before", history=[one])
    after = write_snapshot(tmp_path / "after", history=[other])
    recipe = QUICK.with_cell(format="a", memo="m", retrieval="n")
    stage1.main(recipe, before, tmp_path / "one", silent)
    with pytest.raises(TraceError, match="another catalog's ledger") as caught:
        stage2.plain(recipe, after, tmp_path / "two", silent, tmp_path / "one" / "export")
    assert (caught.value.code, caught.value.hint) == ("stale_init", "Run Stage 1 again on this snapshot.")


@pytest.mark.parametrize("embeddings", ["full", "new_rows"])
def test_a_base_without_thinking_trains_with_the_control_tokens_it_was_given(
    embeddings: str, tmp_path: Path
) -> None:
    base = write_base(tmp_path / "base", "llama", family_tokenizer("bare"))
    before = write_snapshot(tmp_path / "before")
    after = write_snapshot(tmp_path / "after", history=GREW[:3])
    recipe = QUICK.with_cell(format="c", memo="mr", retrieval="r", base=str(base), embeddings=embeddings)
    stage1.main(recipe, before, tmp_path / "one", silent)
    stage2.main(recipe, after, tmp_path / "two", silent, tmp_path / "one" / "export")
    chat, spec = load_chat(tmp_path / "two" / "export")
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


def test_pass_begins_with_an_earlier_decoder_and_with_its_own_encoder_and_tool_rows(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    recipe = quick_recipe(stage1=SHORT, plain=SHORT, stage2=SHORT, plain_first=True)
    recipe = recipe.with_cell(format="a", memo="none", retrieval="r")
    train(recipe, snapshot, tmp_path / "first")
    later = replace(recipe, seed=7, decoder_from="k" * 64)
    stage2.plain(later, snapshot, tmp_path / "plain", silent)
    init, decoder = tmp_path / "plain" / "export", tmp_path / "first" / "stage2" / "export"
    trainee = build(later, load_snapshot(snapshot), init)
    own = {name: value.clone() for name, value in trainee.model.state_dict().items()}
    take_decoder(trainee, decoder)
    theirs, first = load_file(decoder / "model.safetensors"), trainee.first_tool
    for name, value in trainee.model.state_dict().items():
        if ".writer." in name or ".gate." in name or name.endswith(".scale"):
            assert torch.equal(value, theirs[name]), name
        elif ".encoder." in name or name.endswith(".rows"):
            assert torch.equal(value, own[name]), name
    words = trainee.model.model.embed_tokens.weight[:first]
    assert torch.equal(words, theirs["model.embed_tokens.weight"][:first])
    stage2.main(later, snapshot, tmp_path / "second", silent, init, decoder=decoder)
    done = json.loads((tmp_path / "second" / "done.json").read_text())
    assert done["decoder"] == sha256_file(decoder / "manifest.json")
    assert done["init"] == sha256_file(init / "manifest.json")


def test_decoder_that_the_recipe_does_not_name_or_that_is_missing_is_refused(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    recipe = quick_recipe(stage1=SHORT, plain=SHORT, stage2=SHORT, plain_first=True)
    recipe = recipe.with_cell(format="a", memo="none", retrieval="r")
    train(recipe, snapshot, tmp_path / "first")
    init = tmp_path / "first" / "plain" / "export"
    for asked, decoder in ((recipe, init), (replace(recipe, decoder_from="k" * 64), None)):
        with pytest.raises(TraceError, match="do not say the same of the decoder"):
            stage2.main(asked, snapshot, tmp_path / "second", silent, init, decoder=decoder)
