"""What the database itself refuses, whoever asks and however."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError

from rules.changes import services as changes_services
from rules.models import Approval, ChangeComment, ChangeRequest, RuleChange

pytestmark = pytest.mark.django_db


def refused(sql: str, *values: object) -> str:
    with pytest.raises(IntegrityError) as caught, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(sql, values)
    return str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE rules_approval SET verdict = 'reject'",
        "UPDATE rules_approval SET revision = 9",
        "DELETE FROM rules_approval",
        "TRUNCATE rules_approval CASCADE",
    ],
)
def test_approval_is_never_rewritten(world, sql):
    world.approved()
    assert "frozen" in refused(sql)
    assert Approval.objects.get().verdict == "approve"


@pytest.mark.parametrize("who", ["erin", "ada"])
def test_approval_by_somebody_who_wrote_in_it_cannot_be_inserted(world, who):
    request = world.after("draft > edited ada > review")
    told = refused(
        "INSERT INTO rules_approval (request_id, revision, verdict, comment, reviewer_id, at) "
        "VALUES (%s, 3, 'approve', '', %s, now())",
        request.pk,
        world[who].pk,
    )
    assert "cannot judge it" in told and not Approval.objects.exists()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE rules_changerequest SET state = 'draft'",
        "UPDATE rules_changerequest SET bypassed = true",
        "DELETE FROM rules_changerequest",
        "UPDATE rules_rulechange SET content = '{}'",
        "DELETE FROM rules_rulechange",
    ],
)
def test_applied_request_is_kept_as_it_was(world, sql):
    request = world.applied()
    assert "is applied" in refused(sql)
    request.refresh_from_db()
    assert request.state == "applied" and request.changes.count() == 1


@pytest.mark.parametrize("start", ["review", "cancelled", "draft > review"])
def test_request_that_was_submitted_or_ended_is_not_deleted(world, start):
    request = world.after(start)
    with pytest.raises(IntegrityError), transaction.atomic():
        ChangeRequest.objects.filter(pk=request.pk).delete()
    assert RuleChange.objects.count() == 1


def test_approved_request_is_not_deleted_through_its_model(world):
    with pytest.raises(ProtectedError):
        world.approved().delete()


@pytest.mark.parametrize("who", ["erin", "rui"])
def test_author_and_approver_cannot_be_deleted(world, who):
    world.approved()
    with pytest.raises(ProtectedError):
        world[who].delete()


def test_comment_is_never_rewritten(world):
    changes_services.request_comment(request=world.review(), actor=world["rui"], text="Why?")
    assert "frozen" in refused("UPDATE rules_changecomment SET text = 'x'")
    assert ChangeComment.objects.get().text == "Why?"
