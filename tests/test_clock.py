"""One clock: whatever the process' own says, nothing that is shared happens early or late."""

import ast
import time
from datetime import datetime, timedelta

import pytest
from axes.models import AccessAttempt
from django.conf import settings as site
from django.contrib.auth import tokens as django_tokens
from django.urls import reverse
from django.utils import timezone

from rules.changes import services as changes
from rules.models import ChangeRequest
from tests.hook_server import HookServer
from tests.rules.ways import World
from tests.sources import modules
from trace_site.audit import models as audit_models
from trace_site.audit.models import AuditEntry
from trace_site.database import database_now
from trace_site.deliveries import BACKOFF, Delivery, deliver_due
from trace_site.people.services import ensure_roles, link_of, person_invite
from trace_site.people.sessions import Session
from trace_site.rest.tokens import ApiToken, personal_token_make
from trace_site.webhooks.services import emit, webhook_create

# who may ask the process' clock
LOCAL = {
    "catalog/imports/previews.py": "age of files on this host's disk; a ticket that ends early is previewed again",
    "synthesis/review/views_batches.py": "a ticket is worth nothing without a claim, whose lease is the database's",
    "trace_site/lib/llm/limiter.py": "how long another server asks to wait, against its clock and ours",
}
AWAY = timedelta(minutes=40)  # less than the clocks differ by


def asks_the_process(node):
    """`timezone.now`, `time.time()` and their like, `auto_now`, and tickets that Django dates."""
    if isinstance(node, ast.keyword):
        return node.arg in ("auto_now", "auto_now_add", "max_age")
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return False
    return (node.value.id, node.attr) in {
        *(("timezone", name) for name in ("now", "localdate")),
        *(("datetime", name) for name in ("now", "utcnow", "today")),
        ("date", "today"),
        ("time", "time"),
        ("time", "time_ns"),
    }


def test_only_what_is_named_here_with_a_reason_asks_the_process_what_time_it_is():
    found = {str(path) for path, tree in modules().items() if any(map(asks_the_process, ast.walk(tree)))}
    assert found == set(LOCAL)


@pytest.fixture(params=[1, -1], ids=["an hour ahead", "an hour behind"])
def skewed(request, monkeypatch):
    """The clock of this process, and of nobody else, is off by an hour."""
    off = timedelta(hours=request.param)
    now, seconds = timezone.now, time.time

    class Shifted(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + off

    monkeypatch.setattr(timezone, "now", lambda: now() + off)
    monkeypatch.setattr(time, "time", lambda: seconds() + off.total_seconds())
    monkeypatch.setattr(django_tokens, "datetime", Shifted)
    return off


def is_now(at):
    return abs(at - database_now()) < timedelta(minutes=1)


@pytest.mark.django_db
@pytest.mark.parametrize("due", [True, False])
def test_a_scheduled_change_is_applied_when_its_time_has_come(user_with, skewed, due):
    request = World(user_with).scheduled()
    ChangeRequest.objects.update(apply_at=database_now() + (-AWAY if due else AWAY))
    assert changes.apply_due() == due
    request.refresh_from_db()
    assert (request.state, request.applied_at is not None) == (
        ("applied", True) if due else ("scheduled", False)
    )
    if due:
        version = request.changes.get().version
        entry = AuditEntry.objects.get(action="request.applied")
        for at in (request.applied_at, request.updated_at, version.created_at, entry.at):
            assert is_now(at)


@pytest.mark.django_db
def test_a_change_is_scheduled_for_what_is_still_to_come(user_with, skewed):
    world = World(user_with)
    request = world.approved()
    soon = database_now() + AWAY
    assert changes.request_schedule(request=request, actor=world["rui"], at=soon).apply_at == soon


@pytest.mark.django_db(transaction=True)
def test_a_webhook_is_tried_again_after_its_pause(user_with, settings, skewed):
    settings.WEBHOOK_ALLOW_PRIVATE = True
    receiver = HookServer()
    try:
        webhook_create(url=receiver.url, events=["rule.published"], actor=user_with("admin"))
        receiver.faults = ["500", "500"]
        emit("rule.published", {})
        assert deliver_due() == 1
        (row,) = Delivery.objects.all()
        assert abs(row.next_at - BACKOFF[0] - database_now()) < timedelta(seconds=20)
        assert is_now(datetime.fromisoformat(row.log[0]["at"]))
        stamp = receiver.received[0]["X-Trace-Signature"].split(",")[0].removeprefix("t=")
        assert abs(int(stamp) - database_now().timestamp()) < 60
        assert deliver_due() == 0
        Delivery.objects.update(next_at=database_now() - AWAY)
        assert deliver_due() == 1
    finally:
        receiver.close()


@pytest.mark.django_db
@pytest.mark.parametrize("over", [True, False])
def test_a_token_ends_at_its_time(client, user_with, skewed, over):
    token, secret = personal_token_make(user=user_with("expert"))
    assert is_now(token.expires_at - timedelta(days=site.TOKEN_DAYS))
    ApiToken.objects.update(expires_at=database_now() + (-AWAY if over else AWAY))
    asked = client.get("/api/v1/rules", headers={"Authorization": f"Token {secret}"})
    assert asked.status_code == (401 if over else 200)


@pytest.mark.django_db
@pytest.mark.parametrize("over", [True, False])
def test_a_session_ends_at_its_time(client_as, skewed, over):
    client = client_as("expert")
    row = Session.objects.get()
    assert is_now(row.expire_date - timedelta(seconds=site.SESSION_COOKIE_AGE)) and is_now(row.seen_at)
    Session.objects.update(expire_date=database_now() + (-AWAY if over else AWAY))
    assert client.get(reverse("account")).status_code == (302 if over else 200)


@pytest.mark.django_db
@pytest.mark.parametrize("over", [True, False])
def test_an_invitation_ends_at_its_time(client, settings, monkeypatch, skewed, over):
    ensure_roles()
    with monkeypatch.context() as elsewhere:  # made by a process whose clock is right
        elsewhere.setattr(django_tokens, "datetime", datetime)
        link = link_of(person_invite(username="erin", email="", roles=["expert"], actor=None))
    settings.PASSWORD_RESET_TIMEOUT = (-1 if over else 1) * AWAY.total_seconds()
    page = client.get(link, follow=True).content.decode()
    assert ("new_password1" in page) is not over


@pytest.mark.django_db
def test_a_wrong_password_counts_from_when_it_was_given(client, user_with, settings, skewed):
    settings.AXES_ENABLED = True
    client.post(reverse("login"), {"username": user_with("expert").username, "password": "wrong"})
    assert is_now(AccessAttempt.objects.get().attempt_time)


@pytest.mark.django_db
def test_what_is_stored_is_dated_by_the_database(user_with, skewed):
    audit_models.record(actor=None, action="a.b", obj=user_with("expert"))
    assert is_now(AuditEntry.objects.get(action="a.b").at)
    rule = World(user_with).rule
    assert is_now(rule.created_at) and is_now(rule.published.target.updated_at)
    rule.published.target.save()
    assert is_now(rule.published.target.updated_at)
