"""Assignments: free items go to one person, come back undecided, and end when all is decided."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from synthesis.models import Assignment, ReviewItem, SecondShare
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.team import services as module
from synthesis.team.selectors import assignments
from synthesis.team.services import assign, assignable, end_done, reassign, take_back
from tests.factories import make_rule, make_sample, make_tool
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.lib.errors import TraceError
from trace_site.notices.services import Notice

pytestmark = pytest.mark.django_db


@pytest.fixture
def people(user_with):
    return {
        "admin": user_with("admin", username="admin"),
        "ada": user_with("reviewer", username="ada"),
        "bob": user_with("reviewer", username="bob"),
        "erin": user_with("expert", username="erin"),
    }


@pytest.fixture
def samples():
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    return [make_sample(rule=rule, tools=tools) for _ in range(5)] + [make_sample()]


def given(person) -> int:
    return ReviewItem.objects.filter(assigned_to=person).count()


def counts(row) -> tuple[int, int, int]:
    found = (assignments() | assignments(ended=True)).get(pk=row.pk)
    return found.done, found.left, found.gone


def test_only_the_given_part_of_the_queue_is_given_in_its_order(people, samples):
    row = assign(
        assignee=people["ada"], actor=people["admin"], filters={"rule": "SLIP_YEAR"}, count=3, note="slips"
    )
    items = row.items.order_by("pk").values_list("sample", flat=True)
    assert list(items) == [sample.pk for sample in samples[:3]] and row.count == 3
    rest = assign(assignee=people["ada"], actor=people["admin"], filters={"branch": "rule"})
    assert rest.count == 2 and given(people["ada"]) == 5


def test_the_assignee_meets_them_first_and_nobody_else_meets_them(people, samples):
    last = samples[-1]
    assign(assignee=people["ada"], actor=people["admin"], filters={"branch": "rrb"})
    assert review_queue.claim_next(people["ada"]).sample_id == last.pk
    met = {
        review_queue.claim_next(people["bob"], {"branch": "rrb"}),
        review_queue.claim_next(people["bob"]).sample_id,
    }
    assert last.pk not in met
    with pytest.raises(TraceError):
        review_queue.claim_item(people["bob"], ReviewItem.objects.get(sample=last).pk)


def test_what_others_hold_or_own_or_the_person_has_read_is_left_alone(people, samples):
    SecondShare.objects.create(share=1.0)
    held = review_queue.claim_next(people["bob"])
    own = assign(assignee=people["bob"], actor=people["bob"], filters={"branch": "rrb"})
    review_services.approve(sample=samples[1], reviewer=people["ada"])  # its second reading is not ada's
    row = assign(assignee=people["ada"], actor=people["admin"], filters={})
    assert set(row.items.values_list("sample", flat=True)) == {sample.pk for sample in samples[2:5]}
    assert ReviewItem.objects.get(pk=held.pk).assigned_to is None and own.items.count() == 1


def test_who_may_give_what_to_whom(people, samples):
    for actor, assignee, code in (
        ("ada", "bob", "not_allowed"),
        ("erin", "ada", "not_allowed"),
        ("erin", "erin", "not_allowed"),
        ("admin", "erin", "bad_input"),
    ):
        with pytest.raises(TraceError) as error:
            assign(assignee=people[assignee], actor=people[actor], filters={})
        assert error.value.code == code
    User.objects.filter(username="bob").update(is_active=False)
    with pytest.raises(TraceError, match="does not review"):
        assign(assignee=User.objects.get(username="bob"), actor=people["admin"], filters={})
    assert not Assignment.objects.exists() and not Notice.objects.exists()
    assert assign(assignee=people["ada"], actor=people["ada"], filters={}, count=1).count == 1


def test_a_selection_with_nothing_free_is_a_conflict_and_writes_nothing(people, samples):
    with pytest.raises(TraceError) as error:
        assign(assignee=people["ada"], actor=people["admin"], filters={"domain": "finance"})
    assert error.value.code == "conflict" and not Assignment.objects.exists()
    with pytest.raises(TraceError, match="at least one"):
        assign(assignee=people["ada"], actor=people["admin"], filters={}, count=0)


def test_taking_back_returns_what_is_not_decided_and_keeps_what_is(people, samples):
    row = assign(assignee=people["ada"], actor=people["admin"], filters={"rule": "SLIP_YEAR"})
    review_services.approve(sample=samples[0], reviewer=people["ada"])
    reading = review_queue.claim_next(people["ada"])
    assert take_back(assignment=row.pk, actor=people["admin"]) == 4
    assert given(people["ada"]) == 1 and counts(row) == (1, 0, 0)
    assert review_queue.claim_next(people["bob"]).sample_id == samples[2].pk
    assert ReviewItem.objects.get(pk=reading.pk).claimed_by == people["ada"]  # ends what is on screen
    with pytest.raises(TraceError) as error:
        take_back(assignment=row.pk, actor=people["admin"])
    assert error.value.code == "bad_state"


def test_reviewers_end_only_what_they_took_for_themselves(people, samples):
    theirs = assign(assignee=people["ada"], actor=people["admin"], filters={}, count=2)
    own = assign(assignee=people["ada"], actor=people["ada"], filters={}, count=2)
    for row, actor in ((theirs, "ada"), (own, "bob")):
        with pytest.raises(TraceError) as error:
            take_back(assignment=row.pk, actor=people[actor])
        assert error.value.code == "not_allowed"
    assert take_back(assignment=own.pk, actor=people["ada"]) == 2


def test_reassigning_moves_what_is_open_and_the_new_one_may_read(people, samples):
    SecondShare.objects.create(share=1.0)
    for sample in samples[:2]:
        review_services.approve(sample=sample, reviewer=people["bob"])
    row = assign(assignee=people["ada"], actor=people["admin"], filters={"rule": "SLIP_YEAR"})
    assert row.count == 5
    review_queue.claim_item(people["ada"], ReviewItem.objects.get(sample=samples[2]).pk)
    new = reassign(assignment=row.pk, assignee=people["bob"], actor=people["admin"])
    assert set(new.items.values_list("sample", flat=True)) == {samples[3].pk, samples[4].pk}
    assert given(people["ada"]) == 0 and counts(row) == (0, 0, 0)
    held = ReviewItem.objects.get(sample=samples[2])
    assert held.claimed_by == people["ada"] and held.assigned_to is None
    assert Assignment.objects.get(pk=row.pk).ended_at is not None
    assert review_queue.claim_next(people["bob"]).sample_id == samples[3].pk


def test_a_reassignment_that_gives_nothing_changes_nothing(people, samples):
    row = assign(assignee=people["ada"], actor=people["admin"], filters={}, count=1)
    review_queue.claim_next(people["ada"])
    with pytest.raises(TraceError):
        reassign(assignment=row.pk, assignee=people["bob"], actor=people["admin"])
    assert Assignment.objects.get().ended_at is None and given(people["ada"]) == 1


def test_an_assignment_ends_when_all_is_decided_or_replaced(people, samples):
    row = assign(assignee=people["ada"], actor=people["admin"], filters={}, count=2)
    review_services.approve(sample=samples[0], reviewer=people["ada"])
    assert end_done() == 0 and counts(row) == (1, 1, 0)
    samples[1].machine = "dropped"
    samples[1].save()
    assert counts(row) == (1, 0, 1) and end_done() == 1
    assert Assignment.objects.get().ended_at is not None and end_done() == 0


def test_the_assignee_is_told_unless_it_is_oneself(people, samples):
    row = assign(assignee=people["ada"], actor=people["admin"], filters={}, count=2, note="by Friday")
    assign(assignee=people["bob"], actor=people["bob"], filters={}, count=1)
    notice = Notice.objects.get()
    assert (notice.recipient, notice.text) == (
        people["ada"],
        "admin gave you 2 samples to review: by Friday",
    )
    take_back(assignment=row.pk, actor=people["admin"])
    assert Notice.objects.get().text == "admin took back 2 samples that were assigned to you."


def test_every_step_is_audited(people, samples):
    row = assign(assignee=people["ada"], actor=people["admin"], filters={"branch": "rule"}, count=2)
    new = reassign(assignment=row.pk, assignee=people["bob"], actor=people["admin"])
    take_back(assignment=new.pk, actor=people["admin"])
    entries = AuditEntry.objects.filter(object_type="assignment").order_by("id")
    assert list(entries.values_list("action", flat=True)) == [
        "assignment.made",
        "assignment.made",
        "assignment.reassigned",
        "assignment.taken_back",
    ]
    changes = AuditChange.objects.filter(table_name="synthesis_assignment").order_by("id")
    assert list(changes.values_list("operation", flat=True)) == ["INSERT", "UPDATE", "INSERT", "UPDATE"]


def test_giving_many_costs_as_much_as_giving_few(people, samples):
    costs = []
    for count in (1, 1, 4):
        with CaptureQueriesContext(connection) as queries:
            assign(assignee=people["ada"], actor=people["admin"], filters={}, count=count)
        costs.append(len(queries))
    assert costs[1] == costs[2] <= 12  # the first reads the roles


def test_the_free_count_is_what_is_given(people, samples):
    review_queue.claim_next(people["bob"])
    free = assignable(people["ada"], {"branch": "rule"}).count()
    assert free == assign(assignee=people["ada"], actor=people["admin"], filters={"branch": "rule"}).count


def test_no_more_than_a_lot_is_given_at_once(people, samples, monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)
    rows = [assign(assignee=people["ada"], actor=people["admin"], filters={}, count=n) for n in (None, 5)]
    assert [row.count for row in rows] == [2, 2]
