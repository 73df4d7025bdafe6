"""A pair is told apart where the rule says of each tool when it is right, or that it is not to be used; a name is not
enough."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.pairs_apart import PHRASES
from rules.core.pairs import apart, kept, read_pairs, to_add
from rules.core.reading import Reading
from rules.core.rule import make_content

NEW, OLD, THIRD = "Pay/new", "Pay/old", "Pay/third"


def pairs_of(text, *others, clauses=()):
    content = make_content(target=NEW, confusables=others or [OLD], text=text, clauses=clauses)
    return read_pairs(Reading(content))


def state(text, clauses=()):
    return pairs_of(text, clauses=clauses)[0].state


SEPARATING = [
    "Use Pay/new when the payslip is from 2024 on; use Pay/old for earlier years.",
    "When the payslip is from 2024 or later, call Pay/new; otherwise call Pay/old.",
    "From 2024 on payslips are read with Pay/new, before that with Pay/old.",
    "Pay/old is deprecated: use Pay/new.",
    "To read a payslip, use Pay/new instead of the deprecated Pay/old.",
    "Pay/new is only for contractors, Pay/old only for employees.",
    "If the worker is a contractor, Pay/new; if not, Pay/old.",
    "Use Pay/old. Exception: when the worker left before 2020, use Pay/new.",
    "Pay/old has been replaced by Pay/new.",
    "Payslips as PDF come from Pay/new, while Pay/old returns the figures only.",
    "Pay/new: payslips from 2024 on. Pay/old: payslips before 2024.",
    "Contractors: Pay/new. Employees: Pay/old.",
    "Pay/new (from 2024 on), Pay/old (up to 2023).",
    "As long as the payslip is a draft it is read with Pay/old, and once it is final with Pay/new.",
    "Unless the worker is a contractor, take Pay/new; contractors are in Pay/old.",
    "Choose Pay/new for a single payslip and Pay/old for all payslips of a year.",
    "Pay/new needs the payslip number; without it, search with Pay/old.",
    "In Europe it is Pay/new, in the Americas Pay/old.",
    "- contractor -> Pay/new\n- employee -> Pay/old",
    "| 2024 or later | Pay/new |\n| 2023 or earlier | Pay/old |",
    "Only Pay/new returns deleted payslips; Pay/old excludes them.",
    "Pay/new, not Pay/old, reads payslips of 2024.",
    "Pay/old is being phased out in favour of Pay/new.",
    "Is the payslip from 2024 or later? Then Pay/new. Is it older? Then Pay/old.",
    "Pay/new reads payslips of 2024, unlike Pay/old.",
    "When the reference is known, use Pay/new; Pay/old serves those whose reference is missing.",
    "Pay/old is deprecated and replaced by Pay/new.",
    "Everybody knows Pay/new. Pay/old is deprecated and replaced by it.",
    "How many slips are wanted? Pay/new. Which one is wanted? Pay/old.",
    "If the worker has moved, Pay/new is right. If he has not, Pay/old is.",
    "Final slips are only in Pay/new. Drafts belong to Pay/old.",
    "Never call Pay/old for slips of 2024; Pay/new reads slips of any year.",
    "Use Pay/new for new integrations. Pay/old is the classic endpoint.",
    "Grants come from the new API, Pay/new; Pay/old is no longer maintained.",
    "Slips above 100 pages go to Pay/new. For shorter ones, Pay/old.",
    "Pay/new is limited to one slip; when there are more, call Pay/old.",
]
NAMING = [
    "Pay/new and Pay/old exist.",
    "There are two endpoints for payslips: Pay/new and Pay/old.",
    "When the payslip is from 2024 on, use Pay/new or Pay/old.",
    "When the payslip is from 2024 on, use Pay/new. See also Pay/old.",
    "When the payslip is from 2024 on, use Pay/new. Pay/old exists as well.",
    "To list payslips use Pay/new. Pay/old is another endpoint.",
    "To read payslips use Pay/new. To read payslips you can also use Pay/old.",
    "Do not confuse Pay/new with Pay/old.",
    "Pay/new is not the same as Pay/old.",
    "Pay/new reads payslips. Pay/old reads payslips too.",
    "Choose between Pay/new and Pay/old depending on the case.",
    "For payslips, either Pay/new or, alternatively, Pay/old is right.",
    "Pay/new and Pay/old are deprecated.",
    "Pay/new was introduced in 2019, Pay/old in 2012.",
    "Sometimes Pay/new is right, sometimes Pay/old.",
    "Use Pay/new. Use Pay/old.",
    "People mix up Pay/new and Pay/old when they look for payslips from 2024 on.",
    "To read payslips from 2024 on, use Pay/new. The product also has Pay/old.",
    "If you need a payslip, use Pay/new. If you need a payslip, use Pay/old.",
    "Pay/old is deprecated. Pay/new exists.",
    "Pay/old is deprecated. The first tool is Pay/new.",
    "When the payslip is from 2024 on, use Pay/new. Pay/old is known to the people in Lisbon.",
    "When the payslip is from 2024 on, use Pay/new. The pay team maintains Pay/old.",
    "When the payslip is from 2024 on, use Pay/new. In the handbook there is Pay/old.",
    "When the payslip is from 2024 on, use Pay/new. Do not mix it up with Pay/old.",
    "When the payslip is from 2024 on, use Pay/new. Let us not forget Pay/old.",
    "You may read payslips with Pay/new, with Pay/old or by hand.",
]


@pytest.mark.parametrize("text", SEPARATING)
def test_plain_text_with_a_condition_tells_two_tools_apart(text):
    assert state(text) == "apart"


@pytest.mark.parametrize("text", NAMING)
def test_naming_two_tools_does_not_tell_them_apart(text):
    assert state(text) == "named"


@pytest.mark.parametrize("phrase", PHRASES["open"][0])
def test_sentence_that_only_mentions_one_of_two_says_no_case_of_it(phrase):
    assert state(f"When the payslip is from 2024 on, use Pay/new. {phrase.format(OLD)}") == "named"
    assert state(f"{phrase.format(NEW)} Pay/old is deprecated.") == "named"


def test_tool_that_the_rule_never_mentions_is_not_named():
    assert state("From 2024 on use Pay/new.") == "unnamed"
    assert state("From 2024 on use Pay/new.", [{"when": "before 2024", "route_to": OLD}]) == "apart"


@pytest.mark.parametrize(
    ("text", "clauses", "told"),
    [
        ("Pay/new and Pay/old exist.", [("from 2024 on", NEW), ("before 2024", OLD)], "apart"),
        ("Pay/new and Pay/old exist.", [("from 2024 on", NEW)], "named"),
        ("Pay/new and Pay/old exist.", [("from 2024 on", NEW), ("from 2024 on", OLD)], "named"),
        ("Pay/new exists. Pay/old is deprecated.", [("from 2024 on", NEW)], "apart"),
        ("Pay/new and Pay/old read the payslips of contractors.", [("from 2024 on", NEW)], "named"),
    ],
)
def test_clause_is_a_condition_of_its_tool(text, clauses, told):
    assert state(text, [{"when": when, "route_to": tool} for when, tool in clauses]) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Use Pay/new from 2024 on and Pay/old before. Pay/third exists as well.", {(NEW, OLD)}),
        ("Use Pay/new from 2024 on; Pay/old and Pay/third are deprecated.", {(NEW, OLD), (NEW, THIRD)}),
        ("Use Pay/new or Pay/old for slips, and Pay/third for lines.", {(NEW, THIRD), (OLD, THIRD)}),
        ("Pay/new, Pay/old and Pay/third read the payslips of 2024.", set()),
    ],
)
def test_of_three_tools_only_those_are_apart_that_a_condition_separates(text, told):
    pairs = pairs_of(text, OLD, THIRD)
    assert {(pair.left, pair.right) for pair in pairs if pair.state == "apart"} == told
    assert {pair.state for pair in pairs} <= {"apart", "named"}


def test_pair_has_the_words_that_do_it():
    text = "Use Pay/new instead of the deprecated Pay/old."
    left, right = pairs_of(text)[0].by
    assert text[left.place.start : left.place.end] == "Use Pay/new "
    assert text[right.place.start : right.place.end] == "instead of the deprecated Pay/old."
    clauses = [{"when": "from 2024 on", "route_to": NEW}, {"when": "before 2024", "route_to": OLD}]
    assert [one.place.pointer for one in pairs_of("-", clauses=clauses)[0].by] == ["/clauses/0", "/clauses/1"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("From 2024 on use Pay/new.", "Say when Pay/old is right: the rule does not name it."),
        ("From 2024 on use Pay/new. There is Pay/old.", "Say when Pay/old is right."),
        ("There is Pay/new. There is Pay/old.", "Say when Pay/new and when Pay/old is right."),
        ("From 2024 on use Pay/new or Pay/old.", "Both are named together."),
        ("Pay/new is deprecated. So is Pay/old, which is obsolete.", "leads away from both"),
        ("For slips use Pay/new. For slips use Pay/old.", "Both are right in the same words."),
    ],
)
def test_what_to_add_is_said_of_a_pair_that_is_only_named(text, hint):
    said, stored = kept(pairs_of(text), {NEW: 1, OLD: 2})
    by = [None if place is None else said[place] for place in stored[0][3:]]
    assert stored[0][2] != "apart" and hint in to_add(NEW, OLD, by)


def test_correction_wins_over_the_reading():
    stored = [[5, 2, "apart", 0, 1], [5, 9, "named", 0, 2]]
    assert apart(stored, []) == [[2, 5]]
    assert apart(stored, [{"pair": [2, 5], "apart": False}, {"pair": [9, 5], "apart": True}]) == [[5, 9]]


@given(st.text(alphabet="Pay/newoldthird,;.:() andnotuseif", max_size=120))
def test_any_text_is_read_and_every_pair_has_a_state(text):
    pairs = pairs_of(text, OLD, THIRD)
    assert [(pair.left, pair.right) for pair in pairs] == [(NEW, OLD), (NEW, THIRD), (OLD, THIRD)]
    for pair in pairs:
        for tool, one in zip((pair.left, pair.right), pair.by, strict=True):
            assert one is None or tool in text[one.place.start : one.place.end]
        assert pair.state == "unnamed" or all(pair.by)
