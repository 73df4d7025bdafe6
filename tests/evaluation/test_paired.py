"""The one paired test: what it tells of two sides on the same queries, and when nobody can tell."""

import random

import pytest

from evaluation.core.paired import BETTER, CANNOT_TELL, WORSE, Asked, row_of, weigh


def asked(ours, theirs, domains=("hr",)):
    n = len(ours)
    of = [domains[at % len(domains)] for at in range(n)]
    return Asked("prb", "prb v1", "fast", "hit@1", range(n), of, [""] * n, ours, theirs)


def answers(*args, **options):
    return {(row.domain, row.group): row for row in weigh([asked(*args, **options)], flips=1999)[0]}


def test_a_side_that_wins_most_of_what_differs_is_better_and_the_other_worse():
    draw = random.Random(1)
    ours, theirs = ([float(draw.random() < share) for _ in range(80)] for share in (0.8, 0.5))
    ab, ba = answers(ours, theirs)["all", "all"], answers(theirs, ours)["all", "all"]
    assert (ab.answer, ba.answer) == (BETTER, WORSE)
    assert (ab.difference, ab.low, ab.high) == pytest.approx((-ba.difference, -ba.high, -ba.low), abs=1e-6)
    assert (ab.won, ab.lost) == (ba.lost, ba.won)


def test_all_domains_come_first_then_each_on_its_own_queries():
    rows = answers([1] * 10, [0] * 10, domains=("hr", "tax"))
    assert [(domain, row.n) for (domain, _), row in rows.items()] == [("all", 10), ("hr", 5), ("tax", 5)]
    assert list(answers([1] * 4, [0] * 4)) == [("all", "all")]


def test_five_queries_that_all_favour_one_side_allow_no_verdict_and_seven_do():
    assert answers([1] * 5, [0] * 5)["all", "all"].answer == CANNOT_TELL
    assert answers([1] * 7, [0] * 7)["all", "all"].answer == BETTER


def test_equal_sides_cannot_be_told_apart():
    assert answers([1, 0] * 50, [1, 0] * 50)["all", "all"].answer == CANNOT_TELL
    assert answers([1, 0] * 50, [0, 1] * 50)["all", "all"].answer == CANNOT_TELL


def test_a_slice_that_holds_all_queries_is_found_under_all_of_them():
    rows = answers([1] * 8, [0] * 8)
    assert row_of(rows, "hr", "all", 8) is rows["all", "all"]
    assert row_of(rows, "hr", "all", 7) is None
