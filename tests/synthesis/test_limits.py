"""On which side of a condition's dates a query lies."""

import pytest

from synthesis.offline.judge import date_limit, dates


@pytest.mark.parametrize(
    ("condition", "query", "found"),
    [
        ("a period in 2024 or later", "slip of March 2024", 1),
        ("a period in 2024 or later", "slip of December 2023", -1),
        ("a period in 2024 or later", "my last slip", 0),
        ("a period before 2024", "paid in 11/2022", 1),
        ("a period before 2024", "period 2024-01", -1),
        ("fiscal year 2021 or earlier", "entry of FY21", 1),
        ("fiscal year 2021 or earlier", "entry of FY22", -1),
        ("onboarded since october 2023", "seller on board since October 2023", 1),
        ("onboarded since october 2023", "on board since September 2023", -1),
        ("onboarded before october 2023", "on board since 2021", 1),
        ("a life event", "since Paris in 2020", 0),
    ],
)
def test_a_query_keeps_or_breaks_a_limit(condition, query, found):
    assert date_limit(condition, query) == found


def test_a_statement_may_set_the_same_limit_or_turn_it_round():
    assert date_limit("a period in 2024 or later", "periods from January 2024 onward") == 1
    assert date_limit("a period in 2024 or later", "everything before 2024") == -1
    assert date_limit("a period before 2024", "the payslip is for a period before 2024") == 1


def test_dates_are_read_as_people_write_them():
    assert dates("03/2021, 2022-11, May 2020, FY19, 28 June 2024") == (
        (2021, 3),
        (2022, 11),
        (2020, 5),
        (2019, 0),
        (2024, 6),
    )
