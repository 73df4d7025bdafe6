"""What look-alikes cost: shares of labelled requests at uncovered pairs times requests; what was not asked is not 0."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.core.confusion import (
    EMBEDDING,
    MODEL,
    Ground,
    Miss,
    Outcome,
    Rank,
    Tallies,
    Tally,
    Term,
    covered_tally,
    expected,
    gap_terms,
    open_tools,
    ranking,
    rule_chance,
    what_if,
)
from evaluation.core.coverage import ClusterCoverage, ClusterFacts
from synthesis.core.agreement import Bounds, minus


def cluster(number, tools, covered=(), uncovered=(), state="touched", apart=()):
    edges = tuple((a, b, 0.9) for a, b in (*covered, *uncovered))
    facts = ClusterFacts(number, frozenset(tools), edges, 0.9, state == "dismissed")
    parts = {"cluster": facts, "state": state, "covered": tuple(covered), "uncovered": tuple(uncovered)}
    parts["apart"] = (*covered, *apart)
    empty = {name: () for name in ClusterCoverage.__dataclass_fields__ if name not in parts}
    return ClusterCoverage(**parts, **empty)


PAY = cluster(1, (1, 2, 3, 4), covered=[(1, 2)], uncovered=[(3, 2), (3, 4)], apart=[(2, 4)])
LEAVE = cluster(2, (8, 9), uncovered=[(8, 9)], state="no_rule")
GONE = cluster(3, (5, 6), uncovered=[(5, 6)], state="dismissed")
GROUND = Ground.build([PAY, LEAVE, GONE])


def asked(*gold, model=..., embedding=...):
    firsts = {MODEL: model, EMBEDDING: embedding}
    return Outcome(gold, {side: first for side, first in firsts.items() if first is not ...})


def test_a_wrong_answer_belongs_to_the_pair_that_no_rule_tells_apart_first():
    assert GROUND.miss(asked(3, model=3), MODEL) is None
    assert GROUND.miss(asked(3, 2, model=2), MODEL) is None  # one of two right tools
    assert GROUND.miss(asked(3, model=2), MODEL) == Miss(3, 2, "uncovered")  # a pair has no order
    assert GROUND.miss(asked(1, 3, model=2), MODEL) == Miss(3, 2, "uncovered")
    assert GROUND.miss(asked(1, 4, model=2), MODEL) == Miss(1, 2, "covered")
    assert GROUND.miss(asked(4, 1, model=8), MODEL) == Miss(4, 8, "elsewhere")
    assert GROUND.miss(asked(4, model=None), MODEL) == Miss(4, None, "elsewhere")
    assert GROUND.miss(asked(4, model=1), MODEL) == Miss(
        4, 1, "uncovered"
    )  # joined by others, in one cluster
    assert GROUND.miss(asked(4, model=2), MODEL) == Miss(4, 2, "elsewhere")  # no edge, and told apart
    assert GROUND.miss(asked(1, model=4), MODEL) == Miss(1, 4, "elsewhere")  # every pair of 1 is told apart
    assert GROUND.miss(asked(5, model=6), MODEL) == Miss(5, 6, "elsewhere")  # a dismissed cluster has none
    assert GROUND.miss(asked(3, model=2), EMBEDDING) is None  # it was not asked


def test_requests_count_at_each_right_tool_and_wrong_ones_at_one_pair():
    found = Tallies.count([asked(1, 3, model=2), asked(3, model=3), asked(8, embedding=9)], GROUND, MODEL)
    assert found.tools == {1: Tally(1, 1), 3: Tally(2, 1, uncovered=1)}
    assert found.clusters == {1: Tally(2, 1, uncovered=1)}


def test_tools_without_labelled_requests_are_not_measured():
    terms = gap_terms(open_tools(LEAVE), {}, {8: 50})
    assert open_tools(LEAVE) == [8, 9] and expected(terms) is None
    assert open_tools(GONE) == []


def test_score_is_requests_times_the_share_that_goes_wrong_at_uncovered_pairs():
    tallies = {8: Tally(10, 5, uncovered=4, covered=1), 9: Tally(5, 0)}
    terms = gap_terms([8, 9], tallies, {8: 30})
    assert terms == [Term(30, 4, 10), Term(1, 0, 5)]  # one request where none is recorded
    assert expected(terms).value == pytest.approx(30 * 0.4 + 0)


def test_one_tool_has_the_interval_of_wilson():
    # Newcombe (1998), Statistics in Medicine 17: 81 of 263
    found = expected([Term(100, 81, 263)])
    assert found == pytest.approx((30.798, 25.530, 36.620), abs=2e-3)


def test_difference_of_two_shares_has_the_interval_of_newcombe():
    # the same paper, method 10, 56/70 - 48/80: 0.2, 0.0524 to 0.3339
    found = minus(expected([Term(1, 56, 70)]), expected([Term(1, 48, 80)]))
    assert found == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


counts = st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(1, 500), st.integers(0, n), st.just(n)))


@given(st.lists(counts, max_size=12))
def test_expected_lies_in_its_interval_and_between_nothing_and_everything(rows):
    terms = [Term(*row) for row in rows]
    found = expected(terms)
    if not any(term.n for term in terms):
        assert found is None
        return
    asked_of = sum(term.requests for term in terms if term.n)
    assert 0 <= found.low <= found.value <= found.high
    assert found.value <= asked_of + 1e-9
    assert (found.value == 0) == all(term.wrong == 0 for term in terms)


@given(st.lists(counts, min_size=1, max_size=8), st.integers(2, 9))
def test_twice_the_requests_are_twice_the_wrong_answers_and_more_labels_narrow_the_interval(rows, times):
    terms = [Term(*row) for row in rows]
    found = expected(terms)
    if found is None:
        return
    scaled = expected([term._replace(requests=term.requests * times) for term in terms])
    assert scaled == pytest.approx(tuple(times * end for end in found))
    surer = expected([term._replace(wrong=term.wrong * times, n=term.n * times) for term in terms])
    assert surer.value == pytest.approx(found.value)
    assert surer.high - surer.value <= found.high - found.value + 1e-9


@given(st.lists(counts, min_size=1, max_size=8), counts)
def test_a_tool_more_never_lowers_what_is_expected(rows, more):
    before, after = expected([Term(*row) for row in rows]), expected([Term(*row) for row in (*rows, more)])
    if before is not None:
        assert after.value >= before.value - 1e-9


outcomes = st.lists(
    st.builds(
        lambda gold, model, embedding: Outcome(tuple(gold), {MODEL: model, EMBEDDING: embedding}),
        st.lists(st.integers(1, 10), min_size=1, max_size=3, unique=True),
        st.none() | st.integers(1, 10),
        st.none() | st.integers(1, 10),
    ),
    max_size=40,
)


@given(outcomes)
def test_every_wrong_answer_is_counted_once(requests):
    for side in (MODEL, EMBEDDING):
        found = Tallies.count(requests, GROUND, side)
        misses = [GROUND.miss(one, side) for one in requests]
        wrong = [miss for miss in misses if miss]
        for at in ("uncovered", "covered"):
            many = sum(miss.at == at for miss in wrong)
            assert sum(getattr(tally, at) for tally in found.tools.values()) == many
            assert sum(getattr(tally, at) for tally in found.clusters.values()) == many
        assert all(t.uncovered + t.covered <= t.wrong <= t.n for t in found.tools.values())


def test_what_if_is_what_goes_wrong_less_what_goes_wrong_at_covered_pairs():
    found = what_if([Term(100, 40, 80), Term(7, 0, 0)], Tally(n=50, wrong=9, covered=5))
    assert (found.tools, found.measured) == (2, 1)
    assert found.misses.value == 50 and found.left.value == 10 and found.gain.value == 40
    assert 0 < found.gain.low < 40 < found.gain.high < 60


def test_what_if_claims_no_gain_that_was_not_measured():
    nothing = what_if([Term(9, 0, 0)], Tally(n=5, covered=1))
    assert nothing.misses is nothing.left is nothing.gain is None
    unknown = what_if([Term(9, 1, 3)], Tally())
    assert unknown.misses == expected([Term(9, 1, 3)]) and unknown.gain is None


@given(counts, counts)
def test_gain_is_never_more_than_what_goes_wrong(row, covered):
    found = what_if([Term(*row)], Tally(n=covered[2], covered=covered[1]))
    if found.gain is not None:
        assert found.gain.value <= found.misses.value
        assert found.gain.low <= found.gain.value <= found.gain.high
        assert math.isclose(found.gain.value, found.misses.value - found.left.value)


def test_covered_tally_is_of_tools_with_a_covered_pair():
    tallies = {1: Tally(4, 2, covered=1), 3: Tally(9, 9, uncovered=9), 5: Tally(7, 7, covered=7)}
    assert covered_tally([PAY, GONE], tallies) == Tally(n=4, wrong=2, covered=1)


def test_order_of_gaps_says_what_went_wrong_before_what_signals_let_expect_and_measured_without_a_miss_last():
    rows = [
        Rank(1, None, True, 0.1),
        Rank(2, 0.0, False, 0.9),  # all its tools were asked for, and none went wrong
        Rank(3, 0.5, True, 0.0),
        Rank(4, 2.0, False, 0.0),
        Rank(5, None, True, 0.3),
        Rank(6, 0.0, True, 0.2),  # one of them was
    ]
    assert ranking(rows) == [4, 3, 5, 6, 1, 2]


def test_signals_let_expect_a_rule_where_the_words_call_for_one_and_never_between_versions():
    words = rule_chance({"points": [["A/a", "Use b instead."]], "ranks": [1, 1]})
    gone = rule_chance({"deprecated": "A/a", "ranks": [0, 3]})
    same = rule_chance({"operation": True, "ranks": [9, 0]})
    near, far = rule_chance({"ranks": [1, 4]}), rule_chance({"ranks": [0, 4]})
    assert words > gone > same > near > far > 0
    assert rule_chance({"deprecated": "A/a", "ranks": [4, 0]}) == far
    assert rule_chance({"version": True, "points": [["A/a", "Use b."]]}) == 0
    assert rule_chance({}) == near  # of a clustering that kept no signals


def test_rules_are_expected_over_uncovered_pairs_only():
    row = replace(PAY, cluster=replace(PAY.cluster, chances={(1, 2): 0.25, (3, 2): 0.08, (3, 4): 0.01}))
    assert math.isclose(row.expected_rules, 0.09)
    assert replace(row, state="dismissed").expected_rules == 0


def test_bounds_of_nothing_wrong_reach_above_zero():
    found = expected([Term(10, 0, 3)])
    assert found.value == found.low == 0 and found.high > 1
    assert isinstance(found, Bounds)
