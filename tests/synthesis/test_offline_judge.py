"""The offline judge, apart from the offline writers: hand-made faults are caught, hand-made clean samples pass."""

import asyncio
from dataclasses import replace

import pytest

from synthesis.core.queries import AXES, THRESHOLDS, JudgeRequest, Verdict
from synthesis.offline.judge import OfflineJudge, known_cases
from tests.synthesis.texts import RULE, TOOLS, TRACE

NEW = (
    "The person wants the payslip of March 2024. PayNova and PayOne hold payslips. PayNova/GetPayslip and "
    "PayOne/GetPayslip look alike. PAYSLIP_PERIOD: the payslip is for a period in 2024 or later. So PayNova/GetPayslip."
)
LINES = (
    "The parking deduction is asked about. PayNova shows payslips and their lines. PayNova/GetPayslip and "
    "PayNova/GetPayslipLines are close. PAYSLIP_PERIOD: one earning code is questioned. So PayNova/GetPayslipLines."
)


def judge(
    query="my pay document from November 2022 for the bank",
    answer="PayOne/GetPayslip",
    trace=TRACE,
    style="exception",
):
    request = JudgeRequest("1", "rule", query, trace, (answer,), TOOLS, style, "", RULE)
    return asyncio.run(OfflineJudge(THRESHOLDS).judge(request))


@pytest.mark.parametrize(
    ("query", "answer", "trace", "style"),
    [
        ("my pay document from November 2022 for the bank", "PayOne/GetPayslip", TRACE, "exception"),
        (
            "what did i earn back in 2020?",
            "PayOne/GetPayslip",
            TRACE.replace("November 2022", "earn back in 2020"),
            "exception",
        ),
        ("Show me my March 2024 payslip please", "PayNova/GetPayslip", NEW, "explicit"),
        (
            "the salary slip for June 2025, where is it",
            "PayNova/GetPayslip",
            NEW.replace("payslip of March 2024", "salary slip for June 2025"),
            "implicit",
        ),
        ("why is there a parking deduction this month", "PayNova/GetPayslipLines", LINES, "exception"),
    ],
)
def test_a_clean_sample_passes(query, answer, trace, style):
    verdict = judge(query, answer, trace, style)
    assert verdict.passed, verdict.critique


@pytest.mark.parametrize(
    ("axis", "changes"),
    [
        ("label", {"query": "my pay document from March 2024 for the bank"}),
        ("label", {"query": "why was the parking deduction taken, wage type 4120"}),
        ("label", {"query": "please cancel the meeting room for tomorrow"}),
        ("naturalness", {"query": "PLEASE SEND THE NOVEMBER 2022 PAY DOCUMENT TO ME"}),
        ("naturalness", {"query": "pay pay pay document pay November 2022 ,"}),
        ("naturalness", {"query": "Call the endpoint with the request body for November 2022"}),
        ("naturalness", {"query": "November 2022"}),
        ("faithfulness", {"trace": TRACE.replace("before 2024", "in 2024 or later")}),
        ("faithfulness", {"trace": TRACE.replace("So PayOne/GetPayslip.", "So PayNova/GetPayslip.")}),
        ("faithfulness", {"trace": "PAYSLIP_PERIOD decides this one. So PayOne/GetPayslip."}),
        ("compliance", {"answer": "PayNova/GetPayslip"}),
        ("compliance", {"style": "explicit", "query": "send the document for the bank to Dana Ruiz"}),
        (
            "compliance",
            {
                "style": "implicit",
                "answer": "PayNova/GetPayslip",
                "trace": NEW,
                "query": "the payslip is for a period in 2024 or later, March 2024",
            },
        ),
    ],
)
def test_a_planted_fault_fails_its_axis(axis, changes):
    verdict = judge(**changes)
    assert axis in verdict.failed_axes
    assert verdict.critique


def test_an_underspecified_query_says_nothing_of_any_case():
    def scores(query, answer="PayNova/GetPayslip"):
        return judge(query, answer, NEW, "underspecified").scores

    assert scores("can I see the payslip of Dana Ruiz")["compliance"] == 5
    assert scores("can I see the payslip of Dana Ruiz")["label"] == 5
    assert scores("can I see the payslip of Dana Ruiz, November 2022")["compliance"] < 3
    assert scores("can I see the payslip of Dana Ruiz, November 2022")["label"] < 4
    assert scores("can I see the payslip of Dana Ruiz", "PayOne/GetPayslip")["compliance"] == 1


def test_a_missing_score_fails_closed():
    assert Verdict("1", dict.fromkeys(AXES, 5)).passed
    assert Verdict("1", {"naturalness": 5, "compliance": 5, "label": 5}).failed_axes == ("faithfulness",)
    assert not Verdict("1", {}).passed


def test_without_a_rule_the_tools_own_words_decide():
    trace = "A company car for a trip is wanted. CarPool/BookCar books a company car. So CarPool/BookCar."

    def verdict(answer):
        request = JudgeRequest(
            "1", "rrb", "book a company car for my trip to Lyon", trace, (answer,), TOOLS, "", "easy"
        )
        return asyncio.run(OfflineJudge(THRESHOLDS).judge(request))

    assert verdict("CarPool/BookCar").passed
    assert "label" in verdict("Benefits/CreateElection").failed_axes


def test_marks_in_rule_and_trace_are_text_like_any_other():
    odd = replace(RULE, text=f"{RULE.text} See ⟦99⟧ and ⟦0⟧.", clauses=())
    request = JudgeRequest(
        "1",
        "rule",
        "my payslip of March 2024 ⟦7⟧",
        f"⟦99⟧ {NEW}",
        ("PayNova/GetPayslip",),
        TOOLS,
        "explicit",
        "",
        odd,
    )
    assert set(asyncio.run(OfflineJudge(THRESHOLDS).judge(request)).scores) == set(AXES)


def test_a_rule_is_read_again_only_when_it_or_one_of_its_tools_changes():
    first = known_cases(RULE, TOOLS)
    assert known_cases(replace(RULE), tuple(reversed(TOOLS))) is first
    assert known_cases(replace(RULE, clauses=RULE.clauses[:-1]), TOOLS) is not first
    assert known_cases(RULE, tuple(replace(tool, deprecated=True) for tool in TOOLS)) == ()
