"""Differences between look-alikes."""

from hypothesis import given
from hypothesis import strategies as st

from trace_site.lib.worddiff import word_diff


def marked(parts):
    return [part.text for part in parts if part.differs]


def test_only_the_words_the_other_lacks_are_marked():
    left, right = word_diff("Reads the payslip of a month.", "Reads the payslip of a year, signed.")
    assert (marked(left), marked(right)) == (["month"], ["year, signed"])


def test_case_and_spaces_are_no_difference():
    left, right = word_diff("Get  payslip", "get payslip")
    assert marked(left) == marked(right) == []


@given(st.text(max_size=60), st.text(max_size=60))
def test_parts_give_both_texts_back(left, right):
    parts = word_diff(left, right)
    assert ["".join(part.text for part in side) for side in parts] == [left, right]


def test_long_texts_of_few_words_are_compared_by_their_ends_and_not_word_by_word(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("compared word by word")

    monkeypatch.setattr("trace_site.lib.worddiff.SequenceMatcher", refuse)
    left, right = word_diff("now: " + "x " * 9000 + "end", "now: " + "x " * 8000 + "y " * 900 + "end")
    assert [part.text for part in left][-1] == " end" and marked(right)[0].endswith("y y")
    assert "".join(part.text for part in right) == "now: " + "x " * 8000 + "y " * 900 + "end"
