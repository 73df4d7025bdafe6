"""What the checks say, case by case: how texts are read, which words are the same, and where a finding lies."""

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.core import vocabulary
from rules.core.finding import Place
from rules.core.findings import Finding, OtherRule, RuleBook, ToolState, check_rule
from rules.core.phrases import COMMON, Phrases
from rules.core.redirects import Redirects
from rules.core.rule import RuleContent, make_content
from rules.core.set_index import SetIndex
from rules.core.statements import read_statements
from rules.core.wording import jaccard, stem, wording

NEW, OLD, THIRD, BANK = "Pay/new", "Pay/old", "Pay/third", "Bank/send"
TOOLS = {name: ToolState() for name in (NEW, OLD, THIRD, BANK, "Tax/file", "Tax/read")}
CANCEL = "To cancel an authorised payment of a customer, use {}; {} serves everything else."
TEST = {"query": "unlike anything", "tools": [NEW]}


def rule(target: str = NEW, other: str = OLD, text: str = "", **fields: Any) -> RuleContent:
    given_fields = {
        "confusables": [other],
        "text": text or CANCEL.format(target, other),
        "tests": [TEST | {"tools": [target]}],
    }
    return make_content(target=target, **(given_fields | fields))


def found(content: RuleContent, *others: OtherRule) -> dict[str, Finding]:
    """Code -> the last finding of that code."""
    return {finding.code: finding for finding in check_rule(content, RuleBook(TOOLS, others), ("hr", "MINE"))}


def other(content: RuleContent, code: str = "THEIRS") -> OtherRule:
    return OtherRule("hr", code, content)


# how a text is read


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


# which words are the same


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
    words = [word for line in vocabulary.ALTERNATIVES for word in line.split()]
    assert len(words) == len(set(words))


WORDS = st.frozensets(st.sampled_from("abcdefghij"), min_size=1)


@given(st.lists(WORDS, max_size=12), st.lists(WORDS, max_size=4), st.sets(st.integers(0, 11)), WORDS)
def test_index_finds_every_near_set_and_stays_right_when_changed(
    first: list[frozenset[str]], more: list[frozenset[str]], dropped: set[int], asked: frozenset[str]
) -> None:
    added = [(100 + number, words) for number, words in enumerate(more)]
    index = SetIndex(enumerate(first), 0.7).changed(dropped, added)
    held = {number: words for number, words in enumerate(first) if number not in dropped} | dict(added)
    assert {key for key, _ in index.find(asked)} == {
        key for key, words in held.items() if jaccard(words, asked) >= 0.7
    }


def test_phrase_of_very_many_rules_tells_no_case_apart() -> None:
    words = frozenset({"moved", "new", "contract"})
    entries = [((("hr", f"RULE_{number}"), 0), words) for number in range(COMMON + 1)]
    phrases = Phrases(entries, 0.7)
    assert phrases.like(words) == [] and len(phrases.near(words)) == COMMON + 1
    assert len(phrases.changed(entries[:1], ()).like(words)) == COMMON


def test_way_between_tools_is_the_shortest_and_always_the_same() -> None:
    edges = [
        ("a", ("b", ("hr", "AB"))),
        ("b", ("c", ("hr", "BC"))),
        ("a", ("d", ("hr", "AD"))),
        ("d", ("c", ("hr", "DC"))),
    ]
    assert (
        Redirects(edges).way("a", "c")
        == Redirects(edges[::-1]).way("a", "c")
        == [("b", ("hr", "AB")), ("c", ("hr", "BC"))]
    )
    assert Redirects(edges).way("a", "c", without=("hr", "AB")) == [("d", ("hr", "AD")), ("c", ("hr", "DC"))]
    assert Redirects(edges).way("c", "a") is None
    assert Redirects(edges).leading_to(["c"]) == {"a", "b", "c", "d"}


# findings


def test_sound_rule_has_no_finding() -> None:
    assert found(rule()) == {}


def test_misspelt_name_is_told_with_the_name_it_was_meant_to_be() -> None:
    finding = found(rule(text=f"{CANCEL.format(NEW, OLD)} For refunds as well use Pay/mew."))["unknown_name"]
    assert (finding.fix, finding.level) == ("Write Pay/new.", "warning")


