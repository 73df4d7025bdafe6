"""What the pocket model learns of a snapshot: which tools a text asks for, and which clause says so."""

from pathlib import Path

import pytest

from tests.training.small_snapshot import NAMES, TEXTS, write_snapshot
from training.core.decisions import Decision, memorized, reread, restated, retrieved
from training.core.memorization import in_short
from training.core.recipe import Recipe
from training.core.records import Snapshot, load_snapshot

SLIP = "PayV1/GetSlip"


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return load_snapshot(write_snapshot(tmp_path / "snapshot"))


def of_tool(found: list[Decision]) -> list[Decision]:
    return [one for one in found if one.text == TEXTS[0]]


def test_a_description_asks_for_its_tool_among_all_and_among_its_look_alikes(snapshot: Snapshot) -> None:
    found = memorized(snapshot, Recipe(format="a", mcts_negatives=2))
    assert len(found) == 2 * len(NAMES)
    assert of_tool(found) == [
        Decision(TEXTS[0], (SLIP,)),
        Decision(TEXTS[0], (SLIP,), among=(SLIP, "PayV1/ListRuns", "PayV2/GetSlip")),
    ]


def test_formats_of_two_tokens_ask_for_the_api_and_for_the_endpoint_within_it(snapshot: Snapshot) -> None:
    b, c = (memorized(snapshot, Recipe(format=fmt)) for fmt in ("b", "c"))
    own = (SLIP, "PayV1/ListRuns")
    assert b == c and of_tool(b)[2:] == [
        Decision(TEXTS[0], own, together=True),
        Decision(TEXTS[0], (SLIP,), among=own),
    ]


def test_a_reasoning_memo_memorizes_what_a_plain_one_does(snapshot: Snapshot) -> None:
    assert memorized(snapshot, Recipe(memo="mr")) == memorized(snapshot, Recipe(memo="m"))


def test_a_sample_of_a_rule_is_decided_by_the_clauses_that_lead_to_its_answer(snapshot: Snapshot) -> None:
    found = {one.text: one for one in retrieved(snapshot, Recipe(retrieval="r+R"))}
    assert all(one.weighs and one.counts for one in found.values()) and len(found) == 2 * 10
    spoken = {text: one.clauses for text, one in found.items() if one.clauses}
    assert spoken == {
        "please show case 0": ("<<hr/SLIP#2>>",),
        "The request is about case 0.": ("<<hr/SLIP#2>>",),
        "please show case 2": ("<<hr/SLIP#1>>",),
        "The request is about case 2.": ("<<hr/SLIP#1>>",),
    }


@pytest.mark.parametrize(
    ("trace", "read"),
    [
        ("Somebody wants a slip. So it is A/B.", ["Somebody wants a slip."]),
        ("A slip is wanted; A/B has it.", ["A slip is wanted;"]),
        ("A/B has what is wanted. A/C has not.", []),
        ("Only one sentence", ["Only one sentence"]),
        ("", []),
        (None, []),
    ],
)
def test_a_request_is_read_once_more_as_its_trace_restates_it(trace: str | None, read: list[str]) -> None:
    assert restated({"trace": trace, "answer": ["A/B"]}) == read


@pytest.mark.parametrize("retrieval", ["n", "n>r", "r"])
def test_without_rules_no_clause_speaks_or_stands_beside_the_tools(
    snapshot: Snapshot, retrieval: str
) -> None:
    found = retrieved(snapshot, Recipe(retrieval=retrieval, base="pocket"))
    assert not any(one.clauses or one.weighs for one in found)


def test_the_plain_pass_reads_requests_and_no_traces(snapshot: Snapshot) -> None:
    plain, reasoned = ({one.text for one in retrieved(snapshot, Recipe(retrieval=way))} for way in "nr")
    assert len(plain) == 5 and reasoned - plain == {
        f"The request is about case {n}." for n in (1, 3, 5, 7, 9)
    }


def test_a_description_is_read_again_as_a_request_whole_and_in_short(snapshot: Snapshot) -> None:
    assert reread(snapshot, Recipe(retrieval="r+R")) == []
    found = reread(snapshot, Recipe(retrieval="r+R", replay=1.0))
    texts = [text for told in TEXTS for text in (told, in_short(told))]
    assert [(one.text, one.weighs, one.counts) for one in found] == [(text, True, False) for text in texts]


@pytest.mark.parametrize(
    ("description", "short"),
    [
        ("Cancels an order. It stays in the list.", "cancels an order"),
        ("Get a list (paged)", "get a list"),
        (" ".join(["Word"] * 30), " ".join(["word"] * 10)),
        ("(beta) Get", "(beta) Get"),
        ("", ""),
    ],
)
def test_in_short_a_description_is_its_first_words(description: str, short: str) -> None:
    assert in_short(description) == short
