"""Change control: the verbs of a change request. Publishing a rule goes through here and nowhere else.

draft -> in_review -> approved -> scheduled -> applied | rejected | cancelled; rejected and cancelled ones may be
reopened. Every verb holds the request's row, may name the revision that the person saw, and leaves an audit entry.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from catalog.services import catalog_lock
from rules.changes.permits import approvals_missing, audit_request, fitting, held, words_on
from rules.changes.proposals import change_label, changes_of, check_clear, check_complete, proposals_of
from rules.models import Approval, ChangeComment, ChangeRequest, Rule, RuleChange, State
from rules.services import publish_checked, rule_withdraw, versions_save
from trace_site.database import database_now
from trace_site.impact import impact_of
from trace_site.lib.errors import TraceError
from trace_site.webhooks.services import emit

log = logging.getLogger(__name__)
LONGEST_SAID = 5000


@transaction.atomic
def request_submit(*, request: ChangeRequest, actor: Any, revision: int) -> ChangeRequest:
    """Ask for review. Every change must be complete, free of errors and of conflicts; an empty title is made."""
    request = held(request.pk, "submit", actor, revision)
    changes = changes_of(request)
    proposals = proposals_of(changes)
    check_complete(changes, proposals)
    check_clear(request, changes, proposals)
    request.title = request.title or title_of(changes)
    request.reason = ""
    _move(request, State.IN_REVIEW, "submitted", actor, changes=len(changes))
    tell("submitted", request, actor)
    return request


@transaction.atomic
def request_approve(*, request: ChangeRequest, actor: Any, revision: int, comment: str = "") -> ChangeRequest:
    """Say yes to exactly this revision; with enough of them the request is approved."""
    comment = said(comment, what="comment")
    request = held(request.pk, "approve", actor, revision)
    Approval.objects.create(
        request=request, revision=revision, reviewer=actor, verdict=Approval.Verdict.APPROVE, comment=comment
    )
    enough = not approvals_missing(words_on(request))
    becomes = enough and request.state == State.IN_REVIEW
    state = State.APPROVED if becomes else State(request.state)
    _move(request, state, "approved", actor, comment=comment)
    if becomes:
        tell("approved", request, actor)
    return request


@transaction.atomic
def request_reject(*, request: ChangeRequest, actor: Any, revision: int, reason: str) -> ChangeRequest:
    """Say no, and why; the author finds the reason on the list and can reopen the request."""
    reason = said(reason, what="reason", needed=True)
    request = held(request.pk, "reject", actor, revision)
    Approval.objects.get_or_create(  # who approved this revision and thinks again has spoken already
        request=request,
        revision=revision,
        reviewer=actor,
        defaults={"verdict": Approval.Verdict.REJECT, "comment": reason},
    )
    request.reason, request.apply_at, request.blocked = reason, None, ""
    _move(request, State.REJECTED, "rejected", actor, reason=reason)
    tell("rejected", request, actor, reason=reason)
    return request


@transaction.atomic
def request_schedule(
    *, request: ChangeRequest, actor: Any, at: datetime, revision: int | None = None
) -> ChangeRequest:
    """Have an approved request applied at a time to come; a scheduled one gets the new time."""
    request = held(request.pk, "schedule", actor, revision)
    if timezone.is_naive(at) or at <= database_now():
        raise TraceError(
            f"{at:%-d %b %Y, %H:%M} has passed, or has no time zone.",
            code="bad_time",
            where="at",
            hint="Choose a time in the future, in UTC.",
        )
    changes = changes_of(request)
    check_clear(request, changes, proposals_of(changes))
    request.apply_at, request.blocked = at, ""
    return _move(request, State.SCHEDULED, "scheduled", actor, at=at.isoformat())


@transaction.atomic
def request_unschedule(*, request: ChangeRequest, actor: Any, revision: int | None = None) -> ChangeRequest:
    """Back to approved: it is applied when somebody says so."""
    request = held(request.pk, "unschedule", actor, revision)
    request.apply_at, request.blocked = None, ""
    return _move(request, State.APPROVED, "unscheduled", actor)


@transaction.atomic
def request_cancel(
    *, request: ChangeRequest, actor: Any, reason: str = "", revision: int | None = None
) -> ChangeRequest:
    reason = said(reason, what="reason")
    request = held(request.pk, "cancel", actor, revision)
    request.reason, request.apply_at, request.blocked = reason, None, ""
    return _move(request, State.CANCELLED, "cancelled", actor, reason=reason)


@transaction.atomic
def request_reopen(*, request: ChangeRequest, actor: Any, revision: int | None = None) -> ChangeRequest:
    """A rejected or cancelled request becomes a draft again, as a new revision: old words do not count."""
    request = held(request.pk, "reopen", actor, revision)
    request.revision += 1
    request.title = request.title or title_of(changes_of(request))
    return _move(request, State.DRAFT, "reopened", actor, was=request.reason)


@transaction.atomic
def request_apply(*, request: ChangeRequest, actor: Any, revision: int | None = None) -> ChangeRequest:
    catalog_lock()  # first, as in every writer of the catalog: a target may not be retired in between
    request = held(request.pk, "apply", actor, revision)
    return _apply(request, actor)


@transaction.atomic
def request_bypass(
    *, request: ChangeRequest, actor: Any, reason: str, revision: int | None = None
) -> ChangeRequest:
    """Apply without the approvals, in an emergency; conflicts and errors still stop it."""
    reason = said(reason, what="reason", needed=True)
    catalog_lock()
    request = held(request.pk, "bypass", actor, revision)
    missing = approvals_missing(words_on(request))
    request.bypassed, request.reason = True, reason
    audit_request("bypassed", request, actor, before=request.state, reason=reason, approvals_missing=missing)
    return _apply(request, actor)


@transaction.atomic
def request_comment(*, request: ChangeRequest, actor: Any, text: str) -> ChangeComment:
    text = said(text, what="comment", needed=True)
    request = held(request.pk, "comment", actor)
    comment = ChangeComment.objects.create(request=request, author=actor, text=text)
    audit_request("commented", request, actor, before=request.state, text=text)
    return comment


def apply_due() -> int:
    """Apply the scheduled requests whose time has come; returns how many.

    Safe in several processes at once: each takes a request that nobody holds. What cannot be applied is marked
    `blocked` with the reason and left for people.
    """
    due = ChangeRequest.objects.filter(state=State.SCHEDULED, apply_at__lte=Now(), blocked="")
    applied = 0
    for pk in due.order_by("apply_at", "pk").values_list("pk", flat=True):
        try:
            applied += _apply_one(pk)
        except DatabaseError:
            log.exception("change request %s could not be applied; the next round tries again", pk)
    return applied


@transaction.atomic
def _apply_one(pk: int) -> bool:
    catalog_lock()
    rows = ChangeRequest.objects.select_for_update(skip_locked=True, of=("self",))
    due = rows.filter(pk=pk, state=State.SCHEDULED, apply_at__lte=Now(), blocked="").first()
    if due is None:
        return False
    try:
        with transaction.atomic():
            if missing := approvals_missing(words_on(due)):
                raise TraceError(
                    f"It lacks {missing} of its approvals: some no longer count.", code="bad_state"
                )
            _apply(due, None)
        return True
    except TraceError as error:
        due.refresh_from_db()
        due.blocked = str(error)
        _move(due, State.SCHEDULED, "blocked", None, why=due.blocked)
        tell("blocked", due, None, why=due.blocked)
        return False


def _apply(request: ChangeRequest, actor: Any) -> ChangeRequest:
    """Check everything again under locks, then make and publish what the request proposes, all of it or nothing.

    The caller holds the catalog and the request. Raises TraceError `conflict`, `findings`, `bad_rule` or `bad_state`.
    """
    edited = [change.rule_id for change in request.changes.all() if change.rule_id]
    impact = [line.as_dict() for line in impact_of("rules", edited)]  # told before it is so
    list(Rule.objects.select_for_update(no_key=True).filter(pk__in=edited).order_by("pk"))
    changes = changes_of(request)
    proposals = proposals_of(changes)
    check_clear(request, changes, proposals)
    check_complete(changes, proposals)
    new = {
        one.change.pk: Rule(domain_id=one.domain, code=one.code) for one in proposals if not one.change.rule
    }
    try:
        with transaction.atomic():
            Rule.objects.bulk_create(new.values(), batch_size=500)
    except IntegrityError as error:
        raise TraceError(
            "A rule with one of the new codes was created meanwhile.",
            code="duplicate_code",
            where="/code",
            hint="Look at the conflicts of the request, and choose another code.",
        ) from error
    detail = {"request": request.pk}
    drafts = []
    for one in proposals:
        note = one.change.note or f"change request {request.pk}"
        drafts.append((one.change.rule or new[one.change.pk], one.content, note, one.change.edited_by))
    versions = versions_save(drafts, detail)
    for one, version in zip(proposals, versions, strict=True):
        one.change.version = version
    RuleChange.objects.bulk_update([one.change for one in proposals], ["version"], batch_size=500)
    publish_checked(versions, actor, detail)
    for change in changes:
        if change.rule and change.action == RuleChange.Action.WITHDRAW:
            rule_withdraw(rule=change.rule, actor=actor, detail=detail)
    request.applied_at, request.applied_by, request.blocked = database_now(), actor, ""
    made = [str(version) for version in versions]
    _move(request, State.APPLIED, "applied", actor, published=made, impact=impact)
    tell("applied", request, actor, bypassed=request.bypassed, published=made)
    return request


def _move(
    request: ChangeRequest, state: ChangeRequest.State, action: str, actor: Any, **detail: Any
) -> ChangeRequest:
    before, request.state = request.state, state
    request.save()
    audit_request(action, request, actor, before=before, **detail)
    return request


def title_of(changes: Sequence[RuleChange]) -> str:
    withdrawn = RuleChange.Action.WITHDRAW
    title = ", ".join(
        f"{'Withdraw ' if change.action == withdrawn else ''}{change_label(change)}" for change in changes
    )
    return title if len(title) <= 200 else f"{title[:199]}…"


def tell(event: str, request: ChangeRequest, actor: Any, **facts: Any) -> None:
    payload = {
        "request": request.pk,
        "title": request.title,
        "state": request.state,
        "revision": request.revision,
        "author": request.author.username,
        "by": actor.username if actor else None,
    }
    emit(f"request.{event}", payload | facts)


def said(text: str, *, what: str, needed: bool = False) -> str:
    """A reason or comment, trimmed. Raises TraceError `reason_missing`, or `bad_text` when it cannot be kept."""
    text = text.strip()
    if needed and not text:
        raise TraceError(f"The {what} is missing.", code="reason_missing", hint="One sentence is enough.")
    return fitting(what, text, LONGEST_SAID, code="bad_text")
