"""Words, the scripts they are written in, and the scripts a vocabulary reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.core.scripts import READABLE, readable_scripts, request_words, scripts_of


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("Zürich-Łódź, 2024/05 (GR_IR)", {"LATIN"}),
        ("№ 5: 10ª ﬁne ＦＵＬＬ", {"LATIN"}),  # compatible spellings of Latin letters
        ("zarobki за май", {"LATIN", "CYRILLIC"}),
        ("工资单", {"CJK"}),
        ("قسيمة الراتب", {"ARABIC"}),
        ("給与ください", {"CJK", "HIRAGANA"}),
        ("12.50 € 🙏 — ʼ", set()),
    ],
)
def test_letters_have_the_script_unicode_names_them_by(text, scripts):
    assert scripts_of(text) == scripts


def test_words_stand_between_spaces_and_hold_a_letter():
    assert request_words("pay 2024 - GR/IR\n🙏 工资单,\tS/4HANA") == ["pay", "GR/IR", "工资单,", "S/4HANA"]


def test_a_script_is_read_from_five_hundred_whole_words_on():
    latin = ["a" * n for n in range(1, READABLE + 1)]
    other = [*"абвгдежзийклмно", *(f"##{letter * n}" for letter in "абв" for n in range(1, READABLE))]
    assert readable_scripts([*latin, *other, "[CLS]", "12"]) == {"LATIN"}
    assert readable_scripts([*latin[1:], *other]) == frozenset()
    assert readable_scripts(f"\u2581{'я' * n}" for n in range(1, READABLE + 1)) == {"CYRILLIC"}


@given(st.text())
def test_words_are_what_is_left_of_a_text_without_spaces_and_signs(text):
    words = request_words(text)
    assert scripts_of(" ".join(words)) <= scripts_of(text)
    assert sum(map(len, words)) <= len(text)