@pytest.mark.parametrize(
    "words", ["and/or", "24/7", "see https://pay.example/new", "per month/year", "TCP/IP"]
)
def test_words_with_a_slash_are_no_names(words: str) -> None:
    assert "unknown_name" not in found(rule(text=f"{CANCEL.format(NEW, OLD)} It holds {words}."))


def test_text_that_calls_the_target_dead_and_another_tool_right_is_an_error() -> None:
    finding = found(rule(text=f"To cancel a payment of a customer, use {OLD}; {NEW} is deprecated."))[
        "text_elsewhere"
    ]
    assert (finding.level, finding.place.pointer) == ("error", "/rule_text")


def test_text_that_only_describes_the_target_is_a_warning() -> None:
    text = f"To cancel a payment of a customer, use {OLD}; {NEW} reads what the others left."
    assert found(rule(text=text))["text_elsewhere"].level == "warning"


def test_same_situation_over_shared_tools_is_an_error_at_its_place() -> None:
    mine = rule(OLD, NEW)
    finding = found(mine, other(rule()))["contradiction"]
    assert (finding.level, finding.other) == ("error", "THEIRS")
    said = mine.text[finding.place.start : finding.place.end]
    assert said == "To cancel an authorised payment of a customer, use Pay/old;"


def test_nearly_the_same_situation_is_a_warning() -> None:
    text = f"Whoever has to void the authorized payments of a client is served by {OLD}; {NEW} is for later."
    assert found(rule(OLD, NEW, text), other(rule()))["contradiction"].level == "warning"


def test_situations_that_differ_in_the_telling_word_do_not_contradict() -> None:
    known = rule(text=f"To cancel a payment whose reference is known, use {NEW}; {OLD} serves the rest.")
    missing = rule(
        OLD, NEW, f"To cancel a payment whose reference is missing, use {OLD}; {NEW} serves the rest."
    )
    assert "contradiction" not in found(missing, other(known))


def test_same_words_over_unrelated_tools_are_a_warning() -> None:
    assert found(rule(BANK, "Tax/file"), other(rule()))["contradiction"].level == "warning"


def test_two_clauses_for_one_case_are_an_error_at_the_second() -> None:
    clauses = [
        {"when": "the month lies in the closed year", "route_to": NEW},
        {"when": "The month lies in the closed year.", "route_to": OLD},
    ]
    finding = found(rule(clauses=clauses))["self_contradiction"]
    assert (finding.level, finding.place) == ("error", Place("/clauses/1"))


def test_clause_whose_tool_the_text_does_not_name_is_told_at_its_field() -> None:
    clauses = [{"when": "always", "route_to": NEW}, {"when": "on paper", "route_to": THIRD}]
    content = rule(confusables=[OLD, THIRD], clauses=clauses)
    assert found(content)["clause_unsaid"].place == Place("/clauses/1/route_to")


def test_narrower_rule_with_the_same_target_is_shadowed_and_the_wider_is_not() -> None:
    text = f"To cancel an authorised payment of a customer in Norway, use {NEW}, not {OLD}."
    narrow = rule(text=text, tests=[])
    wide = rule(text=f"To cancel an authorised payment of a customer, use {NEW}, not {OLD}.", tests=[])
    assert "shadowed" in found(narrow, other(wide))
    assert "shadowed" not in found(wide, other(narrow))


def test_rule_over_a_tool_that_the_other_lacks_is_not_shadowed() -> None:
    content = rule(confusables=[OLD, THIRD], text=f"{CANCEL.format(NEW, OLD)} {THIRD} reads it.")
    assert "shadowed" not in found(content, other(rule()))


def test_circle_over_several_rules_is_told_once_with_its_whole_path() -> None:
    texts = ("Case one of the ring: {}, not {}.", "Other words altogether for {}, never {}.")
    on = other(rule(THIRD, NEW, texts[0].format(THIRD, NEW)), "ON")
    back = other(rule(OLD, THIRD, texts[1].format(OLD, THIRD)), "BACK")
    findings = check_rule(rule(), RuleBook(TOOLS, [on, back]), ("hr", "MINE"))
    circles = [finding for finding in findings if finding.code == "circular"]
    assert [circle.path for circle in circles] == [("ON", "BACK")]
    assert "Pay/new → Pay/third → Pay/old → Pay/new (over ON, BACK and this rule)" in circles[0].sentence


