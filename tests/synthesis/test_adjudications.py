"""Who may adjudicate is told once, with the number that waits, and never what was decided."""

import pytest

from synthesis.models import ReviewItem, SecondShare
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.review.services import tell_adjudicators
from tests.factories import make_sample
from trace_site.notices.services import Notice, mark_read, unread

pytestmark = pytest.mark.django_db


@pytest.fixture
def people(user_with):
    SecondShare.objects.create(share=1.0)
    return [user_with("reviewer", username=name) for name in ("ada", "bob", "cyd")] + [
        user_with("expert", username="erin")
    ]


def dispute(first, second):
    sample = make_sample()
    review_services.approve(sample=sample, reviewer=first)
    review_services.reject(sample=sample, reviewer=second, reason="wrong_tool")
    return sample


def texts(person) -> list[str]:
    return list(unread(person).values_list("text", flat=True))


def test_many_disputes_are_one_notice_to_those_who_read_neither(people):
    ada, bob, cyd, erin = people
    for _ in range(12):
        dispute(ada, bob)
    assert tell_adjudicators() == 1
    assert texts(cyd) == ["12 samples wait for adjudication: two readings disagree."]
    assert not Notice.objects.exclude(recipient=cyd).exists()
    assert Notice.objects.get().link == "/synthesis/review/?round=3"
    assert tell_adjudicators() == 0 and Notice.objects.count() == 1


def test_the_number_follows_what_waits_and_nothing_left_is_nothing_new(people):
    ada, bob, cyd, _ = people
    samples = [dispute(ada, bob) for _ in range(2)]
    tell_adjudicators()
    review_services.approve(sample=samples[0], reviewer=cyd)
    tell_adjudicators()
    assert texts(cyd) == ["1 sample waits for adjudication: two readings disagree."]
    review_services.approve(sample=samples[1], reviewer=cyd)
    tell_adjudicators()
    assert texts(cyd) == []


def test_what_was_read_is_told_again_only_for_a_newer_dispute(people):
    ada, bob, cyd, _ = people
    dispute(ada, bob)
    tell_adjudicators()
    mark_read(unread(cyd))
    assert tell_adjudicators() == 0 and texts(cyd) == []
    newer = dispute(ada, bob)
    ReviewItem.objects.filter(sample=newer, round=3).update(
        opened_at=Notice.objects.get().at.replace(year=2099)
    )
    assert tell_adjudicators() == 1 and texts(cyd) == [
        "2 samples wait for adjudication: two readings disagree."
    ]


def test_what_somebody_holds_does_not_wait(people):
    ada, bob, cyd, _ = people
    dispute(ada, bob)
    review_queue.claim_next(cyd, {"round": 3})
    assert tell_adjudicators() == 0 and not Notice.objects.exists()


def test_nothing_to_adjudicate_costs_two_queries(people, django_assert_num_queries):
    with django_assert_num_queries(2):
        tell_adjudicators()
