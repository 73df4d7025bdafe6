"""Agreement beyond chance, against published tables, naive loops and what must hold whatever the readings."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthesis.core.agreement import (
    FEWEST,
    agreeing,
    cohen_kappa,
    krippendorff_alpha,
    verdict_of,
    wilson,
)

TABLES = st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=3, max_size=3)

# Krippendorff (2011): two observers, two values; two observers, five values
BINARY = ["01", "11", "01", "00", "00", "01", "00", "00", "10", "00"]
TWO = [a + b for a, b in zip("aabbdcccedda", "babbbccceddd", strict=True)]


def table_of(units, values: str) -> list[list[int]]:
    return [[sum(unit == one + other for unit in units) for other in values] for one in values]


def test_kappa_of_cohens_own_table():
    found = cohen_kappa([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    assert found.value == pytest.approx(0.29 / 0.59)
    assert found.n == 200


@pytest.mark.parametrize(
    ("table", "value"),
    [
        (
            [[75, 1, 4], [5, 4, 1], [0, 0, 10]],
            0.6765,
        ),  # Fleiss, Statistical Methods for Rates and Proportions
        ([[20, 5], [10, 15]], 0.4),
        ([[45, 15], [25, 15]], 0.1304),
        ([[25, 35], [5, 35]], 0.2593),
    ],
)
def test_kappa_of_known_tables(table, value):
    assert cohen_kappa(table).value == pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize(("units", "values", "alpha"), [(BINARY, "01", 0.095), (TWO, "abcde", 0.692)])
def test_alpha_of_krippendorffs_two_observers(units, values, alpha):
    assert krippendorff_alpha(table_of(units, values)).value == pytest.approx(alpha, abs=5e-4)


def naive_kappa(table) -> float:
    size, n = len(table), sum(map(sum, table))
    observed = sum(table[i][i] for i in range(size)) / n
    expected = sum(sum(table[i]) / n * sum(table[j][i] for j in range(size)) / n for i in range(size))
    return (observed - expected) / (1 - expected)


@given(TABLES)
def test_kappa_equals_the_plain_definition_whoever_is_named_first(table):
    found = cohen_kappa(table)
    turned = cohen_kappa([list(row) for row in zip(*table, strict=True)])
    if found.value is None:
        assert found.why and turned.value is None
        return
    assert found.value == pytest.approx(naive_kappa(table))
    assert turned.value == pytest.approx(found.value)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=4))
def test_perfect_agreement_is_one(counts):
    table = [[n if i == j else 0 for j in range(len(counts))] for i, n in enumerate(counts)]
    assert cohen_kappa(table).value == pytest.approx(1)
    assert krippendorff_alpha(table).value == pytest.approx(1)
    assert agreeing(table) == (sum(counts), sum(counts))


@given(TABLES)
def test_alpha_of_two_readers_is_scotts_pi_corrected_for_the_size_of_the_sample(table):
    units, alpha = sum(map(sum, table)), krippendorff_alpha(table)
    if alpha.value is None:
        return
    pooled = [sum(table[i]) + sum(row[i] for row in table) for i in range(3)]
    expected = sum((count / (2 * units)) ** 2 for count in pooled)
    pi = (agreeing(table)[0] / units - expected) / (1 - expected)
    assert alpha.value == pytest.approx(pi + (1 - pi) / (2 * units))


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ([[0, 0], [0, 0]], "fewer than 2"),
        ([[1, 0], [0, 0]], "fewer than 2"),
        ([[9, 0], [0, 0]], "one category"),
    ],
)
def test_without_a_value_it_says_why(table, why):
    for found in (cohen_kappa(table), krippendorff_alpha(table)):
        assert found.value is None and why in found.why
        assert found.verdict == "cannot tell"


def test_the_interval_is_the_percentiles_of_resampled_units():
    """The same as drawing rows with replacement and counting them again, within the noise of 1000 draws."""
    import random

    table = [[60, 4, 6], [5, 20, 5], [2, 3, 45]]
    rows = [(i, j) for i in range(3) for j in range(3) for _ in range(table[i][j])]
    rng, values = random.Random(1), []
    for _ in range(1000):
        drawn = Counter(rng.choices(rows, k=len(rows)))
        values.append(naive_kappa([[drawn[i, j] for j in range(3)] for i in range(3)]))
    values.sort()
    found = cohen_kappa(table)
    assert found.low == pytest.approx(values[25], abs=0.02)
    assert found.high == pytest.approx(values[974], abs=0.02)


def test_the_same_table_has_the_same_interval():
    assert cohen_kappa([[30, 6], [7, 20]]) == cohen_kappa([[30, 6], [7, 20]])


@pytest.mark.parametrize(
    ("low", "high", "n", "verdict"),
    [
        (0.82, 0.95, 100, "reliable"),
        (0.7, 0.9, 100, "tentative"),
        (0.2, 0.5, 100, "unreliable"),
        (0.4, 0.9, 100, "cannot tell"),
        (1.0, 1.0, FEWEST - 1, "cannot tell"),
    ],
)
def test_a_wide_interval_and_a_small_number_cannot_tell(low, high, n, verdict):
    assert verdict_of(low, high, n) == verdict


def test_many_draws_without_a_value_cannot_tell():
    """The one other unit is missing in (29/30)^30 of the draws."""
    found = cohen_kappa([[29, 0], [0, 1]])
    assert (found.value, found.low, found.high, found.verdict) == (1, 1, 1, "cannot tell")


def test_wilson_of_a_published_example_and_at_the_ends():
    found = wilson(81, 263)  # Newcombe (1998), Statistics in Medicine 17
    assert (found.low, found.high) == (pytest.approx(0.2553, abs=1e-4), pytest.approx(0.3662, abs=1e-4))
    assert wilson(0, 20).low == 0 and wilson(0, 20).high == pytest.approx(0.1611, abs=1e-4)
    assert wilson(20, 20).high == 1
    assert wilson(0, 0).value is None and (wilson(0, 0).low, wilson(0, 0).high) == (0, 1)


@given(st.integers(0, 400), st.integers(0, 400))
def test_wilson_holds_the_share_it_is_about(hits, misses):
    found = wilson(hits, hits + misses)
    assert found.value is None or 0 <= found.low <= found.value <= found.high <= 1
    assert not math.isnan(found.low)
