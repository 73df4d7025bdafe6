"""The pocket model's decisions: the ranking, the trace and another clause's answer come from the same numbers."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from catalog.core.tool import embedding_text  # noqa: E402
from evaluation.core.confidence import BEST  # noqa: E402
from evaluation.core.questions import YES_NO, qa_question  # noqa: E402
from evaluation.core.written_out import quoted  # noqa: E402
from evaluation.ml.asked import Asked  # noqa: E402
from evaluation.ml.deciding import (  # noqa: E402
    SECOND,
    SPOKEN,
    Found,
    PocketExport,
    decided,
    likeliest_clauses,
    load_pocket,
    ranking,
    read,
)
from evaluation.ml.engine import Engine, open_engine  # noqa: E402
from tests.evaluation.tiny_export import CLAUSES, NAMES, PERMISSIONS, clause, tools, write_pocket  # noqa: E402
from tests.training.small_encoder import WORDS  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from training.ml.bases.pocket import Reader, load  # noqa: E402

pytestmark = pytest.mark.ml
LEADING = [one for one in CLAUSES if one["stance"] == "use"]
spoken = [*WORDS, *(word for name in NAMES for word in name.lower().split("/"))]
texts = st.lists(st.sampled_from(spoken), min_size=1, max_size=14).map(" ".join)
items = st.fixed_dictionaries(
    {
        "id": st.just("1"),
        "query": st.one_of(texts, st.sampled_from([one["text"] for one in CLAUSES])),
        "permissions": st.one_of(st.none(), st.lists(st.sampled_from(["tax", "leave"]), unique=True)),
        "without": st.lists(st.sampled_from(NAMES), max_size=12, unique=True),
        "domain": st.sampled_from(["", "", "hr", "finance"]),
    }
)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> list[Engine]:
    """Of rows that stand for the texts, and of rows that stand for nothing; rules speak often in all, not always."""
    folder = tmp_path_factory.mktemp("pocket")
    made = [
        write_pocket(folder / str(seed), fmt, noise=noise, seed=seed, bar=bar)
        for seed, (fmt, noise, bar) in enumerate([("a", 0.0, 0.0), ("b", 2.0, 0.5), ("c", 2.0, -1.0)])
    ]
    return [open_engine(one, threads=1) for one in made]


@pytest.fixture(scope="module", params=["a", "b", "c"])
def clear(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Decides as its encoder compares texts."""
    folder = tmp_path_factory.mktemp("clear") / "export"
    found: Engine = open_engine(write_pocket(folder, request.param, bar=1.0), threads=1)
    return found


@pytest.fixture(scope="module")
def engine(engines: list[Engine]) -> Engine:
    return engines[0]


def found_of(engine: Engine, item: dict[str, Any]) -> Found:
    return read(engine.export, [engine.asked(item, "trace", 10)])[0]


def predicted(engine: Engine, items: list[dict[str, Any]], decode: str, k: int = 5) -> dict[str, Any]:
    return {row["id"]: row for batch in engine.predict(items, decode, k) for row in batch}


def one(engine: Engine, query: str, decode: str = "trace", **item: Any) -> dict[str, Any]:
    (row,) = predicted(engine, [{"id": "1", "query": query, **item}], decode).values()
    return row


def refused_of(item: dict[str, Any]) -> set[str]:
    """The tools that a request may not use."""
    granted = item["permissions"]
    return {
        name for name, need in PERMISSIONS.items() if granted is not None and not set(need) & set(granted)
    }


many = settings(max_examples=60, deadline=None)


# one distribution


