"""How a rule's text is read: what it says of each tool, which phrases are the same, and how they are found again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.near_duplicates import jaccard
from catalog.core.words import stem
from rules.core import wording as core_wording
from rules.core.reading import read_statements
from rules.core.rule import make_content
from rules.core.rule_book import COMMON, OtherRule, Phrases, RuleBook
from rules.core.wording import wording

NEW, OLD, THIRD, BANK = "Pay/new", "Pay/old", "Pay/third", "Bank/send"


@pytest.mark.parametrize(
    ("text", "stances"),
    [
        ("To list slips, use Pay/new; Pay/old is deprecated.", ["use", "dead"]),
        ("List slips with Pay/new, not with the deprecated Pay/old.", ["use", "not"]),
        ("Use Pay/new instead of fetching a balance with Pay/old.", ["use", "not"]),
        ("Slips that are signed but not captured are undone with Pay/new.", ["use"]),
        ("Pay/new is for Treasury flows, while Pay/old reads slips.", ["tells", "tells"]),
        ("Pay/new does not return deleted slips.", ["limits"]),
        ("Do not use Pay/old. Never call Pay/third.", ["not", "not"]),
        ("When only one is known and Pay/old no longer works, Pay/new is right.", ["dead", "tells"]),
        ("No tool is named here.", []),
    ],
)
def test_text_says_of_each_tool_whether_it_is_used(text: str, stances: list[str]) -> None:
    assert [statement.stance for statement in read_statements(text, [NEW, OLD, THIRD])] == stances


def test_tools_that_are_named_together_are_spoken_of_together() -> None:
    text = "Use Pay/new. Pay/old, Pay/third and Bank/send are deprecated."
    statements = read_statements(text, [NEW, OLD, THIRD, BANK])
    assert [statement.tools for statement in statements] == [(NEW,), (OLD, THIRD, BANK)]


def test_full_stop_inside_a_name_ends_no_sentence() -> None:
    statements = read_statements("Send it with Pay/v1.2; Pay/v1 is deprecated.", ["Pay/v1", "Pay/v1.2"])
    assert [(statement.tools, statement.stance) for statement in statements] == [
        (("Pay/v1.2",), "use"),
        (("Pay/v1",), "dead"),
    ]


@given(st.text(alphabet="Pay/newold,;. andnot", max_size=80))
def test_any_text_is_read_and_places_lie_inside_it(text: str) -> None:
    for statement in read_statements(text, [NEW, OLD]):
        assert 0 <= statement.start < statement.end <= len(text)
        assert any(name in text[statement.start : statement.end] for name in statement.tools)


@pytest.mark.parametrize(
    ("left", "right", "alike"),
    [
        ("cancel an authorised payment", "Cancel the authorized payments, please", True),
        ("send an invoice to a customer", "submit a bill to the client", True),
        ("cancel a payment whose reference is known", "cancel a payment whose reference is missing", False),
        ("read payslips before the year 2024", "read payslips after the year 2024", False),
        ("read payslips of the year 2023", "read payslips of the year 2024", False),
        ("the invoice is a draft of a customer", "the invoice is not a draft of a customer", False),
        (
            "list payments of a customer",
            "list payments of a customer in Norway with two open invoices",
            False,
        ),
        ("planned absences of a worker", "unplanned absences of a worker", False),
        ("pay", "pay", False),
    ],
)
def test_phrases_are_alike_unless_a_word_turns_the_meaning(left: str, right: str, alike: bool) -> None:
    assert wording(left).alike(wording(right)) is alike
    assert wording(right).alike(wording(left)) is alike


def test_inflections_and_spellings_meet_in_one_stem() -> None:
    for words in (
        "authorised authorizes",
        "cancelled cancel canceling",
        "policies policy",
        "employees employee",
        "boxes box",
    ):
        assert len({stem(word) for word in words.split()}) == 1
    assert stem("payee") != stem("pay")


def test_no_word_stands_in_two_lists_of_alternatives() -> None:
    words = [word for line in core_wording.ALTERNATIVES for word in line.split()]
    assert len(words) == len(set(words))


WORDS = st.frozensets(st.sampled_from("abcdefghij"), min_size=1)


@given(st.lists(WORDS, max_size=12), st.lists(WORDS, max_size=4), st.sets(st.integers(0, 11)), WORDS)
def test_index_finds_every_near_set_and_stays_right_when_changed(
    first: list[frozenset[str]], more: list[frozenset[str]], dropped: set[int], asked: frozenset[str]
) -> None:
    held = {(("hr", f"OLD_{number}"), 0): words for number, words in enumerate(first)}
    added = {(("hr", f"NEW_{number}"), 0): words for number, words in enumerate(more)}
    gone = [(place, words) for number, (place, words) in enumerate(held.items()) if number in dropped]
    phrases = Phrases(held.items(), 0.7).changed(gone, added.items())
    left = {place: words for place, words in held.items() if (place, words) not in gone} | added
    assert phrases.near(asked) == {key for (key, _), words in left.items() if jaccard(words, asked) >= 0.7}


def test_phrase_of_very_many_rules_tells_no_case_apart() -> None:
    words = frozenset({"moved", "new", "contract"})
    entries = [((("hr", f"RULE_{number}"), 0), words) for number in range(COMMON + 1)]
    phrases = Phrases(entries, 0.7)
    assert phrases.like(words) == [] and len(phrases.near(words)) == COMMON + 1
    assert len(phrases.changed(entries[:1], ()).like(words)) == COMMON


def test_way_between_tools_is_the_shortest_and_always_the_same() -> None:
    ways = [("A_B", "b", "a"), ("B_C", "c", "b"), ("A_D", "d", "a"), ("D_C", "c", "d")]
    rules = [
        OtherRule("hr", code, make_content(target=target, confusables=[name], text="."))
        for code, target, name in ways
    ]
    book = RuleBook({}, rules)
    assert (
        book.way("a", "c")
        == RuleBook({}, rules[::-1]).way("a", "c")
        == [("b", ("hr", "A_B")), ("c", ("hr", "B_C"))]
    )
    assert book.way("a", "c", own=("hr", "A_B")) == [("d", ("hr", "A_D")), ("c", ("hr", "D_C"))]
    assert book.way("c", "a") is None
    assert book.leading_to(["c"]) == {"a", "b", "c", "d"}
