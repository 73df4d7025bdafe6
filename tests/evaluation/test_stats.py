import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.core import stats

scores = st.lists(st.floats(0, 1, allow_nan=False), min_size=1, max_size=12)


def naive_means(values, draws, seed):
    """Draw by draw, query by query, with the same generator."""
    generator = np.random.default_rng(seed)
    means = []
    for _ in range(draws):
        total = 0.0
        for _ in values:
            total += values[int(generator.integers(0, len(values)))]
        means.append(total / len(values))
    return means


@settings(max_examples=10)
@given(values=scores, seed=st.integers(0, 5))
def test_bootstrap_equals_a_seeded_naive_loop(values, seed):
    fast = stats.resampled_means(np.array(values)[:, None], 130, seed)[:, 0]
    assert fast == pytest.approx(naive_means(values, 130, seed), abs=1e-12)


@settings(max_examples=15)
@given(values=scores)
def test_interval_lies_within_the_scores_and_repeats(values):
    first, again = (stats.bootstrap(values, seed=3, draws=60) for _ in range(2))
    assert first == again
    assert min(values) - 1e-9 <= first.low <= first.high <= max(values) + 1e-9
    assert first.n == len(values) and first.draws == 60 and first.seed == 3


@settings(max_examples=10)
@given(values=scores)
def test_columns_of_a_table_are_resampled_together(values):
    table = [[value, 1 - value] for value in values]
    one, other = stats.bootstrap_table(table, seed=1, draws=40)
    assert one.low == pytest.approx(stats.bootstrap(values, seed=1, draws=40).low)
    assert other.low == pytest.approx(1 - one.high) and other.high == pytest.approx(1 - one.low)


def test_equal_scores_have_an_interval_of_no_width():
    interval = stats.bootstrap([0.25] * 20)
    assert (interval.low, interval.mean, interval.high) == (0.25, 0.25, 0.25)


def test_interval_of_a_fair_coin_has_the_textbook_width():
    interval = stats.bootstrap([0, 1] * 200, seed=0)
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * 0.5 / 20, rel=0.1)
