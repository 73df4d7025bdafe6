"""Agreement beyond chance, against published tables, naive loops and what must hold whatever the readings."""

import math
from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthesis.core.agreement import (
    DRAWS,
    FEWEST,
    Estimate,
    agreeing,
    cohen_kappa,
    krippendorff_alpha,
    patterns_of,
    wilson,
)

FAST = {"draws": 20}
TABLES = st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=3, max_size=3)
UNITS = st.lists(st.lists(st.integers(0, 3), min_size=0, max_size=4), min_size=2, max_size=30)

# Krippendorff (2011): two observers, two values; two observers, five values; four observers with gaps
BINARY = ["01", "11", "01", "00", "00", "01", "00", "00", "10", "00"]
TWO = [a + b for a, b in zip("aabbdcccedda", "babbbccceddd", strict=True)]
FOUR = ["111", "2232", "3333", "3333", "2222", "1234", "4444", "1121", "2222", "555", "11", "3"]


def patterns(units, values: str) -> Counter[tuple[int, ...]]:
    return Counter(tuple(list(unit).count(value) for value in values) for unit in units)


def test_kappa_of_cohens_own_table():
    found = cohen_kappa([[88, 14, 18], [10, 40, 10], [2, 6, 12]], **FAST)
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
    assert cohen_kappa(table, **FAST).value == pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize(("units", "values", "alpha"), [(BINARY, "01", 0.095), (TWO, "abcde", 0.692)])
def test_alpha_of_krippendorffs_two_observers(units, values, alpha):
    assert krippendorff_alpha(patterns(units, values), **FAST).value == pytest.approx(alpha, abs=5e-4)


def test_alpha_of_krippendorffs_four_observers_with_missing_data():
    found = krippendorff_alpha(patterns(FOUR, "12345"), **FAST)
    assert found.value == pytest.approx(0.743, abs=5e-4)
    assert found.n == 11, "the unit that one observer read tells nothing"


def naive_kappa(table) -> float:
    size, n = len(table), sum(map(sum, table))
    observed = sum(table[i][i] for i in range(size)) / n
    expected = sum(sum(table[i]) / n * sum(table[j][i] for j in range(size)) / n for i in range(size))
    return (observed - expected) / (1 - expected)


def naive_alpha(units) -> float:
    """Every ordered pair of readings of a unit, weighed by 1 / (readings - 1)."""
    together: Counter[tuple[int, int]] = Counter()
    for unit in units:
        for one, other in permutations(range(len(unit)), 2):
            together[unit[one], unit[other]] += 1 / (len(unit) - 1)
    totals: Counter[int] = Counter()
    for (one, _), weight in together.items():
        totals[one] += weight
    n = sum(totals.values())
    unlike = sum(weight for (one, other), weight in together.items() if one != other)
    expected = sum(totals[c] * totals[k] for c in totals for k in totals if c != k) / (n - 1)
    return 1 - unlike / expected


@given(TABLES)
def test_kappa_equals_the_plain_definition_whoever_is_named_first(table):
    found = cohen_kappa(table, draws=2)
    turned = cohen_kappa([list(row) for row in zip(*table, strict=True)], draws=2)
    if found.value is None:
        assert found.why and turned.value is None
        return
    assert found.value == pytest.approx(naive_kappa(table))
    assert turned.value == pytest.approx(found.value)


@given(UNITS, st.randoms())
def test_alpha_equals_the_plain_definition_in_any_order_of_readers(units, random):
    paired = [unit for unit in units if len(unit) > 1]
    found = krippendorff_alpha(patterns(units, range(4)), draws=2)
    if found.value is None:
        assert len(paired) < 2 or len({value for unit in paired for value in unit}) == 1
        return
    assert found.value == pytest.approx(naive_alpha(paired))
    mixed = [random.sample(unit, len(unit)) for unit in units]
    assert krippendorff_alpha(patterns(mixed, range(4)), draws=2).value == pytest.approx(found.value)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=4))
def test_perfect_agreement_is_one(counts):
    table = [[n if i == j else 0 for j in range(len(counts))] for i, n in enumerate(counts)]
    assert cohen_kappa(table, **FAST).value == pytest.approx(1)
    assert krippendorff_alpha(patterns_of(table), **FAST).value == pytest.approx(1)
    assert agreeing(table) == (sum(counts), sum(counts))


@given(TABLES)
def test_alpha_of_two_readers_is_scotts_pi_corrected_for_the_size_of_the_sample(table):
    units, alpha = sum(map(sum, table)), krippendorff_alpha(patterns_of(table), draws=2)
    if alpha.value is None:
        return
    pooled = [sum(table[i]) + sum(row[i] for row in table) for i in range(3)]
    expected = sum((count / (2 * units)) ** 2 for count in pooled)
    pi = (agreeing(table)[0] / units - expected) / (1 - expected)
    assert alpha.value == pytest.approx(pi + (1 - pi) / (2 * units))


def test_an_edit_may_count_as_an_approval():
    table = [[10, 20, 0], [20, 10, 0], [0, 0, 30]]
    assert cohen_kappa(table, **FAST).value < 0.5
    assert cohen_kappa(table, collapse=(0, 0, 1), **FAST).value == 1


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ([[0, 0], [0, 0]], "fewer than 2"),
        ([[1, 0], [0, 0]], "fewer than 2"),
        ([[9, 0], [0, 0]], "one category"),
    ],
)
def test_without_a_value_it_says_why(table, why):
    for found in (cohen_kappa(table), krippendorff_alpha(patterns_of(table))):
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
    assert (found.draws, found.seed) == (DRAWS, 0)


def test_the_same_seed_gives_the_same_interval_and_another_one_another():
    table = [[30, 6], [7, 20]]
    assert cohen_kappa(table, seed=3) == cohen_kappa(table, seed=3)
    assert cohen_kappa(table, seed=3).low != cohen_kappa(table, seed=4).low


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
    assert Estimate((low + high) / 2, low, high, n).verdict == verdict


def test_draws_without_a_value_are_counted_and_many_of_them_cannot_tell():
    found = cohen_kappa([[29, 0], [0, 1]])
    assert found.value == 1
    assert 0.2 < found.undefined / found.draws < 0.5, (
        "the one other unit is missing in (29/30)^30 of the draws"
    )
    assert found.verdict == "cannot tell"


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
