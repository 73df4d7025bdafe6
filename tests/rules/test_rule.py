"""The exchange format, codes, findings, mentions and differences: no database."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.mentions import NameFinder
from rules.core.check import check_rule
from rules.core.draft import diff_rules
from rules.core.rule import RuleContent, make_content
from rules.core.rule_book import OtherRule, RuleBook, ToolState
from rules.core.rules_file import RuleEntry, base_code, find_codes, parse_document, to_json

RULE: dict[str, Any] = {
    "tool_name": "Pay/get",
    "confusables": ["Pay/getOld"],
    "rule_text": "Use Pay/get from 2024 on, and Pay/getOld for every month before that.",
}
TEST = {"query": "march slip", "tools": ["Pay/get"]}


@pytest.mark.parametrize(
    ("change", "pointer", "message"),
    [
        ({"tool_name": None}, "/0/tool_name", "must be text, not null"),
        ({"confusables": []}, "/0/confusables", "is empty"),
        ({"confusables": ["Pay/a", "Pay/a"]}, "/0/confusables", "same tool twice"),
        ({"confusables": ["Pay/a", "Pay/get"]}, "/0/confusables/1", "among its own confusables"),
        ({"rule_text": "  "}, "/0/rule_text", "is empty"),
        ({"code": "low case"}, "/0/code", "is not a rule code"),
        ({"clauses": [{"when": "x"}]}, "/0/clauses/0", "'route_to' is missing"),
        (
            {"clauses": [{"when": "x", "route_to": "A/b", "exception": 1}]},
            "/0/clauses/0/exception",
            "true or false",
        ),
        ({"tests": [{"query": "x", "tools": []}]}, "/0/tests/0/tools", "is empty"),
    ],
)
def test_mistake_is_named_by_json_pointer(change: dict[str, Any], pointer: str, message: str) -> None:
    entries, problems = parse_document([RULE | change])
    assert not entries
    assert problems.items[0][0] == pointer
    assert message in problems.items[0][1]


@pytest.mark.parametrize("document", ["text", {"tools": []}, 3, None])
def test_document_that_is_no_list_of_rules_is_refused(document: Any) -> None:
    assert "must be a list of rules" in parse_document(document)[1].items[0][1]


def test_unknown_fields_are_ignored_and_an_object_with_rules_is_a_list() -> None:
    entries, problems = parse_document({"rules": [RULE | {"evidence": 5}]})
    assert (problems.items, entries[0].pointer) == ([], "/rules/0")


def entry(target: str, *confusables: str, code: str = "") -> RuleEntry:
    return RuleEntry(make_content(target=target, confusables=confusables, text="x"), code, "hr", "")


def test_codes_come_from_the_endpoint_and_are_numbered_in_file_order() -> None:
    assert base_code("Pay/get-payslip.v2") == "GET_PAYSLIP_V2"
    assert base_code("Pay/2fa") == "RULE_2FA"
    entries = [entry("A/get", "A/x"), entry("B/get", "B/x"), entry("A/get", "A/y")]
    assert find_codes(entries, []) == ["GET", "GET_2", "GET_3"]


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.sets(st.sampled_from("uvw"), min_size=1)), max_size=8))
def test_rules_without_codes_find_their_rules_again(rows: list[tuple[str, set[str]]]) -> None:
    unique = {(api, frozenset(names)): None for api, names in rows}
    entries = [entry(f"{api}/get", *(f"{api}/{name}" for name in sorted(names))) for api, names in unique]
    codes = find_codes(entries, [])
    known = [(code, e.content) for code, e in zip(codes, entries, strict=True)]
    assert find_codes(entries[::-1], known) == codes[::-1]
    assert len(set(codes)) == len(codes)


def test_other_file_with_the_same_endpoint_gets_a_new_code() -> None:
    known = [("GET", entry("A/get", "A/x").content)]
    assert find_codes([entry("B/get", "B/x")], known) == ["GET_2"]
    assert find_codes([entry("A/get", "A/new")], known) == ["GET"]


def test_json_round_trip_and_hash_ignore_the_order_of_confusables() -> None:
    content = parse_document([RULE | {"tests": [TEST]}])[0][0].content
    again = parse_document([to_json(content, code="GET", domain="hr")])[0][0]
    assert (again.content, again.code) == (content, "GET")
    other = make_content(target="A/t", confusables=["A/x", "A/y"], text="t")
    turned = make_content(target="A/t", confusables=["A/y", "A/x"], text="t")
    assert other.content_hash() == turned.content_hash()


def test_names_are_found_whole_and_longest_first() -> None:
    finder = NameFinder(["Pay/get", "Pay/get.v2", "Pay/get now"])
    found = finder.find("Call Pay/get.v2, then Pay/get. Not Pay/getAll or xPay/get.")
    assert [name for _, _, name in found] == ["Pay/get.v2", "Pay/get"]
    assert [name for _, _, name in finder.find("Pay/get nowhere")] == ["Pay/get"]
    assert NameFinder([]).find("Pay/get") == []


TOOLS = {name: ToolState() for name in ("Pay/get", "Pay/getOld", "Pay/third")} | {
    "Pay/gone": ToolState(active=False),
    "Pay/dusk": ToolState(deprecated=True),
}


def content(**change: Any) -> RuleContent:
    fields = {
        "target": "Pay/get",
        "confusables": ["Pay/getOld"],
        "text": RULE["rule_text"],
        "tests": [TEST],
    }
    return make_content(**(fields | change))


def codes(rule: RuleContent, *others: OtherRule) -> dict[str, str]:
    found = check_rule(rule, RuleBook(TOOLS, others), ("hr", "MINE"))
    return {finding.code: finding.level for finding in found}


def test_sound_rule_has_no_findings() -> None:
    assert codes(content()) == {}


@pytest.mark.parametrize(
    ("change", "code", "level"),
    [
        ({"text": "Use Pay/get and nothing else for every month of the year."}, "no_confusable", "error"),
        ({"text": RULE["rule_text"] + " Never Pay/third."}, "outside_set", "warning"),
        ({"text": "Pay/get, not Pay/getOld."}, "short_text", "warning"),
        ({"target": "Pay/gone"}, "retired_target", "error"),
        ({"target": "Pay/dusk"}, "deprecated_target", "warning"),
        ({"confusables": ["Pay/getOld", "Pay/gone"]}, "retired_confusable", "warning"),
        ({"clauses": [{"when": "x", "route_to": "Pay/third"}]}, "clause_outside_set", "error"),
        (
            {"confusables": ["Pay/getOld", "Pay/dusk"], "clauses": [{"when": "x", "route_to": "Pay/dusk"}]},
            "clause_deprecated",
            "error",
        ),
        (
            {"confusables": ["Pay/getOld", "Pay/gone"], "clauses": [{"when": "x", "route_to": "Pay/gone"}]},
            "clause_retired",
            "error",
        ),
        ({"tests": []}, "no_test", "warning"),
        ({"tests": [{"query": "x", "tools": ["Pay/third"]}]}, "test_outside_set", "error"),
    ],
)
def test_each_finding_has_its_code_and_level(change: dict[str, Any], code: str, level: str) -> None:
    assert codes(content(**change))[code] == level


def test_findings_against_other_rules() -> None:
    back = OtherRule(
        "hr", "BACK", content(target="Pay/getOld", confusables=["Pay/get"], text="Other words here.")
    )
    assert codes(content(), back) == {"circular": "warning"}
    wide = content(confusables=["Pay/getOld", "Pay/third"])
    overlap = OtherRule(
        "hr", "OVER", content(target="Pay/dusk", confusables=["Pay/getOld", "Pay/third"], text="Z.")
    )
    assert codes(wide, overlap) == {"overlap": "warning"}
    assert codes(content(), OtherRule("hr", "TWIN", content())) == {"near_duplicate": "warning"}
    assert codes(content(), OtherRule("hr", "MINE", content())) == {}


@given(st.text(alphabet="ab ", max_size=30), st.text(alphabet="ab ", max_size=30))
def test_text_difference_gives_both_texts_back(old: str, new: str) -> None:
    pieces = diff_rules(RuleContent("", (), old), RuleContent("", (), new)).text
    for text, other in ((old, "added"), (new, "removed")):
        assert " ".join(words for kind, words in pieces if kind != other).split() == text.split()


def test_difference_names_the_fields() -> None:
    diff = diff_rules(content(), content(confusables=["Pay/third"], tests=[]))
    assert diff.changed == ("confusables", "tests")
    assert (diff.confusables_added, diff.confusables_removed) == (("Pay/third",), ("Pay/getOld",))
