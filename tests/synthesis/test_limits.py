"""On which side of a condition's limit a query lies: dates, amounts, workdays, regions."""

import pytest

from synthesis.offline.limits import dates, regions, same_side, side, spelled


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
        ("capital spend above two hundred fifty thousand", "a press for 300k", 1),
        ("capital spend above two hundred fifty thousand", "a press for 249,000", -1),
        ("the amount exceeds one million", "send 1.2 million", 1),
        ("the amount exceeds one million", "send 800,000", -1),
        ("the amount exceeds one million", "invoice 45001234", 0),
        ("after the third workday of the close", "it is workday 4", 1),
        ("after the third workday of the close", "on the second workday", -1),
        ("employed in the americas", "vacation, Toronto office", 1),
        ("employed in the americas", "vacation, Lisbon office", -1),
        ("employed in europe or africa", "from Nairobi", 1),
        ("a life event", "since Paris in 2020", 0),
    ],
)
def test_a_query_keeps_or_breaks_a_limit(condition, query, found):
    assert side(condition, query) == found


def test_a_statement_sets_the_same_limit_or_the_opposite_one():
    assert same_side("a period in 2024 or later", "periods from January 2024 onward") == 1
    assert same_side("a period in 2024 or later", "everything before 2024") == -1
    assert same_side("a period in 2024 or later", "periods since 2019") == 0


def test_dates_and_numbers_are_read_as_people_write_them():
    assert dates("03/2021, 2022-11, May 2020, FY19, 28 June 2024") == (
        (2021, 3),
        (2022, 11),
        (2020, 5),
        (2019, 0),
        (2024, 6),
    )
    assert spelled("two hundred fifty thousand") == 250_000
    assert spelled("one million") == 1_000_000


def test_a_place_lies_in_its_wider_regions_too():
    assert regions("the Milan branch") == {"european union", "europe"}
    assert regions("ship to Ohio") == {"united states", "americas"}
    assert regions("somewhere else") == frozenset()