def test_circle_does_not_run_over_the_published_version_of_the_rule_itself() -> None:
    published = OtherRule(
        "hr", "MINE", rule(OLD, NEW, "Some words that lead to Pay/old, not to Pay/new at all.")
    )
    assert "circular" not in found(rule(), published)


def test_target_that_another_rule_calls_deprecated_is_led_away_from() -> None:
    away = rule(THIRD, NEW, f"Everything of this kind is done with {THIRD}. {NEW} is deprecated.")
    assert found(rule(), other(away))["unreachable_target"].place == Place("/tool_name")
    only = rule(THIRD, NEW, f"Everything of this kind is done with {THIRD}. {NEW} is deprecated for groups.")
    assert "unreachable_target" not in found(rule(), other(only))


def test_query_that_restates_a_case_must_expect_its_tool() -> None:
    test = {"query": "please cancel the authorised payment of our customer Ferro", "tools": [OLD]}
    assert found(rule(tests=[test]))["test_contradicts"].place == Place("/tests/0")
    assert found(rule(tests=[test | {"tools": [NEW]}])) == {}


def test_query_with_a_signal_of_another_clause_must_expect_its_tool() -> None:
    clauses = [
        {"when": "always", "route_to": NEW},
        {"when": "on paper", "route_to": OLD, "signals": ["by registered letter"]},
    ]
    test = {"query": "send it by registered letter", "tools": [NEW]}
    assert "test_contradicts" in found(rule(clauses=clauses, tests=[test]))


def test_one_query_with_two_answers_is_an_error_in_one_rule_and_between_rules() -> None:
    query = "where is my March slip"
    clash = [{"query": query, "tools": [NEW]}, {"query": "Where is my march slip?", "tools": [OLD]}]
    assert found(rule(tests=clash))["test_clash"].place == Place("/tests/1")
    theirs = rule(BANK, "Tax/file", "Wires leave through Bank/send, never through Tax/file at all.")
    theirs = make_content(
        target=BANK, confusables=["Tax/file"], text=theirs.text, tests=[{"query": query, "tools": [BANK]}]
    )
    finding = found(rule(tests=clash[:1]), other(theirs))["test_clash"]
    assert (finding.level, finding.other) == ("error", "THEIRS")


def test_half_typed_rule_without_look_alikes_is_checked_too() -> None:
    content = make_content(target=NEW, confusables=[], text="")
    assert {"no_confusable", "no_target", "short_text"} <= found(content).keys()


def test_finding_as_json_keeps_its_keys() -> None:
    told = found(rule(tests=[]))["no_test"].as_dict()
    assert list(told) == ["code", "level", "sentence", "fix", "other", "place", "path"]
    assert told["place"] == {"pointer": "/tests", "start": None, "end": None}


@pytest.mark.parametrize(
    ("pointer", "words"),
    [
        ("/rule_text", "text"),
        ("/tool_name", "target"),
        ("/confusables/2", "look-alikes"),
        ("/clauses/1/route_to", "clause 2"),
        ("/tests/0", "test 1"),
        ("/tests", "tests"),
        ("", ""),
    ],
)
def test_place_is_said_in_words(pointer: str, words: str) -> None:
    assert Place(pointer).words == words


def test_findings_come_in_the_same_order_in_every_process() -> None:
    program = """
from tests.rules.test_findings import CANCEL, TOOLS, rule
from rules.core.findings import OtherRule, RuleBook, check_rule
names = sorted(TOOLS)
others = [OtherRule("hr", f"{a}{b}", rule(names[a], names[b])) for a in range(6) for b in range(6) if a != b]
book = RuleBook(TOOLS, others)
for one in others:
    print([finding.as_dict() for finding in check_rule(one.content, book, one.key)])
"""
    printed = set()
    for seed in ("1", "2", "3"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True
        )
        printed.add(run.stdout)
    assert len(printed) == 1 and "contradiction" in printed.pop()
