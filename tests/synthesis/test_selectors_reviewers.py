"""A reviewer's row: against adjudications, against what became of the reading, against the team."""

import pytest

from synthesis.quality.agreement import qualities
from synthesis.review import services as review_services
from tests.factories import make_rule, make_tool
from tests.synthesis.readings import read, read_by_two

pytestmark = pytest.mark.django_db


@pytest.fixture
def people(user_with):
    return [user_with("reviewer", username=name) for name in ("ada", "bob", "cyd")]


@pytest.fixture
def texts():
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    return {"rule": make_rule(*tools, code="SLIP_YEAR"), "tools": tools}


def row(name: str):
    return {one["name"]: one for one in qualities()}[name]


def test_readings_are_held_against_the_adjudicated_outcome(people, texts):
    ada, bob, cyd = people
    read_by_two()
    read(None, (ada, "approve"), (bob, "reject"), (cyd, "approve"), **texts)
    read(None, (ada, "approve"), (bob, "reject"), (cyd, "reject"), **texts)
    read(None, (ada, "approve"), (bob, "reject"), (cyd, "approve"), **texts)
    assert (row("ada")["adjudicated"].hits, row("ada")["adjudicated"].n) == (2, 3)
    assert (row("bob")["adjudicated"].hits, row("bob")["adjudicated"].n) == (1, 3)
    assert "cyd" not in {one["name"] for one in qualities()}, "who only adjudicates is the reference"


def test_the_same_verdict_with_other_texts_is_another_outcome(people, texts):
    ada, bob, cyd = people
    read_by_two()
    read(None, (ada, "edit", "this month"), (bob, "edit", "last month"), (cyd, "edit", "this month"), **texts)
    assert (row("ada")["adjudicated"].hits, row("bob")["adjudicated"].hits) == (1, 0)


def test_reversals_count_all_samples_read_twice_that_have_ended(people, texts):
    ada, bob, cyd = people
    read_by_two()
    read(None, (ada, "approve"), (bob, "approve"), **texts)
    read(None, (ada, "approve"), (bob, "reject"), (cyd, "reject"), **texts)
    read(None, (ada, "approve"), (bob, "reject"), **texts)  # not adjudicated yet
    assert (row("ada")["reversed"].hits, row("ada")["reversed"].n) == (1, 2)
    assert (row("bob")["reversed"].hits, row("bob")["reversed"].n) == (0, 2)


def test_rejections_are_held_against_what_others_reject_of_the_same_strata(people, texts):
    ada, bob, cyd = people
    for _ in range(4):
        read(None, (ada, "approve"), **texts)
    read(None, (bob, "approve"), **texts)
    read(None, (bob, "reject"), **texts)
    for _ in range(3):
        read(None, (cyd, "reject"))  # a stratum nobody else has read: no comparison
    assert row("ada")["expected"] == pytest.approx(0.5)
    assert row("bob")["expected"] == pytest.approx(0.0)
    assert (row("ada")["rejected"].n, row("ada")["rejected"].value) == (4, 0)
    assert row("cyd")["expected"] is None and row("cyd")["stands_out"] == ""
    assert row("cyd")["rejected"].value == 1


def test_one_rejection_among_people_who_rejected_nothing_makes_nobody_stand_out(people, texts):
    ada, bob, _ = people
    for number in range(11):
        read(None, (ada, "approve"), **texts)
        read(None, (bob, "approve" if number else "reject"), **texts)
    assert row("bob")["expected"] == 0
    assert (row("ada")["stands_out"], row("bob")["stands_out"]) == ("", "")


def test_an_outlier_shows_and_a_few_readings_do_not_make_one(people, texts):
    ada, bob, _ = people
    for _ in range(12):
        read(None, (ada, "approve"), **texts)
        read(None, (bob, "reject"), **texts)
    assert (row("ada")["stands_out"], row("bob")["stands_out"]) == ("low", "high")
    read(None, (ada, "reject"))
    read(None, (bob, "approve"))
    assert row("bob")["rejected"].n == 13


def test_readings_taken_back_are_counted_and_no_readings(people, texts):
    ada, _, _ = people
    read(None, (ada, "approve"), **texts)
    read(None, (ada, "reject"), **texts)
    review_services.undo(reviewer=ada)
    assert (row("ada")["readings"], row("ada")["rejected"].value) == (1, 0)
    assert (row("ada")["taken_back"].hits, row("ada")["taken_back"].n) == (1, 2)


def test_a_reviewer_asks_for_own_row_at_the_same_cost(people, texts, django_assert_num_queries):
    ada, bob, _ = people
    read(None, (ada, "approve"), **texts)
    read(None, (bob, "approve"), **texts)
    with django_assert_num_queries(4):
        assert [one["name"] for one in qualities(bob.pk)] == ["bob"]
    with django_assert_num_queries(4):
        assert len(qualities()) == 2
