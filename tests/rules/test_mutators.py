"""Every kind of finding, planted in the public rules by tests/rules/mutators.py: found, with its code and its place."""

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.conf import settings

from rules.core.check import Finding, check_rule, has_errors
from rules.core.rule import make_content
from rules.core.rule_book import OtherRule, RuleBook, ToolState
from rules.core.rules_file import RuleEntry, find_codes
from tests.rules import mutators_between  # noqa: F401 - registers its mutators
from tests.rules.mutators import MUTATORS, REWORDED, Field, Planted, edited
from tests.rules.paraphrase import FREE, ORDER, SPELLING, STRENGTHS, SYNONYM, VERBATIM, paraphrase

DATA = Path(settings.TRACE_PUBLIC_DATA)
PLANTED = 30  # of each kind and strength
LEAST = 20
CODE = re.compile(r'(?:error|warning|Finding|warning\))\(\s*"([a-z_]+)"')
# what must be found at each strength: the checks know few synonyms, so from SYNONYM on only part of it
LEAST_RECALL = {VERBATIM: 1.0, SPELLING: 1.0, ORDER: 0.9, SYNONYM: 0.4, FREE: 0.35}

pytestmark = pytest.mark.skipif(not (DATA / "rules" / "rules.json").is_file(), reason="no public data here")


def read_rules(path: Path) -> list[OtherRule]:
    entries = []
    for row in json.loads(path.read_text()):
        content = make_content(target=row["tool_name"], confusables=row["confusables"], text=row["rule_text"])
        entries.append(RuleEntry(content, "", row["domain"].lower(), ""))
    return [
        OtherRule(entry.domain, code, entry.content)
        for entry, code in zip(entries, find_codes(entries, []), strict=True)
    ]


@pytest.fixture(scope="module")
def book() -> RuleBook:
    states = {}
    for name in ("hr", "finance"):
        for line in (DATA / "catalog" / f"{name}.jsonl").read_text().splitlines():
            tool: dict[str, Any] = json.loads(line)
            states[tool["name"]] = ToolState(deprecated=bool(tool.get("deprecated")))
    return RuleBook(states, read_rules(DATA / "rules" / "rules.json"))


def findings_of(planted: Planted, book: RuleBook) -> list[Finding]:
    after = book.changed((), planted.rules)
    if planted.states:
        after = after.with_tools({**book.tools.states, **planted.states})
    return check_rule(planted.rule.content, after, planted.rule.key)


def is_it(finding: Finding, planted: Planted) -> bool:
    """Code, place, level, the other rule, and the words that the place covers."""
    place = finding.place
    covered = planted.rule.content.text[place.start or 0 : place.end or 0]
    return (
        (finding.code, planted.level or finding.level) == (planted.code, finding.level)
        and place.pointer.startswith(planted.pointer)
        and (not planted.other or planted.other in (finding.other, *finding.path))
        and (not planted.span or covered == planted.span)
    )


def plants(name: str, strength: int, book: RuleBook) -> list[Planted]:
    rng = Random(f"{name} {strength}")
    rules = sorted(book.rules.values(), key=lambda rule: rule.key)
    at = Field(rules, book.tools.states, rng, strength)
    found = (MUTATORS[name](rule, at) for rule in rng.sample(rules, len(rules)))
    return [planted for planted in found if planted][:PLANTED]


@pytest.mark.parametrize("name", sorted(set(MUTATORS) - REWORDED))
def test_every_planted_mistake_is_found_with_its_code_and_place(name: str, book: RuleBook) -> None:
    planted = plants(name, VERBATIM, book)
    missed = [one for one in planted if not any(is_it(found, one) for found in findings_of(one, book))]
    assert len(planted) >= LEAST and missed == []


@pytest.mark.parametrize(
    "strength", sorted(STRENGTHS), ids=lambda strength: STRENGTHS[strength].replace(" ", "-")
)
@pytest.mark.parametrize("name", sorted(REWORDED))
def test_reworded_mistakes_are_found(name: str, strength: int, book: RuleBook, record_property: Any) -> None:
    planted = plants(name, strength, book)
    missed = [one for one in planted if not any(is_it(found, one) for found in findings_of(one, book))]
    recall = 1 - len(missed) / len(planted)
    record_property("recall", recall)
    assert len(planted) >= LEAST
    assert recall >= LEAST_RECALL[strength], missed[:3]


def test_public_rules_give_no_error_and_only_known_warnings(book: RuleBook) -> None:
    told: Counter[str] = Counter()
    for rule in book.rules.values():
        findings = check_rule(rule.content, book, rule.key)
        assert not has_errors(findings), rule.code
        told.update({finding.code for finding in findings})
    assert told == {"no_test": 123, "overlap": 8, "circular": 2}


@pytest.mark.parametrize("strength", [SPELLING, ORDER, SYNONYM, FREE])
def test_a_rule_said_again_by_its_own_author_gives_no_error(strength: int, book: RuleBook) -> None:
    """Rewording in place is no mistake: no error, and no warning but those the rule had."""
    rng = Random(strength)
    for rule in sorted(book.rules.values(), key=lambda rule: rule.key):
        before = {(found.code, found.other) for found in check_rule(rule.content, book, rule.key)}
        again = edited(rule, text=paraphrase(rule.content.text, list(rule.content.tools), rng, strength))
        after = check_rule(again.content, book.changed((), [again]), rule.key)
        assert not has_errors(after), again.content.text
        assert {(found.code, found.other) for found in after} <= before, again.content.text


def test_right_answers_of_the_public_queries_contradict_no_rule() -> None:
    """73 queries that people wrote for these rules, with the tool that is right: as tests they are sound."""
    rules = read_rules(DATA / "rules" / "rules.json")
    told, asked = [], 0
    for line in (DATA / "benchmarks" / "prb_public" / "queries.jsonl").read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        if row["rule"] is None or not set(row["tools"]) <= set(rules[row["rule"]].content.tools):
            continue
        asked += 1
        test = {"query": row["query"], "tools": row["tools"]}
        content = edited(rules[row["rule"]], tests=(test,)).content
        findings = check_rule(content, RuleBook({}, ()))
        told += [row["query"] for finding in findings if finding.code == "test_contradicts"]
    assert (asked, told) == (73, [])


def test_every_code_of_the_checks_has_a_mutator(book: RuleBook) -> None:
    codes = set(CODE.findall((settings.BASE_DIR / "rules" / "core" / "check.py").read_text()))
    assert len(codes) > 20
    planted_codes = {plants(name, VERBATIM, book)[0].code for name in MUTATORS}
    assert codes == planted_codes | {"more"}  # which counts what is not listed
