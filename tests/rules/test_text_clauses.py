"""A rule's text as clauses: which words are quoted, what each leads to, and that every quote is the expert's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.core.rule import make_content
from rules.core.text_clauses import text_clauses

NEW, OLD, THIRD = "Pay/new", "Pay/old", "Pay/third"


def read(text: str) -> list[tuple[str, bool, tuple[str, ...]]]:
    content = make_content(target=NEW, confusables=[OLD, THIRD], text=text)
    return [(clause.text, clause.leads, clause.tools) for clause in text_clauses(content)]


def test_each_statement_is_a_clause_in_the_order_of_the_text() -> None:
    text = "From 2024 on use Pay/new; earlier slips are read with Pay/old. Pay/third is deprecated."
    assert read(text) == [
        ("From 2024 on use Pay/new", True, (NEW,)),
        ("earlier slips are read with Pay/old.", True, (OLD,)),
        ("Pay/third is deprecated.", False, (THIRD,)),
    ]


def test_tools_that_are_named_together_share_a_clause() -> None:
    assert read("Use Pay/new. Pay/old and Pay/third are deprecated.")[1][2] == (OLD, THIRD)


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("If a body is public, it must carry numbers: use Pay/new.", 0),
        ("Slips moved in 2024. If a body is public, it must carry numbers: use Pay/new.", 21),
        ("Two cases: if a body is public: use Pay/new.", 0),
        ("Movers are kept apart. Search them with Pay/new.", 0),
        ("Slips moved in 2024. Feeds are never changed; they go through Pay/new.", 21),
        ("The chart decides. Companies with a chart use Pay/new.", 19),
    ],
)
def test_quote_begins_where_the_words_that_say_when_begin(text: str, quote: int) -> None:
    assert [said for said, *_ in read(text)] == [text[quote:]]


def test_quote_takes_no_words_of_the_clause_before_it() -> None:
    text = "For an audit take Pay/new: it keeps the original. They are never read with Pay/old."
    assert [said for said, *_ in read(text)] == [
        "For an audit take Pay/new",
        "it keeps the original. They are never read with Pay/old.",
    ]


def test_words_that_stand_twice_are_one_clause() -> None:
    assert len(read("Use Pay/new. Use Pay/new.")) == 1


def test_text_that_names_no_tool_has_no_clause() -> None:
    assert read("Choose with care.") == []


WORDS = st.sampled_from(
    [NEW, OLD, THIRD, "use", "If", "them", "is deprecated", "not", ".", ":", ";", ",", "?", "\n", "and"]
)


@given(st.lists(WORDS, max_size=25).map(" ".join))
def test_every_quote_stands_in_the_text_and_names_its_tools(text: str) -> None:
    content = make_content(target=NEW, confusables=[OLD, THIRD], text=text)
    for clause in text_clauses(content):
        assert clause.text and clause.text in content.text
        assert all(name in clause.text for name in clause.tools)
