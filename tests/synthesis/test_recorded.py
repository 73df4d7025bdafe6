"""The recorded teacher: what it says of the demo, what it refuses to say, and that its answers are treated as any."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from synthesis.core.filters import FilterContext
from synthesis.core.names import ToolNames, rule_codes
from synthesis.core.queries import RULE_STYLES, QueryRequest
from synthesis.core.recipe import default_recipe
from synthesis.core.words import words
from synthesis.generate.pipeline import Pipeline, Unit
from synthesis.offline.recorded import FILE, recorded_writers
from tests.synthesis.test_demo_queries import demo_rules, demo_tools
from tests.synthesis.variety import distinct_2, near_duplicate_rate
from trace_site.lib.files import read_jsonl
from trace_site.lib.llm.exchange import Ledger

PER_STYLE = 4
TOOLS = demo_tools()
RULES = {rule.code: rule for rule in demo_rules()}
ROWS = [row for _, row in read_jsonl(FILE)][1:]
LAST = [row["attempts"][-1] for row in ROWS]


class Books(Ledger):
    def __init__(self):
        self.ended_calls = []

    async def ended(self, exchange, reply):
        self.ended_calls.append((exchange.endpoint, exchange.purpose, exchange.cost))


def rule_request(row, **overrides):
    rule = RULES[row["rule"]]
    fields = {"style": row["style"], "rule": rule, **overrides}
    return QueryRequest("rule", rule.domain, tuple(TOOLS.values()), 7, row["index"], **fields)


def request(row):
    if "rule" in row:
        return rule_request(row)
    pool = tuple(TOOLS.values())
    return QueryRequest("rrb", "", pool, 7, row["index"], tier=row["tier"], anchor=row["anchor"])


def pipeline(books=None):
    dead = frozenset(name for name, tool in TOOLS.items() if tool.deprecated)
    context = FilterContext(ToolNames(TOOLS), dead, codes=rule_codes(RULES))
    return Pipeline(recorded_writers(default_recipe(), books), context)


def made(one, books=None, share=0.0):
    return asyncio.run(pipeline(books).make(Unit(0, one, share)))


def refused_once(row):
    return len(row["attempts"]) > 1


def test_each_rule_of_the_demo_has_four_answers_a_style():
    slots = {(row["rule"], row["style"], row["index"]) for row in ROWS if "rule" in row}
    assert slots == {(code, style, i) for code in RULES for style in RULE_STYLES for i in range(PER_STYLE)}


def test_every_slot_ends_in_a_sample_that_filter_and_judge_let_through_and_wrong_answers_are_refused_before():
    line = pipeline()

    async def all_of():
        return [await line.make(Unit(0, request(row))) for row in ROWS]

    outcomes = asyncio.run(all_of())
    assert all(one.ready for one in outcomes)
    attempts = [len(one.attempts) for one in outcomes]
    assert attempts == [len(row["attempts"]) for row in ROWS]
    why = Counter(one.attempts[0].outcome for one in outcomes if len(one.attempts) > 1)
    assert set(why) == {"filtered", "judged_out"} and sum(why.values()) >= 40


def test_requests_are_varied_and_say_rules_in_other_words():
    queries = [answer["query"] for answer in LAST]
    openings = Counter(" ".join(words(query)[:4]) for query in queries)
    assert max(openings.values()) <= 5
    assert distinct_2(queries) >= 0.7
    assert near_duplicate_rate(queries) == 0
    ruled = [row for row in ROWS if "rule" in row]
    copied = [row for row in ruled if runs(row["attempts"][-1]["query"]) & runs(RULES[row["rule"]].text)]
    assert len(copied) <= len(ruled) / 10


def runs(text, length=5):
    said = words(text)
    return {tuple(said[i : i + length]) for i in range(len(said) - length + 1)}


@pytest.mark.parametrize("part", ["rule", "tool"])
def test_answers_are_void_once_the_rule_or_a_tool_was_edited(part):
    one = rule_request(ROWS[0])
    if part == "rule":
        edited = replace(
            one, rule=replace(one.rule, text=f"{one.rule.text} From May on this is another matter.")
        )
    else:
        first, *rest = sorted(one.pool, key=lambda tool: tool.name not in one.rule.tools)
        edited = replace(one, pool=(replace(first, description="Something else."), *rest))
    outcome = made(edited)
    assert not outcome.ready and [tried.error_code for tried in outcome.attempts] == ["recording_void"]
    assert "were given for other words of the rule or its tools" in outcome.attempts[0].error


def test_an_edit_elsewhere_in_the_catalog_voids_nothing():
    one = rule_request(ROWS[0])
    pool = tuple(
        tool if tool.name in one.rule.tools else replace(tool, description=f"{tool.description} New.")
        for tool in one.pool
    )
    assert made(replace(one, pool=pool)).ready


@pytest.mark.parametrize(
    "overrides",
    [{"style": "underspecified"}, {"rule": replace(RULES["PAYSLIP_PERIOD"], code="PAYSLIP_OTHER")}],
    ids=["style", "rule"],
)
def test_what_was_never_recorded_is_said_to_be_so(overrides):
    row = next(row for row in ROWS if row.get("rule") == "PAYSLIP_PERIOD")
    outcome = made(rule_request(row, **overrides))
    assert [tried.error_code for tried in outcome.attempts] == ["not_recorded"]
    assert "--writer llm or offline" in outcome.attempts[0].error


def test_every_answer_is_one_exchange_in_the_ledger_without_a_price():
    row, books = next(filter(refused_once, ROWS)), Books()
    outcome = made(request(row), books)
    assert outcome.ready and len(books.ended_calls) == sum(tried.calls for tried in outcome.attempts) > 3
    assert set(books.ended_calls) <= {("recorded", purpose, 0.0) for purpose in ("query", "trace", "judge")}


def test_a_request_with_permission_targets_has_the_recorded_sentence_before_its_trace():
    row = next(row for row in ROWS if "rule" in row and not refused_once(row))
    outcome = made(request(row), share=1.0)
    assert (
        outcome.permissions
        and outcome.trace == f"{LAST[ROWS.index(row)]['permission']} {LAST[ROWS.index(row)]['trace']}"
    )


def test_no_answer_holds_a_tool_that_is_deprecated():
    assert not [name for answer in LAST for name in answer["answer"] if TOOLS[name].deprecated]
