"""Numbers that an address or a form names."""

import pytest

from trace_site.paging import number_of, numbers_of


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1.0", "x", "²", "٣", "9" * 19, "9" * 5000])
def test_what_is_no_number_of_a_row_is_read_as_none(text):
    assert number_of(text) == 0 and numbers_of([text, "7"]) == [7]


def test_a_number_may_have_so_many_digits():
    assert number_of("9" * 18) == 10**18 - 1 and number_of("0042") == 42
    assert number_of("1234", digits=4) == 1234 and number_of("12345", digits=4) == 0