@given(item=items)
@many
def test_a_tool_is_as_likely_as_the_likeliest_decision_that_leads_to_it(
    engines: list[Engine], item: dict[str, Any]
) -> None:
    for engine in engines:
        export, found = engine.export, found_of(engine, item)
        for number, name in enumerate(export.names):
            decisions = [float(found.free[number])] + [
                float(found.ruled[place][one["tools"].index(name)])
                for place, one in enumerate(export.clauses)
                if name in one["tools"]
            ]
            if not found.hidden[number]:
                assert float(found.best[number]) == max(decisions)
        shown = ~found.hidden
        if shown.any():  # all decisions together are certain
            together = torch.from_numpy(np.concatenate([found.free[shown], found.ruled.ravel()]))
            assert float(together.logsumexp(dim=0)) == pytest.approx(0, abs=1e-4)


@given(item=items, k=st.integers(1, 20))
@many
def test_the_trace_ends_in_its_answer_and_the_ranking_begins_with_it(
    engines: list[Engine], item: dict[str, Any], k: int
) -> None:
    for engine in engines:
        export = engine.export
        row, fast = engine.ask(item, "trace", k)(), engine.ask(item, "fast", k)()
        assert row["ranked"] == fast["tools"] and row["clauses"] == fast["clauses"]
        assert row["clause"] == fast["clause"] and row["features"] == fast["features"]
        assert row["withheld_first"] == fast["withheld_first"]
        if not row["trace"]:
            assert (row["tools"], fast["tools"], row["follows_trace"]) == ([], [], None)
            continue
        conclusion = re.search(r"So it is (.*)\.$", row["trace"])
        assert conclusion and re.split(", | and ", conclusion[1]) == row["trace_tools"]
        refused = refused_of(item)
        assert row["tools"] == [name for name in row["trace_tools"] if name not in refused]
        assert row["withheld"] == [name for name in row["trace_tools"] if name in refused]
        assert row["withheld_first"] == (row["trace_tools"][0] in refused)
        if not row["withheld_first"]:
            assert row["tools"][0] == fast["tools"][0] and row["scores"][0] == fast["scores"][0]
        units = re.findall(r'"(.*?)"', row["raw"].partition("[")[2])
        assert units == [export.units[name] for name in row["trace_tools"]]


@given(item=items)
@many
def test_with_another_clause_in_its_place_the_answer_follows_that_one(
    engines: list[Engine], item: dict[str, Any]
) -> None:
    for engine in engines:
        export, found = engine.export, found_of(engine, item)
        order = ranking(found.best, BEST)
        for place, one in enumerate(export.clauses):
            able = [name for name in one["tools"] if not found.hidden[export.numbers[name]]]
            if able:
                follows = decided(export, found, order, clause=one["token"])
                assert follows.clause == one and follows.listed[0] in able
                assert float(found.ruled[place].max()) == pytest.approx(
                    float(found.shares[place]) + max(_chances(export, found, able)), abs=1e-4
                )
        if order:
            own = decided(export, found, order)
            assert own.listed[0] == export.names[order[0][0]]
            if own.clause:
                assert own == decided(export, found, order, clause=own.clause["token"])


def _chances(export: PocketExport, found: Found, names: list[str]) -> list[float]:
    """Of tools that one clause leads to."""
    cosines = torch.from_numpy(found.cosines[[export.numbers[name] for name in names]])
    return (cosines * export.model.scale.exp()).log_softmax(dim=0).tolist()  # type: ignore[no-any-return]


# what the text says


def second_of(row: dict[str, Any], speaks: dict[str, Any] | None) -> dict[str, Any] | None:
    """The clause of another rule that speaks at once with the one that decides."""
    loud = [told["token"] for told in row["clauses"] if told["share"] >= SECOND]
    others = [one for token in loud for one in CLAUSES if one["token"] == token]
    return next((one for one in others if speaks and one["rule"] != speaks["rule"]), None)


