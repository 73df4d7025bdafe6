"""Clauses that a language model has not learned, in force beside it: when they decide, and what is told of that."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402

from catalog.core.tool import embedding_text  # noqa: E402
from evaluation.core.written_out import quoted  # noqa: E402
from evaluation.ml import deciding, overlay  # noqa: E402
from evaluation.ml.engine import Engine, open_engine  # noqa: E402
from evaluation.ml.overlay import Unlearned  # noqa: E402
from tests.evaluation.test_deciding import FRESH, items  # noqa: E402
from tests.evaluation.test_remote import served  # noqa: E402
from tests.evaluation.tiny_export import CLAUSES, clause, write_export  # noqa: E402
from tests.training.small_encoder import small_encoder  # noqa: E402
from training.core.recipe import Pocket as Settings  # noqa: E402
from training.ml.bases.pocket import MARGIN  # noqa: E402

pytestmark = pytest.mark.ml
IN_FORCE = [*CLAUSES, FRESH]
TOOL, TEXT = "PayV2/Drop", FRESH["text"]


@pytest.fixture(scope="module", autouse=True)
def _encoder() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        small = replace(deciding.EXACT, pocket=Settings(encoder=small_encoder()))
        patch.setattr(deciding, "EXACT", small)
        overlay.sentence_encoder.cache_clear()
        yield
        overlay.sentence_encoder.cache_clear()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A language model that has learned all clauses but one."""
    found: Engine = open_engine(
        write_export(tmp_path_factory.mktemp("export"), "c", clauses=CLAUSES), threads=1
    )
    return found


@pytest.fixture(scope="module")
def held(engine: Engine) -> Engine:
    return engine.holding([], IN_FORCE)


def ask(engine: Engine, query: str, decode: str = "fast", **item: Any) -> dict[str, Any]:
    return engine.ask({"id": "1", "query": query, **item}, decode, 5)() | {"seconds": 0}


def test_a_rule_published_after_training_puts_its_tool_first(engine: Engine, held: Engine) -> None:
    own, row = ask(engine, TEXT), ask(held, TEXT)
    assert own["tools"][0] != TOOL and row["tools"][0] == TOOL
    assert row["tools"] == [TOOL, *(name for name in own["tools"] if name != TOOL)][:5]
    assert row["clause"] == FRESH["token"]
    assert row["clauses"][0]["token"] == FRESH["token"] and row["clauses"][0]["trained"] is False
    assert all(one["trained"] for one in row["clauses"][1:]), "the others are learned"
    assert row["features"] == {}, "how sure the model was says nothing of this tool"


def test_its_trace_is_written_out_from_the_clause_and_the_models_own_text_stays(
    engine: Engine, held: Engine
) -> None:
    own, row = ask(engine, TEXT, "trace"), ask(held, TEXT, "trace")
    assert row["trace"].startswith(f'PAY_NEW (in force, not yet trained) decides: "{quoted(FRESH)}".')
    assert f"Not {own['tools'][0]}: " in row["trace"] and f"So it is {TOOL}" in row["trace"]
    assert row["tools"] == [TOOL, *own["tools"][1:]] and row["ranked"][0] == TOOL
    assert (row["wrote"], row["raw"]) == (own["wrote"], own["raw"])
    assert row["follows_trace"] is True and row["trace_tools"] == row["tools"]
    both = ask(held, TEXT, "both")
    assert both["fast"]["tools"][0] == both["trace"]["tools"][0] == TOOL


def test_a_clause_that_the_model_has_learned_leaves_its_answer_to_it(engine: Engine, held: Engine) -> None:
    for told in CLAUSES:
        for decode in ("fast", "trace"):
            assert ask(held, told["text"], decode) == ask(engine, told["text"], decode)


def test_a_clause_whose_tool_may_not_be_used_never_puts_it_first(engine: Engine) -> None:
    leads = clause("TAX_NEW", 1, "Tax/Get", TEXT)
    held = engine.holding([], [*CLAUSES, leads])
    assert ask(held, TEXT)["tools"][0] == ask(held, TEXT, permissions=["tax"])["tools"][0] == "Tax/Get"
    for item in ({"permissions": []}, {"without": ["Tax/Get"]}, {"domain": "hr"}):
        for decode in ("fast", "trace"):
            assert ask(held, TEXT, decode, **item) == ask(engine, TEXT, decode, **item)


def test_a_clause_that_waits_does_not_speak(engine: Engine) -> None:
    waiting = engine.holding([], [{**one, "waits": True} for one in IN_FORCE])
    assert ask(waiting, TEXT) == ask(engine, TEXT)


