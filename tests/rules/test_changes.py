"""Change control in the services: a request's life, and what an edit, a conflict and an approval mean."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from rules.book import version_contents
from rules.changes import drafts
from rules.changes import services as changes_services
from rules.changes.drafts import version_propose
from rules.changes.proposals import changes_of, proposals_of, request_conflicts, request_findings
from rules.core.draft import draft_of
from rules.models import Approval, ChangeRequest, Rule, RuleVersion
from tests.factories import make_rule
from tests.rules.saving import rule_save
from tests.rules.ways import TEXT, content
from trace_site.audit.models import AuditEntry
from trace_site.deliveries import Delivery
from trace_site.lib.errors import TraceError
from trace_site.webhooks.services import Webhook

pytestmark = pytest.mark.django_db


def entries(after: int = 0) -> list[tuple[str, str | None]]:
    rows = AuditEntry.objects.filter(pk__gt=after).order_by("pk")
    return list(rows.values_list("action", "actor__username"))


def newest_entry() -> int:
    return AuditEntry.objects.order_by("-pk").values_list("pk", flat=True)[0]


def due() -> None:
    ChangeRequest.objects.filter(state="scheduled").update(apply_at=timezone.now() - timedelta(minutes=1))


def test_request_is_drafted_submitted_approved_and_applied(world):
    erin, rui, began = world["erin"], world["rui"], newest_entry()
    change = drafts.change_draft(actor=erin, content=content(TEXT + " New."), code="PAYSLIP_PERIOD")
    request = changes_services.request_submit(
        request=change.request, actor=erin, revision=change.request.revision
    )
    assert (request.state, request.title) == ("in_review", "PAYSLIP_PERIOD")
    request = changes_services.request_approve(request=request, actor=rui, revision=request.revision)
    assert request.state == "approved" and not Rule.objects.filter(code="PAYSLIP_PERIOD").exists()
    request = changes_services.request_apply(request=request, actor=rui)
    rule = Rule.objects.get(code="PAYSLIP_PERIOD")
    assert (request.state, request.applied_by, rule.published.number) == ("applied", rui, 1)
    assert rule.published.author == erin and request.changes.get().version == rule.published
    assert entries(began) == [
        ("request.created", "erin"),
        ("request.edited", "erin"),
        ("request.submitted", "erin"),
        ("request.approved", "rui"),
        ("rule.saved", "erin"),
        ("rule.published", "rui"),
        ("request.applied", "rui"),
    ]


def test_every_verb_leaves_an_entry_with_revision_and_states(world):
    request = world.rejected()
    changes_services.request_reopen(request=request, actor=world["erin"])
    details = AuditEntry.objects.filter(object_type="changerequest").order_by("pk").values("action", "detail")
    told = [
        (row["action"], row["detail"]["revision"], row["detail"]["before"], row["detail"]["after"])
        for row in details
    ]
    assert told == [
        ("request.created", 1, None, "draft"),
        ("request.edited", 2, "draft", "draft"),
        ("request.submitted", 2, "draft", "in_review"),
        ("request.rejected", 2, "in_review", "rejected"),
        ("request.reopened", 3, "rejected", "draft"),
    ]


def test_autosaves_of_the_author_leave_no_entry_and_edits_by_others_do(world):
    request = world.draft()
    began = newest_entry()
    world.edited(request)
    assert entries(began) == []
    world.edited(request, "otto")
    assert entries(began) == [("request.edited", "otto")]
    assert ChangeRequest.objects.get().editor_ids == [world["otto"].pk]


def test_saving_the_same_again_keeps_the_revision(world):
    change = world.draft().changes.get()
    again = drafts.change_save(change=change, expected=99, actor=world["erin"], content=change.content)
    assert (again.revision, ChangeRequest.objects.get().revision) == (1, 2)


@pytest.mark.parametrize("start", ["review", "approved", "scheduled"])
def test_edit_after_submission_clears_approvals_and_goes_back_to_review(world, start):
    request = world.edited(world.after(start))
    assert (request.state, request.revision, request.apply_at) == ("in_review", 3, None)
    request = changes_services.request_approve(request=request, actor=world["otto"], revision=3)
    assert request.state == "approved"


def test_description_counts_as_an_edit(world):
    request = drafts.request_describe(
        request=world.approved(), actor=world["erin"], title="Other", description="Why."
    )
    assert (request.state, request.revision) == ("in_review", 3)
    again = drafts.request_describe(request=request, actor=world["erin"], title="Other", description="Why.")
    assert again.revision == 3


def test_installation_may_ask_for_two_approvals(world, settings):
    settings.CHANGE_APPROVALS = 2
    request = world.approved()
    assert request.state == "in_review"
    request = changes_services.request_approve(request=request, actor=world["ada"], revision=2)
    assert request.state == "approved"


def test_lost_approval_is_replaced_by_another_one(world):
    request = world.after("approved > deactivated rui")
    request = changes_services.request_approve(request=request, actor=world["otto"], revision=2)
    assert changes_services.request_apply(request=request, actor=world["otto"]).state == "applied"


def test_request_of_a_deactivated_author_can_still_be_decided_and_applied(world):
    request = world.after("review > deactivated erin")
    changes_services.request_approve(request=request, actor=world["rui"], revision=2)
    assert changes_services.request_apply(request=request, actor=world["otto"]).state == "applied"


def test_who_approved_may_think_again_and_reject(world):
    request = changes_services.request_reject(
        request=world.approved(), actor=world["rui"], revision=2, reason="I missed the interns."
    )
    assert (request.state, request.reason) == ("rejected", "I missed the interns.")
    assert list(Approval.objects.values_list("verdict", flat=True)) == ["approve"]


def test_rejected_request_is_corrected_and_submitted_again(world):
    request = changes_services.request_reopen(request=world.rejected(), actor=world["erin"])
    request = world.review(world.edited(request))
    assert (request.state, request.revision, request.reason) == ("in_review", 4, "")


def test_rolling_back_makes_a_new_version_with_the_old_content(world):
    world.newer(world.draft())
    old = RuleVersion.objects.get(number=1)
    request = world.approved(version_propose(version=old, actor=world["erin"]).request)
    changes_services.request_apply(request=request, actor=world["rui"])
    world.rule.refresh_from_db()
    now = world.rule.published
    assert (now.number, now.content_hash, now.note) == (3, old.content_hash, "roll back to v1")


def test_publishing_an_unpublished_version_reuses_it(world):
    draft = rule_save(**content(TEXT + " Imported."), rule=world.rule).version
    request = world.approved(version_propose(version=draft, actor=world["erin"]).request)
    changes_services.request_apply(request=request, actor=world["rui"])
    world.rule.refresh_from_db()
    assert world.rule.published == draft and world.rule.versions.count() == 2


def conflicts_of(request):
    changes = changes_of(request)
    return request_conflicts(request, changes, proposals_of(changes))


def findings_of(changes):
    return request_findings(changes, proposals_of(changes))


def test_conflict_is_settled_by_putting_the_change_on_top(world):
    request = world.after("approved > newer")
    change = request.changes.get()
    drafts.change_rebase(change=change, expected=1, actor=world["erin"])
    assert conflicts_of(ChangeRequest.objects.get()) == []
    request = changes_services.request_approve(request=request, actor=world["rui"], revision=3)
    changes_services.request_apply(request=request, actor=world["rui"])
    world.rule.refresh_from_db()
    assert (world.rule.published.number, world.rule.published.text) == (3, TEXT + " Always.")


def test_retired_look_alike_is_shown_and_does_not_block(world):
    request = world.after("approved > retired A/Old")
    (conflict,) = conflicts_of(request)
    assert "look-alike A/Old is retired" in conflict.sentence and not conflict.blocks


def test_same_new_code_in_two_open_requests_is_shown_on_both(world):
    first, second = world.new_rule("SAME"), world.new_rule("SAME")
    for one, other in ((first, second), (second, first)):
        (conflict,) = conflicts_of(one)
        assert conflict.other_request == other and not conflict.blocks


def test_changes_of_one_request_are_checked_against_each_other(world):
    twin = rule_save(**content(), code="TWIN", publish=True).version.rule
    request = world.draft(TEXT + " Ever.")
    before = findings_of(list(request.changes.select_related("rule")))
    other = content(
        "The yearly statement for the tax office comes from A/New; A/Odd prints it for banks.",
        confusables=["A/Odd"],
    )
    drafts.change_add(request=request, actor=world["erin"], rule=twin, content=other)
    both = list(request.changes.select_related("rule"))
    codes = [{finding.code for finding in found[both[0].pk]} for found in (before, findings_of(both))]
    assert "near_duplicate" in codes[0] and "near_duplicate" not in codes[1]
    drafts.change_remove(change=both[1], expected=1, actor=world["erin"])
    drafts.change_add(request=request, actor=world["erin"], rule=twin, action="withdraw")
    both = list(request.changes.select_related("rule"))
    assert "near_duplicate" not in {finding.code for finding in findings_of(both)[both[0].pk]}


def test_request_with_several_changes_is_applied_whole_or_not_at_all(world):
    request = world.new_rule("FIRST")
    drafts.change_add(request=request, actor=world["erin"], rule=world.rule, content=content(TEXT + " Too."))
    request = world.approved(ChangeRequest.objects.get())
    world.newer(request)
    before = world.written()
    with pytest.raises(TraceError, match="otto made v2"):
        changes_services.request_apply(request=request, actor=world["rui"])
    assert world.written() == before
    change = request.changes.get(rule=world.rule)
    drafts.change_rebase(change=change, expected=1, actor=world["erin"])
    changes_services.request_approve(request=request, actor=world["rui"], revision=4)
    changes_services.request_apply(request=request, actor=world["rui"])
    assert Rule.objects.get(code="FIRST").published.number == 1
    world.rule.refresh_from_db()
    assert world.rule.published.number == 3


def test_emergency_leaves_a_loud_entry_and_a_mark(world):
    began = newest_entry()
    request = changes_services.request_bypass(
        request=world.review(), actor=world["ada"], reason="Payroll runs."
    )
    assert (request.state, request.bypassed, request.reason) == ("applied", True, "Payroll runs.")
    entry = AuditEntry.objects.get(pk__gt=began, action="request.bypassed")
    assert entry.actor == world["ada"]
    assert entry.detail["reason"] == "Payroll runs." and entry.detail["approvals_missing"] == 1


def test_due_request_is_applied_and_one_of_tomorrow_is_not(world):
    first = world.scheduled()
    due()
    later = world.scheduled(world.new_rule("LATER"))
    assert (changes_services.apply_due(), changes_services.apply_due()) == (1, 0)
    first.refresh_from_db()
    later.refresh_from_db()
    assert (first.state, first.applied_by, later.state) == ("applied", None, "scheduled")


@pytest.mark.parametrize(
    ("beside", "why"),
    [("newer", "otto made v2"), ("retired", "A/New is retired"), ("deactivated rui", "no longer count")],
)
def test_due_request_that_cannot_be_applied_is_blocked_with_the_reason_once(world, beside, why):
    request = world.after(f"scheduled > {beside}")
    versions = RuleVersion.objects.count()
    due()
    began = newest_entry()
    assert (changes_services.apply_due(), changes_services.apply_due()) == (0, 0)
    request.refresh_from_db()
    assert request.state == "scheduled" and why in request.blocked
    assert RuleVersion.objects.count() == versions
    assert entries(began) == [("request.blocked", None)]


def test_blocked_request_is_scheduled_anew_once_the_way_is_clear(world):
    request = world.after("scheduled > retired")
    due()
    changes_services.apply_due()
    type(world.rule.published.target).objects.update(status="active")
    at = timezone.now() + timedelta(hours=1)
    request = changes_services.request_schedule(request=request, actor=world["rui"], at=at)
    assert request.blocked == ""
    due()
    assert changes_services.apply_due() == 1


def test_webhooks_are_told_what_became_of_a_request_and_its_rules(world):
    Webhook.objects.create(
        url="https://example.org/hook",
        salt="s",
        created_by=world["ada"],
        events=["request.submitted", "request.approved", "request.applied", "request.rejected"]
        + ["request.blocked", "rule.published", "rule.withdrawn"],
    )
    world.applied()
    told = list(Delivery.objects.order_by("pk").values_list("event", flat=True))
    assert told == ["request.submitted", "request.approved", "rule.published", "request.applied"]
    payload = Delivery.objects.get(event="rule.published").payload
    assert (payload["code"], payload["version"]) == ("NEW_OLD", 2)


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"target": 3}, "/tool_name"),
        ({"confusables": "A/Old"}, "/confusables"),
        ({"clauses": [{"when": 1}]}, "/clauses/0/when"),
        ({"tests": [{"query": "q", "tools": [None]}]}, "/tests/0/tools/0"),
        ({"text": "x" * 10_001}, "/rule_text"),
        ({"text": "a\0b"}, "/rule_text"),
        ({"text": "\ud800"}, "/rule_text"),
        ([], ""),
    ],
)
def test_draft_of_the_wrong_shape_is_refused_with_its_place(world, said, pointer):
    change = world.draft().changes.get()
    with pytest.raises(TraceError) as caught:
        drafts.change_save(change=change, expected=1, actor=world["erin"], content=said)
    assert (caught.value.code, caught.value.where) == ("bad_rule", pointer)


def test_unfinished_draft_is_kept_as_typed(world):
    change = world.draft().changes.get()
    half = {"target": " A/N", "text": "When "}
    kept = drafts.change_save(change=change, expected=1, actor=world["erin"], content=half)
    assert kept.content == {"target": " A/N", "confusables": [], "text": "When ", "clauses": [], "tests": []}


def test_rule_is_changed_once_in_a_request_and_base_must_be_its_own(world):
    request = world.draft()
    with pytest.raises(TraceError) as caught:
        drafts.change_add(request=request, actor=world["erin"], rule=world.rule)
    assert caught.value.code == "conflict"
    other = make_rule(world.rule.published.target, code="OTHER", text=TEXT)
    with pytest.raises(TraceError) as caught:
        drafts.change_add(request=request, actor=world["erin"], rule=other, base=world.rule.published)
    assert caught.value.code == "not_found"


def test_draft_begins_from_the_newest_version(world):
    newest = rule_save(**content(TEXT + " Imported."), rule=world.rule).version
    change = drafts.change_draft(actor=world["erin"], rule=world.rule)
    assert change.base == newest and change.content == draft_of(version_contents([newest])[newest.pk])
    assert drafts.change_draft(actor=world["erin"], rule=world.rule) == change
    assert drafts.change_draft(actor=world["otto"], rule=world.rule) != change


def test_applying_reads_the_catalog_and_the_rules_once(world):
    request = world.approved(world.new_rule("ONCE"))
    with CaptureQueriesContext(connection) as ran:
        changes_services.request_apply(request=request, actor=world["rui"])
    whole = 'SELECT "catalog_tool"."name" AS "name", "catalog_tool"."id" AS "pk"'
    assert len([query for query in ran.captured_queries if query["sql"].startswith(whole)]) == 1
    assert len(ran.captured_queries) <= 50
