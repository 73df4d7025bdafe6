"""The verdict of a retraining policy: what starts it, what keeps it, and when it may start at the earliest."""

from datetime import UTC, datetime, timedelta

import pytest

from training.core.retraining import Facts, judge

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LIMITS = {"approved_samples": 50, "changed_rules": 2, "quiet": timedelta(minutes=30)}


def ago(minutes: int) -> datetime:
    return NOON - timedelta(minutes=minutes)


def test_either_limit_alone_is_a_reason():
    assert judge(Facts(NOON, approved=50), **LIMITS).due
    assert judge(Facts(NOON, taught=2), **LIMITS).due
    assert judge(Facts(NOON, approved=49, taught=1), **LIMITS).keeps == [
        "Too little has changed: 49 of 50 newly approved samples, 1 of 2 changed rules."
    ]


def test_a_limit_of_zero_never_starts_it():
    verdict = judge(
        Facts(NOON, approved=999, taught=999), approved_samples=0, changed_rules=0, quiet=timedelta(0)
    )
    assert not verdict.due and verdict.keeps == ["It has no trigger: a person starts it."]


def test_a_change_starts_nothing_before_it_has_been_quiet():
    verdict = judge(Facts(NOON, taught=2, changed_at=ago(12), change="rules changed"), **LIMITS)
    assert verdict.earliest == datetime(2026, 3, 1, 12, 18, tzinfo=UTC) and verdict.keeps == [
        "rules changed 12 min ago, quiet for 30 min: starts at 12:18 UTC at the earliest."
    ]
    assert judge(Facts(NOON, taught=2, changed_at=ago(30)), **LIMITS).due


def test_a_clock_ahead_of_the_change_is_not_a_negative_time():
    kept = judge(Facts(NOON, taught=2, changed_at=ago(-1), change="rules changed"), **LIMITS).keeps
    assert kept[0].startswith("rules changed 0 min ago")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"writing": 1}, "1 synthesis run is writing samples"),
        ({"busy": "job 7 (train (a, m, r+R)) is running"}, "one at a time"),
        (
            {"failed": "The last run made no model: out of memory.", "failed_at": ago(40)},
            "not tried again by itself",
        ),
    ],
)
def test_what_goes_on_or_failed_keeps_it(facts, words):
    verdict = judge(Facts(NOON, approved=50, changed_at=ago(60), **facts), **LIMITS)
    assert verdict.reasons and not verdict.due and words in verdict.keeps[0]


def test_a_failure_keeps_it_only_until_something_changes():
    failed = {"failed": "The last run made no model.", "failed_at": ago(90)}
    assert judge(Facts(NOON, approved=50, changed_at=ago(60), **failed), **LIMITS).due


def test_a_start_on_another_day_names_the_day():
    limits = {"approved_samples": 1, "changed_rules": 0, "quiet": timedelta(hours=20)}
    kept = judge(Facts(NOON, approved=1, changed_at=ago(0), change="rules changed"), **limits).keeps
    assert kept[0].endswith("starts at 08:00 on 02 Mar UTC at the earliest.")


def test_while_too_little_has_changed_nothing_else_is_said_to_keep_it():
    facts = Facts(
        NOON, approved=1, changed_at=ago(1), change="rules changed", writing=2, busy="job 7 is running"
    )
    verdict = judge(facts, **LIMITS)
    assert len(verdict.keeps) == 1 and verdict.earliest is None