def test_a_withdrawn_clause_no_longer_speaks(engine: Engine) -> None:
    assert ask(engine.holding([], CLAUSES), TEXT) == ask(engine, TEXT)
    assert ask(engine.holding([], []), TEXT) == ask(engine, TEXT)


def test_a_model_that_learned_from_no_rule_answers_by_all_of_them(tmp_path: Path) -> None:
    engine = open_engine(write_export(tmp_path / "export", "a", clauses=[]), threads=1)
    row = ask(engine.holding([], CLAUSES), CLAUSES[5]["text"])
    assert (row["tools"][0], row["clause"]) == ("Leave/Create", CLAUSES[5]["token"])


def test_an_export_that_does_not_tell_what_it_learned_answers_as_before(tmp_path: Path) -> None:
    engine = open_engine(write_export(tmp_path / "export", "a"), threads=1)
    row = ask(engine.holding([], IN_FORCE), TEXT, "trace")
    assert row == ask(engine, TEXT, "trace") and "wrote" not in row and "clause" not in row


def test_a_model_behind_a_server_answers_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_export(tmp_path / "export", "c", clauses=CLAUSES)
    server, ours = served(folder), open_engine(folder, threads=1).holding([], IN_FORCE)
    monkeypatch.setenv("TRACE_BACKEND_URL", server.url.removesuffix("/v1"))
    theirs = open_engine(folder, threads=1).holding([], IN_FORCE)
    assert not isinstance(theirs, Engine)
    for query in (TEXT, CLAUSES[0]["text"]):
        for decode in ("fast", "trace"):
            rows = [ask(one, query, decode) for one in (ours, theirs)]
            for name in ("tools", "trace", "clause", "wrote", "follows_trace"):
                assert rows[0].get(name) == rows[1].get(name)
            assert ("clause" in rows[0]) == (query == TEXT)
    server.close()


def test_the_papers_decodes_are_the_models_own(engine: Engine, held: Engine) -> None:
    for decode in ("beam", "trace-free"):
        assert ask(held, TEXT, decode) == ask(engine, TEXT, decode)


many = settings(max_examples=40, deadline=None)


@many
@given(item=items)
def test_it_speaks_where_it_is_nearest_and_nearer_than_the_models_tool(
    engine: Engine, held: Engine, item: dict[str, Any]
) -> None:
    own, row = (one.ask(item, "fast", 20)() for one in (engine, held))
    beside = held.export.overlay
    assert isinstance(beside, Unlearned)
    pocket = beside.pocket
    query, first = (
        item["query"],
        next(iter(engine.ask({**item, "permissions": None}, "fast")()["tools"]), ""),
    )
    if not first or TOOL in item["without"] or item["domain"] == "hr":
        assert "clause" not in row
        return
    tools = {tool["name"]: embedding_text(tool["name"], tool["description"]) for tool in pocket.spec["tools"]}
    seen = [name for name in tools if not pocket.left_out(item)[pocket.numbers[name]]]
    reading, *about = pocket.embedded([query, *(tools[name] for name in seen)])
    cosine = dict(zip(seen, (about[at] @ reading for at in range(len(seen))), strict=True))

    def near(one: dict[str, Any]) -> float:
        """As near as its rule, if it is the nearest clause of it."""
        rule = [
            other
            for other in pocket.clauses
            if other["rule"] == one["rule"] and set(other["tools"]) & {*seen}
        ]
        words = {
            other["token"]: float(pocket.rows.clauses[pocket.places[other["token"]]] @ reading)
            for other in rule
        }
        best = max([*words.values(), *(cosine[name] for name in one["set"] if name in seen)])
        return best - max(words.values()) + words[one["token"]] + MARGIN

    speak = {one["token"]: near(one) for one in pocket.clauses if set(one["tools"]) & {*seen}}
    (model_tool,) = pocket.embedded([embedding_text(first, beside.tools[first]["description"])])
    margins = [speak[FRESH["token"]] - other for token, other in speak.items() if token != FRESH["token"]]
    margins.append(speak[FRESH["token"]] - float(model_tool @ reading))
    if min(map(abs, margins)) > 1e-4:  # else rounding decides
        assert ("clause" in row) == (min(margins) > 0)
        assert row["tools"] == (
            [TOOL, *(name for name in own["tools"] if name != TOOL)] if "clause" in row else own["tools"]
        )


@many
@given(item=items)
def test_an_answer_is_what_its_trace_concludes(held: Engine, item: dict[str, Any]) -> None:
    row = held.ask(item, "trace", 5)()
    if row["tools"] or row["withheld"]:
        concluded = row["trace"].rpartition("So it is ")[2].rstrip(".").replace(" and ", ", ").split(", ")
        assert concluded == row["tools"] or set(concluded) == {*row["tools"], *row["withheld"]}
        assert row["wrote"] != row["trace"]