@given(item=items)
@many
def test_what_a_trace_quotes_stands_in_the_rule_and_what_it_says_of_look_alikes_is_true(
    engines: list[Engine], item: dict[str, Any]
) -> None:
    for engine in engines:
        export, found = engine.export, found_of(engine, item)
        row = engine.ask(item, "trace", 10)()
        if not row["trace"]:
            continue
        speaks = next((one for one in CLAUSES if one["token"] == row["clause"]), None)
        if speaks:
            opening = f'{speaks["rule"]} decides: "{quoted(speaks)}".'
        else:
            opening = "The model finds no clause near enough to decide and takes the closest tool."
        second = second_of(row, speaks)
        if second:
            opening += f' {second["rule"]} speaks too: "{quoted(second)}".'
        assert row["trace"].startswith(f"{opening} ")
        first = found.cosines[export.numbers[row["trace_tools"][0]]]
        reasons = re.findall(r"Not (\S+): (.*?)\.(?= Not \S+/| So it is )", row["trace"])
        assert len(reasons) <= 3 and len(reasons) == row["tokens"] - 1 - bool(second) - len(
            row["trace_tools"]
        )
        numbers = [export.numbers[name] for name, _ in reasons]
        if speaks:  # the nearest of the rule's other tools
            others = {export.numbers[name] for name in speaks["set"] if name not in row["trace_tools"]}
            shown = sorted((n for n in others if not found.hidden[n]), key=lambda n: -float(found.cosines[n]))
            assert numbers == shown[:3]
        for name, reason in reasons:
            number, tool = export.numbers[name], export.spec["tools"][export.numbers[name]]
            assert not found.hidden[number] and name not in row["trace_tools"]
            assert speaks is None or name in speaks["set"]
            about = [
                one
                for one in CLAUSES
                if speaks and one["rule"] == speaks["rule"] and name in one["tools"] and one != speaks
            ]
            if tool["deprecated"]:
                assert reason == "it is deprecated"
            elif name in refused_of(item):
                assert reason == "it needs another permission"
            elif about:
                places = [export.places[one["token"]] for one in about if one in LEADING]
                nearest = max(places, key=lambda place: float(found.shares[place]), default=None)
                quote = about[0] if nearest is None else export.clauses[nearest]
                assert reason == f'the rule says "{quoted(quote)}"'
            elif found.cosines[number] < first:
                assert reason == "it is a weaker match"
            else:
                assert reason == ("the rule leads elsewhere" if speaks else "it is no closer a match")


def test_two_rules_that_speak_at_once_are_both_named(engine: Engine) -> None:
    twin = {**clause("PAY_TWIN", 1, "PayV2/Get", LEADING[0]["text"]), "set": ["PayV2/Get", "PayV1/Get"]}
    row = one(holding(engine, [], [*CLAUSES, twin]), LEADING[0]["text"])
    named = [
        re.search(rf"{rule}[^.]* (decides|speaks too): ", row["trace"]) for rule in ("PAY_OLD", "PAY_TWIN")
    ]
    assert all(named) and {found[1] for found in named if found} == {"decides", "speaks too"}
    assert {told["token"] for told in row["clauses"][:2]} == {LEADING[0]["token"], twin["token"]}
    assert all(token in row["raw"].split() for token in (LEADING[0]["token"], twin["token"]))


def test_of_two_clauses_that_lead_to_a_look_alike_the_nearer_one_is_quoted(engine: Engine) -> None:
    export, drops = engine.export, [CLAUSES[2], CLAUSES[3]]
    for near in drops:
        found = found_of(engine, {"id": "1", "query": near["text"]})
        decision = decided(export, found, ranking(found.best, BEST), clause=CLAUSES[0]["token"])
        about = {one.tool["name"]: one.clause for one in decision.weighed}
        assert about["PayV1/Drop"] is not None and about["PayV1/Drop"]["token"] == near["token"]


# how requests are answered


