"""What the pipeline keeps and lets go between attempts at one sample."""

import asyncio
from dataclasses import replace

from synthesis.core.queries import AXES, QueryDraft, TraceDraft, Verdict, Writers
from synthesis.generate.pipeline import Pipeline, Unit
from tests.synthesis.texts import context, request
from trace_site.lib.errors import TraceError

QUERY = "please show me what I earned in march 2025"
TRACE = (
    "The person wants the payslip of a month. PayNova/GetPayslip and PayOne/GetPayslip both return one. "
    "PAYSLIP_PERIOD decides: a month of 2024 or later is read with the newer service. So PayNova/GetPayslip."
)
GOOD = dict.fromkeys(AXES, 5)


class Scripted:
    """All three writers: queries and verdicts in turn, traces that fail as often as told."""

    def __init__(self, queries, verdicts=(), trace_errors=0):
        self.queries, self.verdicts, self.trace_errors = list(queries), list(verdicts), trace_errors
        self.asked = 0

    def made_with(self, branch):
        return {}

    async def write(self, wanted):
        if hasattr(wanted, "permissions"):
            if self.trace_errors:
                self.trace_errors -= 1
                raise TraceError("the endpoint broke off.", code="llm_broken")
            return TraceDraft(TRACE, 1)
        self.asked += 1
        return QueryDraft(self.queries.pop(0), ("PayNova/GetPayslip",), "why", 1)

    async def judge(self, wanted):
        return Verdict(wanted.id, self.verdicts.pop(0) if self.verdicts else GOOD)


def made(scripted, seen, number=1):
    pipeline = Pipeline(Writers("test", scripted, scripted, scripted), seen)
    return asyncio.run(pipeline.make(Unit(number, replace(request(style="implicit"), index=number))))


def test_a_query_the_judge_refused_does_not_refuse_its_better_self():
    stiff = {**GOOD, "naturalness": 1}
    scripted = Scripted([QUERY, f"{QUERY} thanks"], [stiff])
    outcome = made(scripted, context())
    assert outcome.ready and [tried.outcome for tried in outcome.attempts] == ["judged_out", "ready"]


def test_a_dropped_query_stands_in_nobodys_way_and_a_ready_one_does():
    seen = context()
    dropped = made(Scripted([QUERY] * 6, [{**GOOD, "label": 1}] * 6), seen)
    assert not dropped.ready and {tried.outcome for tried in dropped.attempts} == {"judged_out"}
    assert made(Scripted([QUERY]), seen, 2).ready
    again = made(Scripted([QUERY] * 6), seen, 3)
    assert not again.ready and again.attempts[0].failures[0].check == "near_duplicate"


def test_a_dropped_sample_keeps_the_texts_that_the_judge_refused_last():
    """What the calibration draw lays before a reader is the sample's row."""
    scripted = Scripted([f"{QUERY} {word}" for word in ["one", "two", "three", "four", "five", "six"]])
    scripted.verdicts = [{**GOOD, "label": 1}] * 6
    outcome = made(scripted, context())
    last = outcome.attempts[-1]
    assert (last.outcome, outcome.draft.query) == ("judged_out", f"{QUERY} six")
    assert (outcome.draft.query, outcome.trace, outcome.draft.answer) == (last.query, last.trace, last.answer)


def test_a_failed_trace_call_does_not_pay_for_the_query_again():
    scripted = Scripted([QUERY], trace_errors=2)
    outcome = made(scripted, context())
    assert outcome.ready and scripted.asked == 1
    assert [tried.error_code for tried in outcome.attempts] == ["llm_broken", "llm_broken", ""]
