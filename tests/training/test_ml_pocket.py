"""The pocket model before training: letter case in its tokenizer, and a start that already matches words."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402

from catalog.core.tokens import tool_units  # noqa: E402
from tests.training.small_snapshot import write_snapshot  # noqa: E402
from training.core.recipe import Pocket, Recipe, Stage  # noqa: E402
from training.core.records import Snapshot, load_snapshot  # noqa: E402
from training.ml import stage2  # noqa: E402
from training.ml.model import Trainee, build, load_named  # noqa: E402
from training.ml.tokenizer import train_tokenizer  # noqa: E402

pytestmark = pytest.mark.ml
WIDE = Recipe(format="a", retrieval="n", pocket=Pocket(vocab=600, hidden=256, layers=2, intermediate=64))


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return load_snapshot(write_snapshot(tmp_path / "snapshot"))


def best_tool(trainee: Trainee, snapshot: Snapshot, query: str) -> str:
    names = [tool["name"] for tool in snapshot.tools]
    rows = trainee.chat.unit_ids([tool_units(name, "a")[0] for name in names])
    ids = [*trainee.chat.query_ids(query), *trainee.chat.empty_ids, *trainee.chat.list_open_ids]
    trainee.model.eval()
    with torch.no_grad():
        logits = trainee.model(input_ids=torch.tensor([ids])).logits[0, -1, rows]
    return names[int(logits.argmax())]


def test_lowercase_folds_text_and_leaves_tool_tokens_alone(snapshot: Snapshot) -> None:
    chat = build(WIDE.with_cell(pocket=replace(WIDE.pocket, lowercase=True)), snapshot).chat
    assert chat.text_ids("Please SHOW Case") == chat.text_ids("please show case")
    string = tool_units("PayV1/GetSlip", "a")[0]
    assert chat.tokenizer.decode(chat.unit_ids([string])) == string
    assert chat.tokenizer.encode(string, add_special_tokens=False) == chat.unit_ids([string])


def test_without_lowercase_letter_case_is_kept(snapshot: Snapshot) -> None:
    tokenizer = train_tokenizer(snapshot, 600)
    assert tokenizer.decode(tokenizer.encode("Please SHOW Case")) == "Please SHOW Case"


@pytest.mark.parametrize("tied", [True, False])
def test_the_copying_start_finds_tools_by_their_words_before_any_training(
    tied: bool, snapshot: Snapshot
) -> None:
    pocket = replace(WIDE.pocket, copy_start=True, lowercase=True, tied=tied)
    trainee = build(WIDE.with_cell(pocket=pocket), snapshot)
    for tool in snapshot.tools:
        assert best_tool(trainee, snapshot, f"{tool['name']} {tool['description']}") == tool["name"]


def test_the_random_start_finds_tools_by_chance_only(snapshot: Snapshot) -> None:
    trainee = build(WIDE, snapshot)
    found = {best_tool(trainee, snapshot, f"{t['name']} {t['description']}") for t in snapshot.tools}
    assert len(found) < len(snapshot.tools)


@pytest.mark.parametrize("tied", [True, False])
def test_an_export_comes_back_with_the_heads_it_was_trained_with(tied: bool, tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    pocket = Pocket(vocab=600, hidden=32, layers=1, heads=2, intermediate=64, tied=tied)
    stage = Stage(lr=1e-2, batch_size=4)
    recipe = Recipe(format="c", memo="none", retrieval="n", threads=1, pocket=pocket, stage2=stage)
    stage2.main(recipe, snapshot, tmp_path / "run", lambda done, total, note: None)
    model, _ = load_named(str(tmp_path / "run" / "export"))
    same = torch.equal(model.get_input_embeddings().weight, model.get_output_embeddings().weight)
    assert same == tied