def test_what_is_answered_is_the_same_alone_and_in_a_crowd(engines: list[Engine]) -> None:
    asked = [
        {
            "id": str(n),
            "query": f"{one['text']} {'please ' * (n % 7)}",
            "permissions": [None, [], ["tax"]][n % 3],
        }
        for n, one in enumerate(CLAUSES * 5)
    ]
    for engine in engines:
        for decode in ("fast", "trace"):
            with ThreadPoolExecutor(16) as pool:
                crowd = list(
                    pool.map(lambda *one, engine=engine: engine.ask(*one)(), asked, repeat(decode), repeat(5))
                )
            for item, row in zip(asked[::3], crowd[::3], strict=True):
                alone = predicted(engine, [item], decode)[item["id"]]
                assert (alone["tools"], alone["trace"], alone["raw"]) == (
                    row["tools"],
                    row["trace"],
                    row["raw"],
                )
                assert alone["scores"] == pytest.approx(row["scores"], abs=1e-3)


def test_a_trace_is_told_after_the_ranked_answer(engine: Engine) -> None:
    events: list[Any] = []
    row = engine.ask({"id": "1", "query": "pay"}, "both", 3, lambda *event: events.append(event))()
    assert [name for name, _ in events] == ["fast", "text"]
    assert events[0][1]["tools"] == row["fast"]["tools"] and events[1][1] == row["trace"]["trace"]
    assert row["fast"]["tools"][0] == row["trace"]["tools"][0]
    engine.ask({"id": "1", "query": "pay"}, "trace", 3, lambda *event: events.append(event))()
    assert events[2:] == [("text", row["trace"]["trace"])]


def test_a_catalog_that_is_left_out_whole_is_answered_with_nothing(engines: list[Engine]) -> None:
    for engine in engines:
        for decode in ("fast", "trace"):
            row = one(engine, CLAUSES[0]["text"], decode, without=NAMES)
            assert (row["tools"], row["trace"], row["clauses"], row["withheld"]) == ([], "", [], [])
            assert row["follows_trace"] is None


@pytest.mark.parametrize(("without", "domain"), [(["Leave/Create"], ""), ([], "finance")])
def test_a_clause_whose_tools_are_all_hidden_never_speaks(
    engines: list[Engine], without: list[str], domain: str
) -> None:
    (hidden,) = [one for one in CLAUSES if one["tools"] == ["Leave/Create"]]
    for engine in engines:
        before = one(engine, hidden["text"])
        row = one(engine, hidden["text"], without=without, domain=domain)
        assert hidden["token"] not in [told["token"] for told in row["clauses"]]
        assert row["clause"] != hidden["token"] and "Leave/Create" not in row["ranked"]
        assert hidden["text"] not in row["trace"]
        assert one(engine, hidden["text"])["trace"] == before["trace"]
    assert one(engines[0], hidden["text"])["clause"] == hidden["token"]


def test_tools_that_are_left_out_stand_in_no_answer_and_no_text(engines: list[Engine]) -> None:
    for engine in engines:
        for gone in NAMES:
            for query in (gone, *(told["text"] for told in CLAUSES if gone in told["tools"])):
                row = one(engine, query, without=[gone])
                assert gone not in {*row["tools"], *row["ranked"], *row["trace_tools"]}
                assert (
                    f"Not {gone}:" not in row["trace"] and engine.export.units[gone] not in row["raw"].split()
                )


def test_the_likeliest_clauses_are_told_with_their_shares(engine: Engine) -> None:
    told = one(engine, CLAUSES[0]["text"])["clauses"]
    assert told[0]["token"] == CLAUSES[0]["token"] and told[0]["trained"]
    shares = [row["share"] for row in told]
    assert shares == sorted(shares, reverse=True) and 0.5 < shares[0] <= 1 and sum(shares) <= 1.001


def test_the_clause_that_decides_is_told_however_many_are_likelier(engine: Engine) -> None:
    export = engine.export
    item = {"id": "1", "query": CLAUSES[0]["text"]}
    (found,) = read(export, [Asked(item, "fast", 1, export.ids_of(item, "fast"))])
    shares = [1 / (2 + place) for place in range(len(export.clauses))]
    found = found._replace(shares=np.log(shares))
    for decides in export.clauses:
        told = [one for _, one in likeliest_clauses(export, found, decides)]
        assert decides in told and len(told) == min(SPOKEN, len(export.clauses))


