"""What a trace commits to, and whether the answer keeps to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.core.metrics import NO_TRACE, trace_fields
from evaluation.core.report import following

names = st.sampled_from([f"Pay/{letter}" for letter in "ABCDE"])
traces = st.lists(names, max_size=12)
answers = st.lists(names, max_size=4)


@pytest.mark.parametrize(
    ("named", "answer", "ends_with", "kept"),
    [
        ("A B A", "A", "A", True),
        ("A B A", "B", "A", False),
        ("A B C B", "C B", "C B", True),  # any order
        ("A B C B", "B C", "C B", True),
        ("A B B", "A B", "A B", True),  # a tool named twice is one tool
        ("A B C", "A B", "B C", False),
        ("A", "A B", "A", False),  # fewer tools named than answered
        ("A B", "", "B", False),  # no answer is not what a naming trace ends with
        ("", "A", "", False),
        ("", "", "", False),
    ],
)
def test_an_answer_of_k_tools_is_held_against_the_last_k_a_trace_names(named, answer, ends_with, kept):
    found = trace_fields(named.split(), answer.split())
    assert found == {"follows_trace": kept, "trace_tools": ends_with.split()}


@given(traces, answers)
def test_order_and_repeats_of_the_answer_do_not_matter(named, answer):
    assert trace_fields(named, answer) == trace_fields(named, [*reversed(answer), *answer])


@given(traces, answers.filter(bool))
def test_a_trace_that_ends_with_the_answer_is_followed_whatever_comes_before(named, answer):
    assert trace_fields([*named, *answer], answer)["follows_trace"]


@given(traces.filter(bool), answers)
def test_a_commitment_is_of_named_tools_and_holds_the_last(named, answer):
    found = trace_fields(named, answer)["trace_tools"]
    assert found[-1] == named[-1] and len(found) == len(set(found)) and set(found) <= set(named)
    assert len(found) == min(max(1, len(set(answer))), len(set(named)))
    assert trace_fields([*named, named[-1]], answer)["trace_tools"] == found


@given(traces, answers)
def test_an_answer_follows_only_tools_the_trace_names(named, answer):
    kept = trace_fields(named, answer)
    assert not kept["follows_trace"] or set(kept["trace_tools"]) == set(answer) <= set(named)
    assert bool(kept["trace_tools"]) == bool(named)


def test_answers_are_counted_by_whether_they_follow_differ_or_have_nothing_to_follow():
    rows = [
        trace_fields(["A", "B"], ["B"]),
        trace_fields(["A", "B"], ["A"]),
        trace_fields([], ["A"]),
        NO_TRACE,
        {"tools": ["A"]},  # stored before this was measured
    ]
    counted = {"n": 3, "follows": 1, "differs": 1, "names_no_tool": 1, "not_measured": 1}
    assert following(rows) == {**counted, "rate": pytest.approx(1 / 3)}
    assert following(rows[3:])["n"] == 0 and following(rows[3:])["rate"] is None
