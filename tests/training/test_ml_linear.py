"""The fitted start of the pocket model: a linear classifier in its weights before any training."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402

from catalog.core.tokens import tool_units  # noqa: E402
from evaluation.ml.engine import open_engine  # noqa: E402
from tests.training.small_snapshot import NAMES, sample, write_snapshot  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from trace_site.lib.files import read_json, sha256_file  # noqa: E402
from training.core.recipe import Pocket, Recipe, Stage, from_dict  # noqa: E402
from training.core.records import load_snapshot, stage2_records  # noqa: E402
from training.ml import stage2  # noqa: E402
from training.ml.linear import Requests, fit, fitted_start  # noqa: E402
from training.ml.model import Trainee, build  # noqa: E402

pytestmark = pytest.mark.ml
POCKET = Pocket(
    vocab=600, hidden=96, layers=1, heads=2, intermediate=64, tied=False, copy_start=True, fitted_start=True
)
STILL = Stage(lr=1e-12, batch_size=4, epochs=0.1)  # a step that changes nothing
RECIPE = Recipe(format="a", memo="none", retrieval="n", threads=1, pocket=POCKET, stage2=STILL, bf16=False)
# words that no name and no description says
SLANG = dict(zip(NAMES, ("dosh", "gravy", "wonga", "bread", "skive"), strict=True))
ASKED = [(f"{word} {extra}", name) for name, word in SLANG.items() for extra in ("now", "for bob", "please")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    samples = [
        sample(n, query=query, answer=[name], trace="", branch="imported")
        for n, (query, name) in enumerate(ASKED)
    ]
    return write_snapshot(tmp_path / "snapshot", samples)


def started(folder: Path, recipe: Recipe = RECIPE) -> Trainee:
    snapshot = load_snapshot(folder)
    trainee = build(recipe, snapshot)
    fitted_start(trainee, stage2_records(snapshot, recipe), snapshot, recipe.format)
    return trainee


def found_by(run: Path, queries: list[str]) -> list[str]:
    items = [{"id": number, "query": query} for number, query in enumerate(queries)]
    rows = sorted(
        (row for batch in open_engine(run / "export").predict(items, "fast") for row in batch),
        key=lambda row: row["id"],
    )
    return [row["tools"][0] for row in rows]


def trained(folder: Path, run: Path, recipe: Recipe = RECIPE) -> Path:
    stage2.main(recipe, folder, run, lambda done, total, note: None)
    return run


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
@pytest.mark.parametrize("shape", ["qwen3", "llama"])
def test_requests_find_their_tools_before_any_training(
    shape: str, fmt: str, folder: Path, tmp_path: Path
) -> None:
    recipe = replace(RECIPE, format=fmt, pocket=replace(POCKET, shape=shape))
    run = trained(folder, tmp_path / "run", recipe)
    assert found_by(run, [f"{word} tomorrow" for word in SLANG.values()]) == NAMES


def test_without_it_they_do_not(folder: Path, tmp_path: Path) -> None:
    recipe = replace(RECIPE, pocket=replace(POCKET, fitted_start=False))
    run = trained(folder, tmp_path / "run", recipe)
    assert found_by(run, [f"{word} tomorrow" for word in SLANG.values()]) != NAMES


def test_a_tool_nobody_asked_for_is_found_by_its_description(tmp_path: Path) -> None:
    samples = [
        sample(n, query=q, answer=[name], trace="", branch="imported")
        for n, (q, name) in enumerate(ASKED)
        if name != NAMES[4]
    ]
    run = trained(write_snapshot(tmp_path / "snapshot", samples), tmp_path / "run")
    assert found_by(run, ["somebody Books leave"]) == [NAMES[4]]


def test_the_answer_has_its_form_from_the_start(folder: Path) -> None:
    """`["`, the tool, `"]`, end: each is the likeliest token at its place."""
    trainee, (query, name) = started(folder), ASKED[0]
    chat = trainee.chat
    asked = [*chat.query_ids(query), *chat.empty_ids]
    answer = [*chat.list_open_ids, *chat.unit_ids(tool_units(name, "a")), *chat.list_close_ids, *chat.end_ids]
    with torch.no_grad():
        logits = trainee.model(input_ids=torch.tensor([[*asked, *answer]])).logits[0]
    assert logits[len(asked) - 1 : -1].argmax(dim=1).tolist() == answer


def test_more_tools_than_dimensions_share_them(tmp_path: Path) -> None:
    names = [f"Api{number % 7}/Op{number}" for number in range(150)]
    words = [f"{chr(97 + number // 15)}{chr(65 + number % 15)}" for number in range(150)]  # aA to jO
    samples = [
        sample(n, query=f"{word} please", answer=[name], trace="", branch="imported")
        for n, (word, name) in enumerate(zip(words, names, strict=True))
    ]
    snapshot = write_snapshot(tmp_path / "snapshot", samples, history=(names,))
    run = trained(snapshot, tmp_path / "run", replace(RECIPE, pocket=replace(POCKET, vocab=1200)))
    found = found_by(run, words)
    assert sum(one == other for one, other in zip(found, names, strict=True)) > 140  # by chance: 1


def test_the_fit_is_the_lowest_point_of_its_objective() -> None:
    """Squared hinge around 1 with a bias of -1, plus half the squared weights, as LIBLINEAR writes it."""
    generator = torch.Generator().manual_seed(0)
    bags = [torch.randperm(30, generator=generator)[:6].sort().values for _ in range(40)]
    wanted = [[100 + int(bag[0]) % 3] for bag in bags]
    starts = torch.arange(0, 241, 6)
    says = fit(Requests(torch.cat(bags), starts, wanted), 30, [100, 101, 102]).double()
    known = torch.bincount(torch.cat(bags), minlength=30)
    rarity = 1 + torch.log(41 / (known + 1.0))
    rows = torch.zeros(40, 30, dtype=torch.float64)
    for number, bag in enumerate(bags):
        rows[number, bag] = rarity[bag].double()
    rows /= rows.norm(dim=1, keepdim=True)
    sign = torch.tensor([[1.0 if unit in found else -1.0 for unit in (100, 101, 102)] for found in wanted])
    weights = (says / rarity[:, None]).requires_grad_()
    short = (1 - sign * (rows @ weights - 1)).clamp(min=0)
    objective = 0.5 * weights.square().sum() + short.square().sum()
    objective.backward()
    assert weights.grad is not None and float(weights.grad.abs().max()) < 1e-2
    assert float(objective.detach()) < 80  # nothing said costs 4 for each of 40 requests


def test_the_same_recipe_and_snapshot_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    recipe = replace(RECIPE, stage2=Stage(lr=1e-3, batch_size=4, epochs=2))
    runs = [trained(folder, tmp_path / name, recipe) for name in ("one", "two")]
    one, two = (sha256_file(run / "export" / "model.safetensors") for run in runs)
    assert one == two


def test_the_export_says_how_it_started(folder: Path, tmp_path: Path) -> None:
    run = trained(folder, tmp_path / "run")
    assert "linear classifier" in read_json(run / "export" / "trace.json")["token_init"]


@pytest.mark.parametrize("wrong", [{"tied": True}, {"copy_start": False}, {"hidden": 32}])
def test_it_is_refused_where_it_cannot_work(wrong: dict[str, object]) -> None:
    with pytest.raises(TraceError, match="needs pocket.copy_start, two tables"):
        from_dict({"pocket": {"copy_start": True, "tied": False, "fitted_start": True, **wrong}})