def test_a_model_that_learned_no_rule_says_so(tmp_path: Path) -> None:
    engine = open_engine(write_pocket(tmp_path / "export", clauses=[]), threads=1)
    row = one(engine, "get the leave records")
    assert row["trace"].startswith(
        "The model finds no clause near enough to decide and takes the closest tool. Not "
    )
    assert (row["clauses"], row["clause"], row["features"]["ruled"]) == ([], None, -30.0)


def test_features_tell_how_surely_a_rule_speaks(engine: Engine) -> None:
    ruled, free = (one(engine, text)["features"]["ruled"] for text in (CLAUSES[0]["text"], "PayV2 drop"))
    assert free < ruled <= 0
    assert one(engine, "pay")["features"].keys() == {
        *("first", "lead", "best", "nearest", "near", "usual", "stands_out", "ruled", "reading")
    }


def test_letters_take_the_option_that_lies_nearest(engine: Engine) -> None:
    export = engine.export
    name, *others = (tool["description"] for tool in export.spec["tools"][:3])
    asked = [
        {
            "id": "described",
            "tool": NAMES[5],
            "question": "Which?",
            "choices": ["books", "PayV2 list", "music"],
        },
        {"id": "about none", "tool": None, "question": name, "choices": [others[0], name, others[1]]},
    ]
    rows = predicted(engine, asked, "letters")
    assert rows["about none"]["letter"] == "B" and len(rows["described"]["scores"]) == 3
    told = export.spec["tools"][3]
    question = qa_question(
        {"id": "q", "tool": told["name"], "question": told["description"], "answer": "Yes", "domain": "hr"}
    )
    assert tuple(question["choices"]) == YES_NO
    (row,) = predicted(engine, [question], "letters").values()
    assert row["letter"] == "AB"[row["scores"].index(max(row["scores"]))]


# reading


@given(text=st.text(max_size=200))
@many
def test_a_text_is_read_as_its_tokenizer_cuts_it(engine: Engine, text: str) -> None:
    reader: Reader = engine.export.reader
    cut = reader.words(text, truncation=True, max_length=reader.longest).input_ids
    whole = reader.words(text, verbose=False).input_ids
    assert reader.ids(text) == cut and reader.is_cut(text) == (len(whole) > reader.longest)


@pytest.mark.parametrize(
    ("query", "unread"),
    [
        ("show my pay slip", []),
        ("show 工资 slip ☃ please", ["工资"]),
        ("☃ 2024", []),  # no words
        ("pay " * 90 + "工资", ["工资"]),  # beyond what is read, too
    ],
)
def test_words_that_the_encoder_does_not_know_are_named(
    engine: Engine, query: str, unread: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.core.scripts.READABLE", 100)  # this vocabulary is small
    assert Reader(engine.export.reader.words, 64).unread(query) == unread


def test_many_threads_read_at_once(engine: Engine) -> None:
    reader = engine.export.reader
    asked = ["pay " * n for n in range(1, 120)] * 4
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(reader.ids, asked)) == [reader.ids(text) for text in asked]
        assert list(pool.map(reader.is_cut, asked)) == [reader.is_cut(text) for text in asked]


# what came after the model


NEW = {
    "name": "Travel/Post Card",
    "description": "Posts a card from the travel centre",
    "domain": "hr",
    "permissions": [],
    "deprecated": False,
}


def text_of(tool: dict[str, Any]) -> str:
    return embedding_text(tool["name"], tool["description"])


def holding(engine: Engine, more: list[dict[str, Any]], clauses: list[dict[str, Any]] = CLAUSES) -> Engine:
    return engine.holding([*tools(), *more], clauses)


