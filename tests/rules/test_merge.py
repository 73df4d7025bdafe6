"""Two people's changes of one draft: nobody's words vanish unless both changed the same place."""

import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rules.core.draft import merge_contents, merge_sequences

WORDS = st.lists(st.sampled_from("abcdef"), max_size=8)


def content(**fields: Any) -> dict[str, Any]:
    return {"target": "A/b", "confusables": [], "text": "", "clauses": [], "tests": [], **fields}


@given(WORDS, WORDS)
def test_one_sided_and_equal_changes_are_taken_as_they_are(base, changed) -> None:
    assert merge_sequences(base, changed, base) == (changed, 0)
    assert merge_sequences(base, base, changed) == (changed, 0)
    assert merge_sequences(base, changed, changed) == (changed, 0)


@given(WORDS, st.lists(st.sampled_from("XYZ"), max_size=3), WORDS, st.integers(0, 8))
def test_every_word_i_added_is_in_the_result(base, added, theirs, place) -> None:
    mine = [*base[:place], *added, *base[place:]]
    merged, _ = merge_sequences(base, mine, theirs)
    assert [word for word in merged if word in "XYZ"] == added


def test_changes_of_different_sentences_both_stand() -> None:
    base = "From 2024 use A/b. Before that use A/c. Ask if in doubt."
    mine, theirs = base.replace("2024", "2025"), base.replace("Ask", "Call HR")
    merged = merge_contents(content(text=base), content(text=mine), content(text=theirs))
    assert merged.content["text"] == "From 2025 use A/b. Before that use A/c. Call HR if in doubt."
    assert merged.overlaps == 0


def test_where_both_changed_the_same_words_mine_is_kept_and_counted() -> None:
    base = content(text="From 2024 use A/b.")
    merged = merge_contents(base, content(text="From 2025 use A/b."), content(text="From 2026 use A/b."))
    assert (merged.content["text"], merged.overlaps) == ("From 2025 use A/b.", 1)


def test_sentences_that_both_added_at_the_end_both_stay() -> None:
    base = content(text="Use A/b.")
    merged = merge_contents(base, content(text="Use A/b. Mine."), content(text="Use A/b. Theirs, too."))
    assert (merged.content["text"], merged.overlaps) == ("Use A/b. Mine. Theirs, too.", 0)


def test_long_text_of_few_words_merges_in_time() -> None:
    base = " ".join(f"word{number % 50}" for number in range(1400))
    mine, theirs = base.replace("word3 ", "x "), base.replace("word7 ", "y z ")
    started = time.process_time()
    merged = merge_contents(content(text=base), content(text=mine), content(text=theirs))
    assert "x " in merged.content["text"] and time.process_time() - started < 10


def test_look_alikes_that_either_added_are_kept_and_removed_ones_stay_away() -> None:
    base = content(confusables=["A/c", "A/d"])
    merged = merge_contents(
        base, content(confusables=["A/c", "A/d", "A/e"]), content(confusables=["A/d", "A/f"])
    )
    assert set(merged.content["confusables"]) == {"A/d", "A/e", "A/f"}


def test_row_that_both_changed_is_kept_twice() -> None:
    one, mine, theirs = ({"query": query, "tools": ["A/b"]} for query in ("pay", "my pay", "their pay"))
    merged = merge_contents(content(tests=[one]), content(tests=[mine]), content(tests=[theirs]))
    assert merged.content["tests"] == [mine, theirs] and merged.overlaps == 1
