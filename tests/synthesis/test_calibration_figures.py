"""The judge against people: raw and weighted figures, and the share to read that follows."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthesis.core.agreement import FLOOR, TARGET, Matrix, Reads, pooled, proposal, wilson


def reads(*counts: int, population: int = 0, weight: float = 1.0) -> Reads:
    approved, edited, rejected = counts
    return Reads(
        counts=(approved, edited, rejected),
        weights=(approved * weight, edited * weight, rejected * weight),
        squares=(approved * weight**2, edited * weight**2, rejected * weight**2),
        population=population or sum(counts),
    )


def test_an_edit_is_an_approval_unless_it_is_counted_strictly():
    found = Matrix(reads(80, 10, 10), reads(5, 5, 40))
    assert (found.false_accept.value, found.false_refuse.value) == (pytest.approx(0.1), pytest.approx(0.2))
    strict = Matrix(found.accepted, found.refused, strict=True)
    assert (strict.false_accept.value, strict.false_refuse.value) == (pytest.approx(0.2), pytest.approx(0.1))


def test_equal_weights_are_as_good_as_none():
    plain, heavy = reads(80, 10, 10), reads(80, 10, 10, weight=7.0, population=700)
    assert heavy.effective == pytest.approx(100)
    assert heavy.rate(2) == plain.rate(2)
    assert (plain.rate(2).low, plain.rate(2).high) == (wilson(10, 100).low, wilson(10, 100).high)


def test_a_batch_read_by_lot_stands_for_all_of_it():
    """10 of 1000 read, none bad; another 100 read fully, 20 bad: 20 of 1100 are expected bad, not 20 of 110."""
    batch, rest = reads(10, 0, 0, weight=100.0), reads(80, 0, 20)
    both = Reads(
        counts=(90, 0, 20),
        weights=tuple(a + b for a, b in zip(batch.weights, rest.weights, strict=True)),
        squares=tuple(a + b for a, b in zip(batch.squares, rest.squares, strict=True)),
        population=1100,
    )
    assert both.rate(2).value == pytest.approx(20 / 1100)
    assert both.effective < 15, "ten heavy readings carry the estimate"


def test_strata_weigh_as_many_samples_as_they_have():
    easy, hard = reads(90, 0, 10, population=9000), reads(5, 0, 5, population=1000)
    found = pooled([easy, hard])
    assert found.rate(2).value == pytest.approx(0.9 * 0.1 + 0.1 * 0.5)
    assert found.counts == (95, 0, 15)
    assert found.population == 10_000


def test_a_stratum_nobody_has_read_adds_no_reading():
    found = pooled([reads(9, 0, 1, population=100), Reads(population=500)])
    assert found.population == 600
    assert found.rate(2).value == pytest.approx(0.1)


def test_the_weighted_kappa_does_not_move_with_how_many_refusals_were_drawn():
    accepted = reads(900, 0, 100, population=9000)
    few = Matrix(accepted, reads(4, 0, 16, population=1000))
    many = Matrix(accepted, reads(200, 0, 800, population=1000))
    assert few.weighted_kappa.value == pytest.approx(many.weighted_kappa.value)
    assert few.raw_kappa.value != pytest.approx(many.raw_kappa.value, abs=0.1)
    assert few.weighted_kappa.low < many.weighted_kappa.low, "few refusals read: a wide interval"
    # by hand: cells 8100, 900, 200, 800 of 10000
    observed, expected = 0.89, 0.9 * 0.83 + 0.1 * 0.17
    assert many.weighted_kappa.value == pytest.approx((observed - expected) / (1 - expected))


def test_when_all_is_read_the_weighted_kappa_is_the_raw_one():
    found = Matrix(reads(70, 10, 20), reads(10, 0, 40))
    assert found.weighted_kappa.value == pytest.approx(found.raw_kappa.value)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """Samples drawn from a known judge: 8 % false accepts, 30 % false refusals, 20 % of all refused."""
    truth = Matrix(
        reads(9200, 0, 800, population=8000), reads(300, 0, 700, population=2000)
    ).weighted_kappa.value
    rng, held = random.Random(7), 0
    for _ in range(200):
        bad = sum(rng.random() < 0.08 for _ in range(150))
        good = sum(rng.random() < 0.3 for _ in range(40))
        found = Matrix(
            reads(150 - bad, 0, bad, population=8000), reads(good, 0, 40 - good, population=2000)
        ).weighted_kappa
        held += found.low <= truth <= found.high
    assert 0.9 <= held / 200 <= 0.99


@pytest.mark.parametrize(
    ("accepted", "refused", "why"),
    [
        (Reads(), Reads(), "accepted"),
        (reads(5, 0, 1), Reads(), "refused"),
        (Reads(), reads(1, 0, 5), "accepted"),
    ],
)
def test_one_row_alone_has_no_kappa_and_says_which_is_missing(accepted, refused, why):
    for found in (Matrix(accepted, refused).weighted_kappa, Matrix(accepted, refused).raw_kappa):
        assert found.value is None and why in found.why


def test_a_few_readings_without_a_fault_are_not_taken_for_certain():
    found = Matrix(reads(20, 0, 0, population=1000), reads(0, 0, 20, population=100)).weighted_kappa
    assert found.value == 1 and found.low < 0.95


def test_the_share_to_read_leaves_no_more_than_the_target_unread():
    found = proposal(reads(90, 0, 10))
    upper = wilson(10, 100).high
    assert found.share == pytest.approx(1 - TARGET / upper)
    assert upper * (1 - found.share) == pytest.approx(TARGET)
    assert found.why == f"1 - 0.020 / {upper:.3f} = {found.share:.3f}"


def test_a_good_judge_needs_only_the_floor():
    found = proposal(reads(9999, 0, 1))
    assert found.share == FLOOR and "the floor" in found.why
    assert proposal(reads(975, 0, 25), target=0.035).share == pytest.approx(FLOOR)


def test_few_readings_ask_for_more_reading_and_none_for_nearly_all():
    assert (
        proposal(reads(10, 0, 0)).share > proposal(reads(100, 0, 0)).share > proposal(reads(1000, 0, 0)).share
    )
    nothing = proposal(Reads(population=50))
    assert nothing.share == pytest.approx(0.98) and nothing.why.startswith("nothing read")


def test_the_strict_proposal_asks_for_more():
    assert proposal(reads(80, 15, 5), strict=True).share > proposal(reads(80, 15, 5)).share


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_what_is_proposed_is_a_share_and_holds_the_target(approved, edited, rejected):
    found = proposal(reads(approved, edited, rejected))
    assert FLOOR <= found.share <= 1
    assert found.upper * (1 - found.share) <= TARGET + 1e-9


@given(st.lists(st.tuples(*[st.integers(0, 40)] * 3, st.integers(0, 500)), max_size=6))
def test_pooling_equals_weighing_every_reading_by_itself(rows):
    """Naive: one row a reading, each with its stratum's population over its readings."""
    strata = [reads(a, b, c, population=a + b + c + more) for a, b, c, more in rows]
    weights = Counter()
    squares = 0.0
    for one in strata:
        for outcome, count in enumerate(one.counts):
            for _ in range(count):
                weights[outcome] += one.population / one.n
                squares += (one.population / one.n) ** 2
    found = pooled(strata)
    assert found.weights == pytest.approx([weights[0], weights[1], weights[2]])
    if squares:
        assert found.effective == pytest.approx(min(found.n, sum(weights.values()) ** 2 / squares))
