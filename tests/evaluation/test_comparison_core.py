"""The difference of two models on the same questions, and when it allows a verdict."""

import random

import pytest

from evaluation.core.comparison import differences
from evaluation.core.stats import compare


def scores(values, domains=("hr",), **more):
    return {
        item: (domains[item % len(domains)], {"accuracy": float(value), **more})
        for item, value in enumerate(values)
    }


def ranked(values):
    return {
        item: ("hr", {"hit@1": value, "recall@5": value, "hit@10": 1.0}) for item, value in enumerate(values)
    }


def lists(values, size):
    return {
        item: ("hr", {"hit@1": value, "recall@gen": value, "precision@gen": value, "set_size": size})
        for item, value in enumerate(values)
    }


def test_difference_and_interval_are_those_of_the_paired_bootstrap():
    draw = random.Random(1)
    ours, theirs = ([float(draw.random() < share) for _ in range(80)] for share in (0.8, 0.5))
    (row,) = differences(scores(ours), scores(theirs), seed=3)
    expected = compare(ours, theirs, seed=3).difference
    assert (row.difference, row.low, row.high) == pytest.approx((expected.mean, expected.low, expected.high))
    assert (row.n, row.verdict) == (80, "better") and differences(scores(theirs), scores(ours))[
        0
    ].verdict == "worse"


def test_all_domains_come_first_then_each_on_its_own_queries():
    rows = differences(scores([1] * 10, ("hr", "tax")), scores([0] * 10, ("hr", "tax")))
    assert [(row.domain, row.n) for row in rows] == [("all", 10), ("hr", 5), ("tax", 5)]
    assert [row.domain for row in differences(scores([1] * 4), scores([0] * 4))] == ["all"]


def test_few_differing_queries_allow_no_verdict_however_narrow_the_interval():
    (row,) = differences(scores([1] * 5), scores([0] * 5))
    assert (row.low, row.high, row.verdict) == (1.0, 1.0, "cannot tell")
    assert differences(scores([1] * 6), scores([0] * 6))[0].verdict == "better"


def test_equal_models_cannot_be_told_apart():
    assert differences(scores([1, 0] * 50), scores([1, 0] * 50))[0].verdict == "cannot tell"


def test_only_queries_both_answered_count():
    assert differences(scores([1] * 10), scores([1] * 4))[0].n == 4
    assert differences(scores([1]), {}) == []


def test_lists_show_their_length_beside_recall_and_ranked_lists_their_own_metrics():
    rows = differences(lists([1.0] * 8, 3), lists([1.0] * 8, 1))
    assert [(row.metric, row.our_size, row.their_size) for row in rows] == [
        ("recall@gen", 3.0, 1.0),
        ("precision@gen", 3.0, 1.0),
    ]
    assert [row.metric for row in differences(ranked([1.0] * 8), ranked([0.0] * 8))] == ["hit@1", "recall@5"]