def test_a_newer_tool_is_found_by_its_description_and_gone_with_its_list(clear: Engine) -> None:
    back = {**NEW, "name": "Old/Gone", "description": "Lists hotels and places of interest"}
    held = holding(clear, [NEW, back])
    for tool in (NEW, back):
        row = one(held, text_of(tool))
        assert row["tools"][0] == tool["name"] and row["trace"].endswith(f"So it is {tool['name']}.")
        assert row["features"] == {}, "no threshold was fitted on such an answer"
        assert tool["name"] not in one(clear, text_of(tool), "fast")["tools"]
    assert "Old/Gone" not in one(holding(clear, [NEW]), text_of(back), "fast")["tools"]
    assert held.export.names == sorted([*NAMES, NEW["name"], "Old/Gone"])


def test_a_newer_tool_keeps_its_domain_and_its_permissions(engine: Engine) -> None:
    held = holding(engine, [{**NEW, "permissions": ["card"], "domain": "travel"}])
    text = text_of(NEW)
    row = one(held, text, "fast", permissions=[])
    assert row["withheld"][0] == NEW["name"] and row["withheld_first"] and NEW["name"] not in row["tools"]
    assert one(held, text, "fast", permissions=["card"])["tools"][0] == NEW["name"]
    assert one(held, text, "fast", domain="travel")["tools"] == [NEW["name"]]
    assert NEW["name"] not in one(held, text, "fast", domain="hr")["tools"]
    assert one(held, text, "trace", permissions=[])["tools"] == []


def test_requests_for_known_tools_find_them_in_the_order_of_before(engines: list[Engine]) -> None:
    for engine in engines:
        held = holding(engine, [NEW])
        for query in ("pay", "list the leave records", "create tax"):
            item = {"id": "1", "query": query}
            old, new = (which.ask(item, "fast", 20)()["tools"] for which in (engine, held))
            known = [name for name in new if name != NEW["name"]]
            assert len(old) == len(known) == len(NAMES) and known[0] == old[0]


def test_holding_what_it_learned_changes_no_answer(engines: list[Engine]) -> None:
    asked = [{"id": str(n), "query": told["text"]} for n, told in enumerate(CLAUSES)]
    for engine in engines:
        before, after = predicted(engine, asked, "trace"), predicted(holding(engine, []), asked, "trace")
        for key, row in before.items():
            assert {**row, "seconds": 0} == {**after[key], "seconds": 0}


FRESH = clause("PAY_NEW", 1, "PayV2/Drop", "Whatever the weather of the city is, PayV2/Drop has it.")


def test_an_untrained_clause_is_in_force_when_it_is_held(engines: list[Engine]) -> None:
    for engine in engines:
        held = holding(engine, [], [*CLAUSES, FRESH])
        row = one(held, FRESH["text"])
        assert row["tools"][0] == "PayV2/Drop" and row["clause"] == FRESH["token"]
        assert row["trace"].startswith("PAY_NEW (in force, not yet trained) decides: ")
        assert [told["trained"] for told in row["clauses"]][0] is False
        assert row["features"] == {}, "no threshold was fitted on such an answer"
        assert one(engine, FRESH["text"])["clause"] != FRESH["token"]


def test_a_clause_that_leads_to_a_newer_tool_leads_to_it(engine: Engine) -> None:
    text = "Music of the school goes there"
    leads = {**FRESH, "tools": [NEW["name"]], "set": ["PayV2/Get", NEW["name"]], "text": text}
    row = one(holding(engine, [NEW], [*CLAUSES, leads]), leads["text"])
    assert row["tools"][0] == NEW["name"] and row["clause"] == leads["token"]
    assert one(holding(engine, [], [*CLAUSES, leads]), leads["text"])["clause"] != leads["token"], "no tool"


