"""Clauses as sentences of the text and back: nothing typed is lost, and what is written is read back the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.core.rule import LONGEST_SENTENCE
from rules.core.sentences import compare, follow, said, say, sentences

TOOLS = ("Pay/get", "Pay/getOld", "Pay/get.v2", "Slip/list-all")


def clause(when: str, tool: str = "Pay/get", exception: bool = False) -> dict[str, Any]:
    return {"when": when, "route_to": tool, "exception": exception, "signals": []}


WHEN = st.text(alphabet="abz AZ09,.;:!?'\"-/()\n\tß°", max_size=40) | st.sampled_from(
    [
        "the year is 2024 or later",
        "if it is late",
        "use Pay/get, use Pay/getOld",
        "a, b, and c",
        "v1.2 is meant",
    ]
)
CLAUSE = st.builds(clause, WHEN, st.sampled_from(TOOLS), st.booleans())
CLAUSES = st.lists(
    CLAUSE, max_size=4, unique_by=lambda one: said({**one, "exception": False}).casefold() or id(one)
)
PROSE = st.lists(
    st.sampled_from(
        [
            "Payslips are kept for years.",
            "Pay/getOld is old",
            "\n",
            "When in doubt, ask.",
            "\n\n- a point",
            "e.g.",
        ]
    )
    | st.text(max_size=20)
    | CLAUSE.map(said),
    max_size=6,
).map(" ".join)


@pytest.mark.parametrize(
    ("text", "when", "tool", "exception", "plain"),
    [
        ("When the year is 2024, use Pay/get.", "the year is 2024", "Pay/get", False, True),
        ("First. exception: When X y, use Pay/getOld.", "X y", "Pay/getOld", True, True),
        ("If a lender asks, always call Slip/list-all, as ever.", "a lender asks", "Slip/list-all", False, False),
        ("Use Pay/get.v2 only when it rains; else not.", "it rains", "Pay/get.v2", False, False),
        ("Late.\nwhenever it is v1.2, then choose Pay/get", "it is v1.2", "Pay/get", False, False),
    ],
)  # fmt: skip
def test_sentence_that_says_when_a_tool_is_used_is_read(text, when, tool, exception, plain) -> None:
    (found,) = sentences(text, TOOLS)
    assert (found.when, found.route_to, found.exception, found.plain) == (when, tool, exception, plain)
    assert text[slice(*found.when_at)].strip() == when and text[slice(*found.tool_at)] == tool


@pytest.mark.parametrize(
    "text",
    [
        "When it is late, do not use Pay/get.",
        "When it is late, use Pay/get or Pay/getOld.",
        "When it is late, ask. Then use Pay/get.",
        "Say when it is late, use Pay/get.",
        "When it is late, use Pay/getter.",
        "When it is late, use Pay/get.v3.",
        "Use Pay/get.",
    ],
)
def test_other_sentences_are_left_alone(text) -> None:
    assert sentences(text, ["Pay/get", "Pay/getOld"]) == []


@given(CLAUSES)
def test_clauses_written_into_an_empty_text_are_read_back_the_same(clauses) -> None:
    clauses = [one for one in clauses if said(one, TOOLS)]
    text = ""
    for number in range(len(clauses)):
        if edit := say(text, clauses[: number + 1], number, TOOLS):
            text = edit.apply(text)
    found = compare(text, clauses, TOOLS)
    assert not (found.differing or found.unsaid or found.offered) and sorted(found.agreed) == list(
        range(len(clauses))
    )
    assert [one.exception for one in found.agreed.values()] == [one["exception"] for one in clauses]
    assert follow(text, clauses, TOOLS, "Pay/get") == clauses


@given(PROSE, CLAUSES.filter(len), st.data())
def test_writing_a_clause_into_the_text_loses_no_word_and_brings_it_into_step(text, clauses, data) -> None:
    number = data.draw(st.integers(0, len(clauses) - 1))
    before = compare(text, clauses, TOOLS)
    edit = say(text, clauses, number, TOOLS)
    if edit is None:
        assert number in before.agreed or not said(clauses[number], TOOLS)
        return
    after = edit.apply(text)
    if edit.start == edit.end:
        assert after[: edit.start] + after[edit.start + len(edit.words) :] == text
    else:  # an update: only the sentence that said otherwise changes
        assert number in before.differing and before.differing[number].start == edit.start
        assert after.startswith(text[: edit.start]) and after.endswith(text[edit.end :])
    assert number in compare(after, clauses, TOOLS).agreed


@given(PROSE, CLAUSES)
def test_following_the_text_keeps_every_clause_and_ends_in_step(text, clauses) -> None:
    told = follow(text, clauses, TOOLS, "Pay/get")
    before, after = compare(text, clauses, TOOLS), compare(text, told, TOOLS)
    assert len(told) == len(clauses) + len(before.offered)
    assert all(told[n] == one for n, one in enumerate(clauses) if n not in before.differing)
    assert not after.differing and not after.offered


@given(PROSE, CLAUSES)
def test_each_sentence_and_each_clause_is_told_once(text, clauses) -> None:
    found = compare(text, clauses, TOOLS)
    numbers = [*found.agreed, *found.differing, *found.unsaid]
    places = [one.start for one in [*found.agreed.values(), *found.differing.values(), *found.offered]]
    assert len(numbers) == len(set(numbers)) and len(places) == len(set(places))


def test_clause_that_was_changed_is_marked_and_its_sentence_updated_in_place() -> None:
    text = "Payslips have two homes. When the year is 2024 or later, use Pay/get. Ask HR otherwise."
    clauses = [clause("the year is 2025 or later")]
    assert list(compare(text, clauses, TOOLS).differing) == [0]
    assert say(text, clauses, 0, TOOLS).apply(text) == text.replace("2024", "2025")
    assert follow(text, clauses, TOOLS, "Pay/get")[0]["when"] == "the year is 2024 or later"


def test_a_clause_as_long_as_one_may_be_is_said_and_read_back() -> None:
    long = clause(("the year is late " * 200)[:LONGEST_SENTENCE].strip())
    text = said(long)
    assert text and compare(text, [long], TOOLS).agreed.keys() == {0}


def test_sentence_of_another_wording_on_the_same_tool_raises_no_alarm() -> None:
    text = "When one deduction is questioned, call Slip/list-all, whatever the year. Pay/get reads the rest."
    clauses = [clause("a single code on the slip is asked about", "Slip/list-all", True), clause("else")]
    found = compare(text, clauses, TOOLS)
    assert not (found.differing or found.unsaid or found.offered)


def test_clause_whose_tool_the_text_never_names_is_marked() -> None:
    assert compare("Pay/get reads payslips.", [clause("old", "Pay/getOld")], TOOLS).unsaid == (0,)


def test_new_sentence_stands_behind_that_of_the_clause_above() -> None:
    text = "When a, use Pay/get. When c, use Slip/list-all. Ask."
    clauses = [clause("a"), clause("b", "Pay/getOld", True), clause("c", "Slip/list-all")]
    edit = say(text, clauses, 1, TOOLS)
    assert edit.apply(text) == text.replace("get. ", "get. Exception: when b, use Pay/getOld. ")


def test_free_wording_around_a_changed_condition_survives() -> None:
    text = "If a lender asks for papers, always call Slip/list-all, whatever the year."
    edit = say(text, [clause("a bank asks for papers", "Slip/list-all")], 0, TOOLS)
    assert edit.apply(text) == "If a bank asks for papers, always call Slip/list-all, whatever the year."
