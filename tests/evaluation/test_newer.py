"""Tools newer than a pocket model: its engine answers with them by their descriptions, with the others as before."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402

from catalog.core.tool import embedding_text  # noqa: E402
from evaluation.ml.engine import Engine, open_engine  # noqa: E402
from tests.training.small_encoder import quick_recipe  # noqa: E402
from tests.training.small_snapshot import NAMES, tool, write_snapshot  # noqa: E402
from training.ml import stage2  # noqa: E402

pytestmark = pytest.mark.ml
NEW = tool("Travel/Post Card", "Posts a card from the travel centre")
BACK = tool("Old/Gone", "Lists hotels and places of interest")  # it was retired then, so it has a token
ASKED = {row["name"]: embedding_text(row["name"], row["description"]) for row in (NEW, BACK)}
KNOWN = ["please show case 5", "read the newer pay slip of this month", "book leave"]


def made(folder: Path, fmt: str, retrieval: str) -> Engine:
    recipe = quick_recipe(format=fmt, memo="none", retrieval=retrieval)
    stage2.main(recipe, write_snapshot(folder / "snapshot"), folder / "run", lambda *_: None)
    found: Engine = open_engine(folder / "run" / "export", threads=1)
    return found


@pytest.fixture(scope="module", params=["a", "b", "c"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """It ranks as its encoder compares texts."""
    return made(tmp_path_factory.mktemp("newer"), request.param, "none")


@pytest.fixture(scope="module")
def reasoning(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return made(tmp_path_factory.mktemp("reasoning"), "a", "r+R")


def answers(engine: Engine, queries: Any, decode: str = "fast", **item: Any) -> list[dict[str, Any]]:
    asked = [{"id": str(number), "query": text, **item} for number, text in enumerate(queries)]
    rows = {row["id"]: row for batch in engine.predict(asked, decode, 7) for row in batch}
    return [rows[str(number)] for number in range(len(asked))]


def test_a_newer_tool_is_found_by_its_description_and_gone_with_its_list(engine: Engine) -> None:
    holding = engine.with_newer([NEW, BACK])
    for name, row in zip(ASKED, answers(holding, ASKED.values()), strict=True):
        assert row["tools"][0] == name and row["features"] == {}, "no threshold was fitted on such an answer"
        assert not {*ASKED} & {*answers(engine, [ASKED[name]])[0]["tools"]}, (
            "the engine it was made of has none"
        )
    only = engine.with_newer([NEW])
    assert not any("Old/Gone" in row["tools"] for row in answers(only, ASKED.values()))


def test_requests_for_known_tools_find_them_in_the_order_of_before(reasoning: Engine) -> None:
    holding = reasoning.with_newer([NEW, BACK])
    for old, new in zip(answers(reasoning, KNOWN), answers(holding, KNOWN), strict=True):
        assert [name for name in new["tools"] if name in NAMES] == old["tools"]


def test_a_newer_tool_keeps_its_domain_and_its_permissions(engine: Engine) -> None:
    holding = engine.with_newer([{**NEW, "permissions": ["card"], "domain": "travel"}])
    text = [ASKED["Travel/Post Card"]]
    (row,) = answers(holding, text, permissions=[])
    assert row["withheld"][0] == "Travel/Post Card" and row["withheld_first"]
    assert "Travel/Post Card" not in row["tools"]
    assert answers(holding, text, permissions=["card"])[0]["tools"][0] == "Travel/Post Card"
    assert answers(holding, text, domain="travel")[0]["tools"] == ["Travel/Post Card"]
    assert "Travel/Post Card" not in answers(holding, text, domain="hr")[0]["tools"]


def test_no_trace_is_made_up_for_a_newer_tool(reasoning: Engine) -> None:
    holding = reasoning.with_newer([NEW])
    assert holding.export.held is not None
    with torch.inference_mode():  # as near as can be: a model this small has learned little
        holding.export.held.rows.mul_(9)
    ask = {"id": "1", "query": ASKED["Travel/Post Card"]}
    row = holding.answer(ask, "trace", 3)
    assert (row["tools"], row["trace"], row["follows_trace"]) == (["Travel/Post Card"], "", None)
    both = holding.answer(ask, "both", 3)
    assert both["fast"]["tools"][0] == both["trace"]["tools"][0] == "Travel/Post Card"
    with torch.inference_mode():
        holding.export.held.rows.mul_(-1)
    assert holding.answer(ask, "trace", 3)["trace"] == reasoning.answer(ask, "trace", 3)["trace"] != ""


def test_nothing_newer_is_the_engine_as_it_was(engine: Engine) -> None:
    same = engine.with_newer([tool(name, "Whatever") for name in NAMES])
    assert same.export is engine.export and same.export.held is None
