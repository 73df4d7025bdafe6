"""Wordings find what their pattern finds regardless of case; a rule's cases are read once for all its queries."""

import re
from dataclasses import replace

import pytest

from synthesis.core.words import AnyCase
from synthesis.offline import judge, judge_words
from synthesis.offline.judge_words import known_rule
from tests.synthesis.judged.read import samples

WORDINGS = [
    (name, found)
    for module in (judge, judge_words)
    for name, found in vars(module).items()
    if isinstance(found, AnyCase)
]


@pytest.mark.parametrize(("name", "wording"), WORDINGS, ids=[name for name, _ in WORDINGS])
def test_a_wording_finds_what_its_pattern_finds_regardless_of_case(name, wording):
    pattern = re.compile(wording._any_case.pattern, re.VERBOSE | re.IGNORECASE)
    for _, request in samples("development")[:300]:
        for text in (request.query, request.trace, request.query.title(), request.trace.upper()):
            first = wording.search(text)
            assert (first and first.span()) == (found.span() if (found := pattern.search(text)) else None)
            assert [one.span() for one in wording.finditer(text)] == [
                one.span() for one in pattern.finditer(text)
            ]


def test_a_rule_is_read_again_only_when_it_or_one_of_its_tools_changes():
    request = next(request for _, request in samples("development") if request.rule)
    rule, pool = request.rule, request.pool
    first = known_rule(rule, pool)
    assert known_rule(replace(rule), tuple(reversed(pool))) is first
    assert known_rule(replace(rule, clauses=rule.clauses[:-1]), pool) is not first
    dead = tuple(replace(tool, deprecated=True) for tool in pool)
    assert known_rule(rule, dead).cases == ()


def test_a_negated_word_still_counts_where_it_is_said_plainly_too():
    assert {"paysli", "no receip"} <= judge_words.stems("a payslip without a receipt")
    assert "receip" not in judge_words.stems("a payslip without a receipt")
    assert {"receip", "no receip"} <= judge_words.stems("a receipt, where last month had no receipt")
    assert {"receip", "no receip"} <= judge_words.stems("Pay/GetReceipt Not receipts of others.")
