"""Which readings count as a blind pair, and what the figures per style, domain and pair are made of."""

import pytest

from rules.models import RuleVersion
from synthesis.models import ReviewItem, Sample
from synthesis.quality.agreement import EDIT_APPROVES, agreements, qualities, read_twice, table_of
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


def test_a_pair_is_the_first_and_the_second_reading_whoever_came_first(people, texts):
    ada, bob, _ = people
    read_by_two()
    read(None, (ada, "approve"), (bob, "reject"), **texts)
    read(None, (bob, "reject"), (ada, "approve"), **texts)
    assert table_of(read_twice()) == [[0, 0, 2], [0, 0, 0], [0, 0, 0]]
    assert [row.units for row in read_twice()] == [2]
    assert agreements()["overall"]["same_verdict"].n == 2


def test_a_sample_read_once_or_not_yet_twice_or_by_policy_is_no_pair(people, texts):
    ada, bob, _ = people
    read(None, (ada, "approve"), **texts)
    read_by_two()
    read(None, (bob, "approve"), **texts)
    read(None, **texts)
    review_services.policy_approve(count=None)
    assert read_twice() == []
    assert agreements()["overall"]["alpha"].why == "fewer than 2 units read twice"


def test_an_adjudication_is_no_reading_and_its_sample_is_not_settled_alike(people, texts):
    ada, bob, cyd = people
    read_by_two()
    read(None, (ada, "approve"), (bob, "reject"), (cyd, "reject"), **texts)
    read(None, (ada, "approve"), (bob, "approve"), **texts)
    found = agreements()["overall"]
    assert (found["same_verdict"].hits, found["same_verdict"].n) == (1, 2)
    assert (found["same_outcome"].hits, found["same_outcome"].n) == (1, 2)
    assert {(row.one, row.other) for row in read_twice()} == {(ada.pk, bob.pk)}


def test_a_dispute_that_the_rule_overtook_stays_one(people, texts):
    ada, bob, _ = people
    read_by_two()
    read(None, (ada, "approve"), (bob, "reject"), **texts)
    rule = texts["rule"]
    old = rule.published
    newer = {"text": "Another text.", "content_hash": "1" * 64, "target": old.target}
    rule.published = RuleVersion.objects.create(rule=rule, number=2, confusable_ids=[], **newer)
    rule.save()
    assert ReviewItem.objects.get(round=3).state == "withdrawn"
    assert agreements()["overall"]["same_outcome"].hits == 0
    assert qualities()[0]["reversed"].n == 0, "it has not ended"


def test_two_edits_to_different_texts_agree_in_verdict_and_not_in_outcome(people, texts):
    ada, bob, _ = people
    read_by_two()
    read(None, (ada, "edit", "this month"), (bob, "edit", "last month"), **texts)
    found = agreements()["overall"]
    assert (found["same_verdict"].hits, found["same_outcome"].hits) == (1, 0)


def test_an_edit_may_count_as_an_approval(people, texts):
    ada, bob, _ = people
    read_by_two()
    read(None, (ada, "edit", "this month"), (bob, "approve"), **texts)
    read(None, (ada, "reject"), (bob, "reject"), **texts)
    assert table_of(read_twice(), EDIT_APPROVES) == [[1, 0], [0, 1]]
    (pair,) = agreements()["pairs"]
    assert pair["kappa"].value < 0.5 and pair["collapsed"].value == pytest.approx(1)


def test_a_second_reading_by_policy_is_nobodys(people, texts):
    ada, bob, _ = people
    read_by_two()
    read(None, (ada, "approve"), **texts)
    review_services.policy_approve(count=None)
    assert read_twice() == []


def test_readings_may_be_those_of_some_runs(people, texts):
    ada, bob, _ = people
    read_by_two()
    sample = read(None, (ada, "approve"), (bob, "reject"), **texts)
    assert [row.units for row in read_twice([sample.run_id])] == [1]
    assert read_twice([sample.run_id + 1]) == read_twice([]) == []


def test_a_reading_taken_back_counts_no_more_and_the_new_one_does(people, texts):
    ada, bob, _ = people
    read_by_two()
    sample = read(None, (ada, "approve"), (bob, "reject"), **texts)
    assert sample.human == Sample.Human.DISPUTED
    review_services.undo(reviewer=bob)
    assert read_twice() == []
    read(sample, (bob, "approve"))
    assert table_of(read_twice()) == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert agreements()["overall"]["same_outcome"].hits == 1, "the dispute that was taken back is none"


def test_figures_are_per_domain_style_and_pair_and_a_reviewer_gets_own_pairs(people, texts):
    ada, bob, cyd = people
    read_by_two()
    read(None, (ada, "approve"), (bob, "approve"), **texts)
    read(None, (ada, "approve"), (cyd, "approve"), **texts)
    read(None, (cyd, "reject"), (bob, "reject"), **texts, style="implicit")
    read(None, (ada, "reject"), (bob, "reject"))
    found = agreements()
    assert [row["name"] for row in found["domains"]] == ["hr"]
    assert [(row["name"], row["same_verdict"].n) for row in found["styles"]] == [
        ("easy", 1),
        ("explicit", 2),
        ("implicit", 1),
    ]
    assert [(pair["one"], pair["other"], pair["same_verdict"].n) for pair in found["pairs"]] == [
        ("ada", "bob", 2),
        ("ada", "cyd", 1),
        ("bob", "cyd", 1),
    ]
    assert found["pairs"][0]["kappa"].value == pytest.approx(1)
    assert [(pair["one"], pair["other"]) for pair in agreements(reviewer=cyd.pk)["pairs"]] == [
        ("ada", "cyd"),
        ("bob", "cyd"),
    ]
    shown = agreements(most_pairs=1)
    assert (len(shown["pairs"]), shown["more_pairs"]) == (1, 2)


def test_all_figures_come_from_two_queries_however_many_pairs(people, texts, django_assert_num_queries):
    ada, bob, cyd = people
    read_by_two()
    for one, other in ((ada, bob), (bob, cyd), (cyd, ada)):
        read(None, (one, "approve"), (other, "approve"), **texts)
    with django_assert_num_queries(2):
        agreements()
