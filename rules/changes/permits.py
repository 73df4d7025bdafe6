"""Who may do what with a change request, and when: the one place that pages, API and services ask."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from rules.models import OPEN, Approval, ChangeRequest, State
from trace_site.access import ADMIN, EXPERT, ROLE_LABELS, WRITERS, roles_of
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.lib.files import storable

BYPASS = "rules.bypass_review"
SUBMITTED = OPEN - {State.DRAFT}
ENDED = frozenset({State.REJECTED, State.CANCELLED})

# verb -> (states it is possible in, its past participle)
VERBS: dict[str, tuple[frozenset[State], str]] = {
    "edit": (OPEN, "edited"),
    "submit": (frozenset({State.DRAFT}), "submitted"),
    "approve": (SUBMITTED, "approved"),
    "reject": (SUBMITTED, "rejected"),
    "schedule": (frozenset({State.APPROVED, State.SCHEDULED}), "scheduled"),
    "unschedule": (frozenset({State.SCHEDULED}), "taken off the schedule"),
    "apply": (frozenset({State.APPROVED, State.SCHEDULED}), "applied"),
    "bypass": (SUBMITTED, "applied without approval"),
    "cancel": (OPEN, "cancelled"),
    "reopen": (ENDED, "reopened"),
    "comment": (frozenset(State), "commented on"),
}


@dataclass(frozen=True, slots=True)
class ReviewVerdict:
    """What a reviewer said. `why` is the reason why an approval does not count (any more)."""

    approval: Approval
    why: str

    @property
    def counts(self) -> bool:
        return not self.why and self.approval.verdict == Approval.Verdict.APPROVE


def words_on(request: ChangeRequest) -> list[ReviewVerdict]:
    """Every approval and rejection, oldest first; two queries."""
    words = []
    for row in request.approvals.select_related("reviewer").prefetch_related("reviewer__groups"):
        who, why = row.reviewer, ""
        if row.revision != request.revision:
            why = (
                f"it was given for revision {row.revision}; the request is at revision {request.revision} now"
            )
        elif not who.is_active:
            why = f"the account of {who.username} is no longer active"
        elif not who.is_superuser and {group.name for group in who.groups.all()}.isdisjoint(WRITERS):
            why = f"{who.username} no longer has a role that approves"
        words.append(ReviewVerdict(row, why))
    return words


def approvals_missing(words: Sequence[ReviewVerdict]) -> int:
    return max(0, int(settings.CHANGE_APPROVALS) - sum(word.counts for word in words))


def not_a_writer(actor: Any) -> TraceError | None:
    if actor.is_active and not roles_of(actor).isdisjoint(WRITERS):
        return None
    sentence = f"Only the role {ROLE_LABELS[EXPERT]} or {ROLE_LABELS[ADMIN]} may do this."
    return TraceError(sentence, code="not_allowed", hint="Ask an admin for the role.")


def refusal(
    verb: str, request: ChangeRequest, actor: Any, words: Sequence[ReviewVerdict]
) -> TraceError | None:
    """Why `actor` may not do this now, as the error to raise; None when they may."""
    states, done = VERBS[verb]
    if error := not_a_writer(actor):
        return error
    code, hint, missing = "bad_state", "", approvals_missing(words)
    wrote = actor.pk in {request.author_id, *request.editor_ids}
    said_of = {word.approval.revision for word in words if word.approval.reviewer_id == actor.pk}
    if State(request.state) not in states:
        sentence = f"The request is {request.get_state_display().lower()}, so it cannot be {done}."
    elif verb in ("approve", "reject") and wrote:
        code = "not_allowed"
        if actor.pk == request.author_id:
            sentence = "Nobody approves or rejects their own request."
            hint = "Ask another domain expert or an admin; cancel it if it is not wanted any more."
        else:
            sentence = "You wrote in this request, so somebody else must approve or reject it."
            hint = "Ask a domain expert or an admin who did not edit it. A token writes for whoever made it."
    elif verb == "approve" and request.revision in said_of:
        sentence = f"You have already approved revision {request.revision}."
    elif verb == "approve" and request.state != State.IN_REVIEW and not missing:
        sentence = "The request already has the approvals it needs."
    elif verb in ("schedule", "apply") and missing:
        lost = [word.why for word in words if word.why and word.approval.revision == request.revision]
        sentence = (
            f"Revision {request.revision} still needs {missing} approval{'s' if missing > 1 else ''}"
            f"{': ' + '; '.join(lost) if lost else ''}."
        )
        hint = "Ask a domain expert or an admin who did not edit it."
    elif verb == "bypass" and not actor.has_perm(BYPASS):
        code, sentence = "not_allowed", "Applying without approval needs the permission to bypass the review."
        hint = "Admins have it; ask one, or have the request approved."
    elif verb == "bypass" and not missing:
        sentence = "The request has the approvals it needs; apply it the ordinary way."
    elif verb == "submit" and not wrote:
        code, sentence = "not_allowed", "Only the people who wrote it submit a request."
        hint = "Comment, or edit it first."
    elif verb in ("cancel", "reopen") and not wrote and ADMIN not in roles_of(actor):
        code, sentence = "not_allowed", "Only the people who wrote the request, or an admin, may do this."
        hint = "Reject it, or comment."
    else:
        return None
    return TraceError(sentence, code=code, hint=hint)


def held(pk: int, verb: str, actor: Any, revision: int | None = None) -> ChangeRequest:
    """The row as it is now, held until the transaction ends, if the actor may do this with it.

    Raises TraceError `not_found`, `stale_revision` when it is not the revision that the caller saw, or the refusal.
    """
    rows = ChangeRequest.objects.select_for_update(of=("self",)).select_related("author")
    row = rows.filter(pk=pk).first()
    if row is None:
        raise TraceError(f"There is no change request {pk}.", code="not_found")
    if revision is not None and row.revision != revision:
        raise TraceError(
            f"The request was edited since you opened it: you saw revision {revision}, now it is {row.revision}.",
            code="stale_revision",
            hint="Read what changed, then decide again.",
            extra={"revision": row.revision},
        )
    if error := refusal(verb, row, actor, words_on(row)):
        raise error
    return row


def audit_request(
    action: str, request: ChangeRequest, actor: Any, *, before: str = "", **detail: Any
) -> None:
    """One entry `request.<action>` with the revision and the states before and after."""
    facts = {"revision": request.revision, "before": before or None, "after": request.state, **detail}
    audit_models.record(actor=actor, action=f"request.{action}", obj=request, detail=facts)


def fitting(name: str, text: str, longest: int, *, code: str, where: str = "") -> str:
    """The text, refused when it is too long or cannot be stored."""
    if len(text) > longest:
        sentence = f"The {name} has {len(text):,} characters; at most {longest:,} fit."
        raise TraceError(sentence, code=code, where=where, hint="Shorten it.")
    if not storable(text):
        raise TraceError(f"The {name} holds a NUL or half a character.", code=code, where=where)
    return text
