"""The judge against people: raw and weighted figures, and the share to read that follows."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthesis.core.agreement import (
    FLOOR,
    TARGET,
    VERDICTS,
    Judged,
    Reads,
    cohen_kappa,
    pooled,
    share_to_read,
    wilson,
)


def reads(*counts: int, population: int = 0, weight: float = 1.0) -> Reads:
    groups = tuple((verdict, n, weight) for verdict, n in zip(VERDICTS, counts, strict=True) if n)
    return Reads(groups, population or sum(counts))


def test_an_edit_is_an_approval_unless_it_is_counted_strictly():
    found = Judged(reads(80, 10, 10), reads(5, 5, 40))
    assert (found.false_accept.value, found.false_refuse.value) == (pytest.approx(0.1), pytest.approx(0.2))
    strict = Judged(found.accepted, found.refused, strict=True)
    assert (strict.false_accept.value, strict.false_refuse.value) == (pytest.approx(0.2), pytest.approx(0.1))


def test_equal_weights_are_as_good_as_none():
    plain, heavy = reads(80, 10, 10), reads(80, 10, 10, weight=7.0, population=700)
    assert heavy.rate("reject") == plain.rate("reject") == wilson(10, 100)


def test_a_batch_read_by_lot_stands_for_all_of_it():
    """10 of 1000 read, none bad; another 100 read fully, 20 bad: 20 of 1100 are expected bad, not 20 of 110."""
    batch, rest = reads(10, 0, 0, weight=100.0), reads(80, 0, 20)
    found = Reads(batch.groups + rest.groups, 1100).rate("reject")
    assert found.value == pytest.approx(20 / 1100)
    assert found.n < 15, "ten heavy readings carry the estimate"


def test_strata_weigh_as_many_samples_as_they_have():
    easy, hard = reads(90, 0, 10, population=9000), reads(5, 0, 5, population=1000)
    found = pooled([easy, hard])
    assert found.rate("reject").value == pytest.approx(0.9 * 0.1 + 0.1 * 0.5)
    assert found.counts == [95, 0, 15]
    assert found.population == 10_000


def test_a_stratum_nobody_has_read_adds_no_reading():
    found = pooled([reads(9, 0, 1, population=100), Reads(population=500)])
    assert found.population == 600
    assert found.rate("reject").value == pytest.approx(0.1)


def test_kappa_does_not_move_with_how_many_refusals_were_drawn():
    accepted = reads(900, 0, 100, population=9000)
    few = Judged(accepted, reads(4, 0, 16, population=1000)).kappa
    many = Judged(accepted, reads(200, 0, 800, population=1000)).kappa
    assert few.value == pytest.approx(many.value)
    assert few.low < many.low, "few refusals read: a wide interval"
    # by hand: cells 8100, 900, 200, 800 of 10000
    observed, expected = 0.89, 0.9 * 0.83 + 0.1 * 0.17
    assert many.value == pytest.approx((observed - expected) / (1 - expected))


def test_when_all_is_read_kappa_is_that_of_the_readings():
    found = Judged(reads(70, 10, 20), reads(10, 0, 40)).kappa
    assert found.value == pytest.approx(cohen_kappa([[80, 20], [10, 40]]).value) and found.n == 150


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """Samples drawn from a known judge: 8 % false accepts, 30 % false refusals, 20 % of all refused."""
    truth = Judged(reads(9200, 0, 800, population=8000), reads(300, 0, 700, population=2000)).kappa.value
    rng, held = random.Random(7), 0
    for _ in range(200):
        bad = sum(rng.random() < 0.08 for _ in range(150))
        good = sum(rng.random() < 0.3 for _ in range(40))
        found = Judged(
            reads(150 - bad, 0, bad, population=8000), reads(good, 0, 40 - good, population=2000)
        ).kappa
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
    found = Judged(accepted, refused).kappa
    assert found.value is None and why in found.why and found.verdict == "cannot tell"


def test_a_few_readings_without_a_fault_are_not_taken_for_certain():
    found = Judged(reads(20, 0, 0, population=1000), reads(0, 0, 20, population=100)).kappa
    assert found.value == 1 and found.low < 0.95


def test_the_share_to_read_leaves_no_more_than_the_target_unread():
    upper = wilson(10, 100).high
    share, why = share_to_read(wilson(10, 100))
    assert share == pytest.approx(1 - TARGET / upper)
    assert upper * (1 - share) == pytest.approx(TARGET)
    assert why == f"1 - 0.020 / {upper:.3f} = {share:.3f}"


def test_a_good_judge_needs_only_the_floor():
    share, why = share_to_read(wilson(1, 10_000))
    assert share == FLOOR and "the floor" in why
    assert share_to_read(wilson(25, 1000), target=0.035)[0] == pytest.approx(FLOOR)


def test_few_readings_ask_for_more_reading_and_none_for_nearly_all():
    few, more, many = (share_to_read(wilson(0, n))[0] for n in (10, 100, 1000))
    assert few > more > many
    share, why = share_to_read(Reads(population=50).rate("reject"))
    assert share == pytest.approx(0.98) and why.startswith("nothing read")


def test_the_strict_proposal_asks_for_more():
    plain, strict = (Judged(reads(80, 15, 5), Reads(), way).false_accept for way in (False, True))
    assert share_to_read(strict)[0] > share_to_read(plain)[0]


@given(st.integers(0, 600), st.integers(0, 300))
def test_what_is_proposed_is_a_share_and_holds_the_target(passed, rejected):
    rate = wilson(rejected, passed + rejected)
    share, _ = share_to_read(rate)
    assert FLOOR <= share <= 1
    assert rate.high * (1 - share) <= TARGET + 1e-9


@given(st.lists(st.tuples(*[st.integers(0, 40)] * 3, st.integers(0, 500)), max_size=6))
def test_pooling_equals_weighing_every_reading_by_itself(rows):
    """Naive: one row a reading, each with its stratum's population over its readings."""
    strata = [reads(a, b, c, population=a + b + c + more) for a, b, c, more in rows]
    single = [
        (outcome, one.population / one.n) for one in strata for outcome, n, _ in one.groups for _ in range(n)
    ]
    found, whole = pooled(strata).rate("reject"), sum(weight for _, weight in single)
    if single:
        bad = sum(weight for outcome, weight in single if outcome == "reject")
        assert found.value == pytest.approx(bad / whole)
        assert found.n == pytest.approx(whole**2 / sum(weight**2 for _, weight in single))
