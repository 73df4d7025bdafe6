"""What the checks say, case by case, and where each finding lies."""

import os
import subprocess
import sys
from typing import Any

import pytest

from rules.core.check import Finding, check_rule
from rules.core.reading import Place
from rules.core.rule import RuleContent, make_content
from rules.core.rule_book import OtherRule, RuleBook, ToolState

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


def test_an_unknown_name_behind_many_words_with_a_slash_is_told_too() -> None:
    words = " ".join(f"in{number}/out" for number in range(30))
    finding = found(rule(text=f"{CANCEL.format(NEW, OLD)} It holds {words}, as Pay/nothing does."))
    assert "Pay/nothing" in finding["unknown_name"].sentence


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
from rules.core.check import check_rule
from rules.core.rule_book import OtherRule, RuleBook
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