def test_a_withdrawn_clause_no_longer_speaks(engines: list[Engine]) -> None:
    left = [told for told in CLAUSES if told["rule"] != "LEAVE_DAYS"]
    for engine in engines:
        held = holding(engine, [], left)
        for told in CLAUSES[5:7]:
            row = one(held, told["text"])
            assert row["clause"] != told["token"] and "LEAVE_DAYS" not in row["trace"]
            assert not any("LEAVE_DAYS" in spoken["token"] for spoken in row["clauses"])
    assert one(holding(engines[0], [], left), CLAUSES[0]["text"])["clause"] == CLAUSES[0]["token"]
    silent = holding(engines[0], [], [])
    assert one(silent, CLAUSES[0]["text"])["trace"].startswith("The model finds no clause near enough")


def test_an_edited_rule_speaks_in_its_new_words_and_not_in_its_old_ones(engine: Engine) -> None:
    text = "A slip of music and games is read with PayV1/Get."
    edited = {**CLAUSES[0], "token": "<<PAY_OLD#6>>", "version": 2, "text": text}
    held = holding(engine, [], [edited, *CLAUSES[1:]])
    for query in (edited["text"], CLAUSES[0]["text"]):
        row = one(held, query)
        assert CLAUSES[0]["text"] not in row["trace"] and row["clause"] != CLAUSES[0]["token"]
    row = one(held, edited["text"])
    assert row["clause"] == edited["token"] and f'"{quoted(edited)}"' in row["trace"]


def test_a_clause_that_waits_speaks_where_training_has_seen_it_and_nowhere_else(engine: Engine) -> None:
    held = holding(engine, [], [{**told, "waits": True} for told in [*CLAUSES, FRESH]])
    assert one(held, CLAUSES[0]["text"])["clause"] == CLAUSES[0]["token"]
    row = one(held, FRESH["text"])
    assert FRESH["token"] not in [row["clause"], *(told["token"] for told in row["clauses"])]


def test_a_clause_that_training_taught_keeps_its_row(engines: list[Engine]) -> None:
    for engine in engines:
        old = engine.export
        held = holding(engine, [NEW], [FRESH, *reversed(CLAUSES)]).export
        for told in LEADING:
            before, after = (which.rows.clauses[which.places[told["token"]]] for which in (old, held))
            assert torch.equal(before, after)
        for number, name in enumerate(old.names):
            assert torch.equal(old.rows.tools[number], held.rows.tools[held.numbers[name]])


def test_a_text_is_read_once_however_often_it_is_held(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, asked = Engine(replace(engine.export, texts={})), []

    def embed(model: Any, reader: Any, recipe: Any, texts: list[str], real: Any = None) -> torch.Tensor:
        asked.extend(texts)
        return torch.ones(len(texts), 32)

    monkeypatch.setattr("evaluation.ml.deciding.embed", embed)
    for more in ([NEW], [NEW, {**NEW, "name": "Old/Gone"}], [NEW]):
        holding(base, more)
    assert len(asked) == 2


def test_a_folder_with_other_weights_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    from trace_site.lib.errors import TraceError

    folder = write_pocket(tmp_path / "export")
    state = load_file(folder / "model.safetensors")
    state.pop("margin")
    save_file(state, folder / "model.safetensors")
    with pytest.raises(TraceError, match="not those of a pocket model"):
        load(folder, 64)


def test_letters_and_requests_share_a_batch(engine: Engine) -> None:
    batch = engine.new_batch()
    question = {"id": "q", "tool": None, "question": "pay", "choices": ["pay", "music"]}
    both = [engine.asked(question, "letters", 5), engine.asked({"id": "1", "query": "pay"}, "fast", 5)]
    batch.run(both)
    rows = [found.row for found in both if isinstance(found, Asked)]
    assert [row and row["id"] for row in rows] == ["q", "1"]


def test_a_pocket_of_before_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="of an earlier version, which wrote its traces") as caught:
        load_pocket(tmp_path, "digest", {"base": "pocket", "max_prompt_tokens": 256})
    assert caught.value.code == "bad_export" and "plain search" in caught.value.hint
