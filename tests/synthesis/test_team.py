"""The team's progress: what stands counts, breaks and undone decisions do not, and it costs the same for any team."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db import connection

from synthesis.models import Decision, ReviewItem
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.team.selectors import assignments, team
from synthesis.team.services import assign
from tests.factories import make_sample

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)  # a Wednesday


def decide(person, *minutes: float, undo: bool = False) -> None:
    """Decisions of a person, so many minutes after noon."""
    for minute in minutes:
        review_services.approve(sample=make_sample(), reviewer=person)
        moved(person, minute)
    if undo:
        review_services.undo(reviewer=person)
        moved(person, minutes[-1] + 1)


def moved(person, minute: float) -> None:
    """The newest decision happened then; the table is append-only, so its triggers rest for the test."""
    at = NOON + timedelta(minutes=minute)
    newest = Decision.objects.filter(reviewer=person).order_by("-pk").first()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE synthesis_decision SET at = %s WHERE id = %s", [at, newest.pk])
        cursor.execute("SET LOCAL session_replication_role = DEFAULT")
    ReviewItem.objects.filter(pk=newest.item_id, state="decided").update(decided_at=at)


def of(person, now=NOON + timedelta(hours=3)):
    return next(SimpleNamespace(**row) for row in team(now)["members"] if row["pk"] == person.pk)


def test_items_an_hour_leave_breaks_out(ada):
    decide(ada, 0, 1, 2, 30, 32)  # gaps of 1, 1, (28), 2 minutes
    member = of(ada)
    assert (member.items, member.seconds) == (3, 240) and member.per_hour == 45
    assert (member.today, member.week) == (5, 5)


def test_a_gap_of_exactly_a_lease_is_reading(ada):
    decide(ada, 0, 5, 10.01)
    assert (of(ada).items, of(ada).seconds) == (1, 300)


def test_what_was_taken_back_counts_as_time_and_not_as_an_item(ada):
    decide(ada, 0, 1, 2, undo=True)
    member = of(ada)
    assert member.today == 2 and (member.items, member.seconds) == (1, 180)


def test_one_decision_has_no_speed_and_no_estimate(ada):
    decide(ada, 0)
    make_sample()
    found = SimpleNamespace(**team(NOON + timedelta(hours=3)))
    assert of(ada).per_hour is None and found.seconds_left is None and found.left == 1


def test_today_and_the_week_begin_at_midnight_and_on_monday(ada):
    decide(ada, -13 * 60, -2.6 * 24 * 60, -4 * 24 * 60, 0)  # yesterday, Monday 0:00 UTC minus a bit, Saturday
    assert (of(ada).today, of(ada).week) == (1, 2)


def test_what_is_left_at_todays_speed_is_shared_by_who_reads(ada, user_with):
    bob = user_with("admin", username="bob")
    decide(ada, 0, 1, 2)
    decide(bob, 0, 3, 6)
    for _ in range(10):
        make_sample()
    found = SimpleNamespace(**team(NOON + timedelta(hours=3)))
    assert found.per_hour == 30 and found.left == 10
    assert found.seconds_left == 1200 and found.seconds_left_each == 600


def test_only_who_reviews_is_on_the_team_and_by_name(ada, user_with):
    user_with("expert", username="erin")
    user_with("reviewer", "admin", username="Zoe")
    gone = user_with("reviewer", username="gone")
    gone.is_active = False
    gone.save()
    assert [member["name"] for member in team()["members"]] == ["Zoe", "ada"]


def test_claims_and_assignments_show_with_their_holder(ada, user_with):
    admin = user_with("admin", username="alma")
    for _ in range(4):
        make_sample()
    assign(assignee=ada, actor=admin, filters={}, count=3)
    first = review_queue.claim_next(ada)
    review_queue.claim_next(ada, besides=[first.pk])
    review_services.approve(sample=first.sample, reviewer=ada)
    member = of(ada)
    assert (member.held, member.assigned) == (1, 2) and member.frees_at is not None
    (row,) = assignments()
    assert (row.done, row.left, row.gone, row.count) == (1, 2, 0, 3) and row.last is not None


def test_the_policy_of_an_admin_is_no_reading(user_with):
    admin = user_with("admin", username="alma")
    make_sample(), make_sample()
    review_services.policy_approve(count=None, actor=admin)
    assert (of(admin).today, of(admin).items) == (0, 0)


def test_a_large_team_costs_as_many_queries_as_a_small_one(ada, user_with, django_assert_num_queries):
    with django_assert_num_queries(6):
        team(NOON)
    for number in range(20):
        decide(user_with("reviewer", username=f"r{number:02}"), 0, 1)
    with django_assert_num_queries(6):
        assert len(team(NOON)["members"]) == 21
