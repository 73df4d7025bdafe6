"""The sentences about what a model did not read of a request."""

import pytest

from evaluation.retrieval.retriever import reading_notes

CUT = "This request is longer than the model reads; what goes beyond was left out."


@pytest.mark.parametrize(
    ("query", "unread", "cut", "notes"),
    [
        ("my payslip", [], False, []),
        ("my payslip", None, False, []),
        (
            "pay 工资单 王小明 и 2024 now",
            ["工资单", "王小明", "и"],
            False,
            ["The model cannot read 3 of 5 words of this request: its encoder has no words in that script."],
        ),
        (
            "工资单",
            ["工资单"],
            False,
            ["The model cannot read this request: its encoder has no words in that script."],
        ),
        ("my payslip", None, True, [CUT]),
        (
            "工资单",
            ["工资单"],
            True,
            ["The model cannot read this request: its encoder has no words in that script.", CUT],
        ),
    ],
)
def test_every_remark_is_one_plain_sentence(query, unread, cut, notes):
    assert reading_notes(query, unread, cut) == notes
