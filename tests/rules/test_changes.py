"""Change control in the services: a request's life, and what an edit, a conflict and an approval mean."""

from datetime import timedelta

import pytest
from django.utils import timezone

from rules import changes
from rules.models import Approval, ChangeRequest, Rule, RuleVersion
from rules.services import rule_save
from tests.factories import make_tool
from trace_site.audit import AuditEntry
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db
TEXT = "Payslips from 2024 on are read with A/New, earlier ones with A/Old, whatever the worker says."


@pytest.fixture
def people(user_with):
    return user_with("expert", username="erin"), user_with("expert", username="rui")


@pytest.fixture
def tools():
    return make_tool("A/New"), make_tool("A/Old"), make_tool("A/Odd")


def content(text: str = TEXT, **fields):
    return {"target": "A/New", "confusables": ["A/Old"], "text": text, "clauses": [], "tests": [], **fields}


def published(**fields) -> Rule:
    return rule_save(**(content() | fields), code="NEW_OLD", publish=True).version.rule


def drafted(author, **options) -> ChangeRequest:
    return changes.change_draft(actor=author, **options).request


def test_request_is_drafted_submitted_approved_and_applied(people, tools):
    erin, rui = people
    change = changes.change_draft(actor=erin, content=content(), code="PAYSLIP_PERIOD")
    request = changes.request_submit(request=change.request, actor=erin, revision=change.request.revision)
    assert (request.state, request.title) == ("in_review", "PAYSLIP_PERIOD")
    request = changes.request_approve(request=request, actor=rui, revision=request.revision)
    assert request.state == "approved" and not Rule.objects.exists()
    request = changes.request_apply(request=request, actor=rui)
    rule = Rule.objects.get()
    assert (request.state, request.applied_by, rule.code, rule.published.number) == (
        "applied",
        rui,
        "PAYSLIP_PERIOD",
        1,
    )
    assert rule.published.author == erin and request.changes.get().version == rule.published
    actions = list(AuditEntry.objects.order_by("id").values_list("action", "actor__username"))
    assert actions == [
        ("request.created", "erin"),
        ("request.edited", "erin"),
        ("request.submitted", "erin"),
        ("request.approved", "rui"),
        ("rule.saved", "erin"),
        ("rule.published", "rui"),
        ("request.applied", "rui"),
    ]
