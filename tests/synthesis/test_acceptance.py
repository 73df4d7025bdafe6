"""Sampling plans: the tables hold what the standard publishes, and a plan promises what the arithmetic says."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthesis.core.acceptance import (
    ACCEPT,
    AQLS,
    CELLS,
    CONSUMERS_RISK,
    LETTERS,
    LEVELS,
    ORDER,
    SIZES,
    at_most,
    code_letter,
    draw,
    plan,
)
from trace_site.lib.errors import TraceError

SERIES = ["0", "1", "2", "3", "5", "7", "10", "14", "21"]
lots = st.integers(2, 600_000)
levels = st.sampled_from(LEVELS)
aqls = st.sampled_from(AQLS)


def test_letters_leave_out_i_and_o_and_have_the_standards_sizes():
    assert "".join(ORDER) == "ABCDEFGHJKLMNPQR"
    sizes = [2, 3, 5, 8, 13, 20, 32, 50, 80, 125, 200, 315, 500, 800, 1250, 2000]
    assert list(SIZES.values()) == sizes


def test_table_1_has_a_letter_for_every_level_and_none_gets_smaller_with_lot_or_level():
    rows = list(LETTERS.values())
    assert all(len(row) == len(LEVELS) for row in rows)
    assert all(list(row[:4]) == sorted(row[:4]) and list(row[4:]) == sorted(row[4:]) for row in rows)
    for level in range(len(LEVELS)):
        column = [row[level] for row in rows]
        assert column == sorted(column)


def test_table_2a_repeats_itself_along_diagonals():
    """One letter down and one AQL to the left is the same acceptance number: n grows by what the AQL shrinks."""
    for above, below in zip(ORDER, ORDER[1:], strict=False):
        for column in range(1, len(AQLS)):
            one, other = CELLS[above][column], CELLS[below][column - 1]
            if one.isdigit() and other.isdigit():
                assert one == other, (above, AQLS[column])


def test_in_a_row_acceptance_numbers_run_through_the_series_with_both_arrows_after_0():
    for letter, row in ACCEPT.items():
        cells = row.split()
        assert len(cells) == len(AQLS)
        numbers = [cell for cell in cells if cell.isdigit()]
        start = SERIES.index(numbers[0])
        assert numbers == SERIES[start : start + len(numbers)], letter
        if "0" in cells[:-2]:
            at = cells.index("0")
            assert cells[at + 1 : at + 3] in (["^", "v"], ["v", "v"]), letter
        assert set(cells[: cells.index(numbers[0])]) <= {"v", "^"}


def test_acceptance_number_0_stands_at_n_times_aql_of_about_an_eighth():
    """The plans with Ac 0 have the same n x AQL, so each lot just at the AQL is accepted in about 88 of 100."""
    zeros = [(letter, AQLS[row.split().index("0")]) for letter, row in ACCEPT.items() if "0" in row.split()]
    assert len(zeros) == 15
    assert all(0.11 <= SIZES[letter] * aql / 100 <= 0.135 for letter, aql in zeros)


@pytest.mark.parametrize(
    "lot, level, letter",
    [
        (2, "II", "A"),
        (8, "III", "B"),
        (9, "II", "B"),
        (25, "II", "C"),
        (50, "II", "D"),
        (51, "II", "E"),
        (80, "II", "E"),
        (90, "II", "E"),
        (91, "II", "F"),
        (280, "II", "G"),
        (500, "II", "H"),
        (500, "I", "F"),
        (501, "II", "J"),
        (1_000, "II", "J"),
        (1_200, "III", "K"),
        (1_201, "II", "K"),
        (3_200, "II", "K"),
        (10_000, "II", "L"),
        (20_000, "II", "M"),
        (35_000, "II", "M"),
        (150_000, "II", "N"),
        (500_000, "II", "P"),
        (500_001, "II", "Q"),
        (500_001, "III", "R"),
        (1_000, "S-1", "C"),
        (1_000, "S-2", "C"),
        (1_000, "S-3", "E"),
        (1_000, "S-4", "F"),
        (1_000, "I", "G"),
    ],
)
def test_code_letters_as_published(lot, level, letter):
    assert code_letter(lot, level) == letter


@pytest.mark.parametrize(
    "lot, aql, letter, size, accept",
    [
        (1_000, 1.0, "J", 80, 2),
        (1_000, 2.5, "J", 80, 5),
        (1_000, 4.0, "J", 80, 7),
        (1_000, 0.65, "J", 80, 1),
        (1_000, 6.5, "J", 80, 10),
        (80, 1.0, "E", 13, 0),
        (80, 4.0, "E", 13, 1),
        (80, 0.65, "F", 20, 0),  # arrow down
        (80, 2.5, "F", 20, 1),  # arrow down
        (80, 1.5, "D", 8, 0),  # arrow up
        (400, 1.0, "H", 50, 1),
        (400, 2.5, "H", 50, 3),
        (3_000, 1.0, "K", 125, 3),
        (3_000, 0.15, "J", 80, 0),  # arrow up
        (5_000, 2.5, "L", 200, 10),
        (5_000, 4.0, "L", 200, 14),
        (5_000, 10.0, "K", 125, 21),  # arrow up
        (20_000, 1.0, "M", 315, 7),
        (20_000, 0.65, "M", 315, 5),
        (20, 6.5, "D", 8, 1),  # arrow down
        (5, 6.5, "A", 2, 0),
        (10, 10.0, "C", 5, 1),  # arrows down
    ],
)
def test_plans_as_published(lot, aql, letter, size, accept):
    found = plan(lot, level="II", aql=aql)
    assert (found.letter, found.size, found.accept) == (letter, size, accept)


def test_a_sample_as_large_as_the_lot_reads_all_of_it():
    assert plan(13, aql=1.0).reads_all
    assert plan(5, aql=1.0).size == 5
    assert not plan(14, aql=1.0).reads_all


@pytest.mark.parametrize("options", [{"aql": 15.0}, {"aql": 1.1}, {"level": "IV"}])
def test_what_the_tables_do_not_hold_is_refused_with_what_they_hold(options):
    with pytest.raises(TraceError) as caught:
        plan(100, **options)
    assert "One of" in caught.value.hint


def test_a_lot_of_one_is_no_lot():
    with pytest.raises(TraceError, match="two items"):
        plan(1)


@given(lots, levels, aqls)
def test_a_plan_reads_at_most_the_lot_and_allows_fewer_defects_than_it_reads(lot, level, aql):
    found = plan(lot, level=level, aql=aql)
    assert 1 <= found.size <= lot
    assert 0 <= found.accept < max(SIZES.values())
    assert found.reads_all or found.accept < found.size
    assert found.size in (*SIZES.values(), lot)


@given(lots, lots, levels, aqls)
def test_of_a_larger_lot_never_less_is_read(one, other, level, aql):
    small, large = sorted([one, other])
    few, many = plan(small, level=level, aql=aql), plan(large, level=level, aql=aql)
    assert few.size <= many.size
    assert few.accept <= many.accept


@given(st.integers(2, 60), st.data())
def test_the_probability_of_acceptance_is_the_hypergeometric_one(lot, data):
    drawn = data.draw(st.integers(1, lot))
    defects = data.draw(st.integers(0, lot))
    most = data.draw(st.integers(0, drawn))
    exact = sum(comb(defects, k) * comb(lot - defects, drawn - k) for k in range(min(most, defects) + 1))
    assert at_most(most, lot=lot, defects=defects, drawn=drawn) == pytest.approx(exact / comb(lot, drawn))


@given(st.integers(2, 20_000), levels, aqls)
def test_the_operating_characteristic_falls_from_1(lot, level, aql):
    found = plan(lot, level=level, aql=aql)
    curve = found.curve()
    assert curve[0] == (0.0, pytest.approx(100.0))
    assert all(a[1] >= b[1] - 1e-6 and a[0] < b[0] for a, b in zip(curve, curve[1:], strict=False))


@given(st.integers(20, 20_000), levels, aqls)
def test_limiting_quality_is_the_first_that_is_accepted_as_seldom_as_the_consumer_asks(lot, level, aql):
    found = plan(lot, level=level, aql=aql)
    defects = round(found.limiting_quality * lot / 100)
    assert found.accepted(defects) <= CONSUMERS_RISK < found.accepted(defects - 1)


@pytest.mark.parametrize("lot, aql", [(1_000, 1.0), (1_000, 2.5), (5_000, 1.0), (20_000, 4.0)])
def test_a_lot_just_as_good_as_the_aql_passes_in_nine_of_ten_or_more(lot, aql):
    assert plan(lot, aql=aql).producers_risk <= 0.1


def test_figures_of_one_plan_by_hand():
    """Lot 80, n 13, c 0: with 12 defects (15 %) it passes in C(68,13)/C(80,13) of the cases."""
    found = plan(80, aql=1.0)
    assert found.accepted(12) == pytest.approx(comb(68, 13) / comb(80, 13))
    assert found.limiting_quality == 15.0
    assert found.producers_risk == pytest.approx(0)  # 1.0 % of 80 is no whole sample


@given(st.sets(st.text(min_size=1, max_size=8), min_size=1, max_size=30), st.integers(0, 5), st.data())
def test_a_draw_depends_on_seed_and_keys_alone(keys, seed, data):
    count = data.draw(st.integers(1, len(keys)))
    found = draw(sorted(keys), count, seed)
    assert found == draw(sorted(keys, reverse=True), count, seed)
    assert len(set(found)) == count and set(found) <= keys


def test_every_item_is_drawn_about_equally_often():
    keys = [f"key {number}" for number in range(20)]
    drawn = [key for seed in range(2_000) for key in draw(keys, 5, seed)]
    counts = [drawn.count(key) for key in keys]
    assert min(counts) >= 420 and max(counts) <= 580  # 500 expected, standard deviation 19
