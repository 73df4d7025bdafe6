"""Who may do what with a change request, and when: the one place that pages, API and services ask."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from rules.models import Approval, ChangeRequest
from trace_site.access import ADMIN, EXPERT, ROLE_LABELS, roles_of
from trace_site.lib.errors import TraceError

State = ChangeRequest.State
WRITERS = frozenset({EXPERT, ADMIN})
BYPASS = "rules.bypass_review"
OPEN = frozenset({State.DRAFT, State.IN_REVIEW, State.APPROVED, State.SCHEDULED})
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
class Word:
    """What a reviewer said. `why` is the reason why an approval does not count (any more)."""

    approval: Approval
    why: str

    @property
    def counts(self) -> bool:
        return not self.why and self.approval.verdict == Approval.Verdict.APPROVE


def words_on(request: ChangeRequest) -> list[Word]:
    """Every approval and rejection, oldest first; two queries."""
    rows = request.approvals.select_related("reviewer").prefetch_related("reviewer__groups")
    return [Word(row, _why_not(row, request)) for row in rows]


def _why_not(row: Approval, request: ChangeRequest) -> str:
    who = row.reviewer
    if row.revision != request.revision:
        return f"it was said of revision {row.revision}; now it is revision {request.revision}"
    if not who.is_active:
        return f"the account of {who.username} is no longer active"
    if not who.is_superuser and not {group.name for group in who.groups.all()} & WRITERS:
        return f"{who.username} no longer has a role that approves"
    return ""


def approvals_missing(words: Sequence[Word]) -> int:
    return max(0, int(settings.CHANGE_APPROVALS) - sum(word.counts for word in words))


def refusal(verb: str, request: ChangeRequest, actor: Any, words: Sequence[Word]) -> TraceError | None:
    """Why `actor` may not do this now, as the error to raise; None when they may."""
    states, done = VERBS[verb]
    if not actor.is_active or not roles_of(actor) & WRITERS:
        return _not_allowed(
            f"Only the role {ROLE_LABELS[EXPERT]} or {ROLE_LABELS[ADMIN]} may do this.",
            "Ask an admin for the role.",
        )
    if State(request.state) not in states:
        return _bad_state(f"The request is {request.get_state_display().lower()}, so it cannot be {done}.")
    check = CHECKS.get(verb)
    return check(request, actor, words) if check else None


Check = Callable[[ChangeRequest, Any, Sequence[Word]], TraceError | None]


def _judge(request: ChangeRequest, actor: Any, words: Sequence[Word]) -> TraceError | None:
    if request.author_id == actor.pk:
        return _not_allowed(
            "Nobody approves or rejects their own request.",
            "Ask another domain expert or an admin; cancel it if it is not wanted any more.",
        )
    if actor.pk in request.editor_ids:
        return _not_allowed(
            "You wrote in this request, so somebody else must approve or reject it.",
            "Ask a domain expert or an admin who did not edit it.",
        )
    return None


def _approve(request: ChangeRequest, actor: Any, words: Sequence[Word]) -> TraceError | None:
    if error := _judge(request, actor, words):
        return error
    spoken = [word for word in words if word.approval.reviewer_id == actor.pk]
    if any(word.approval.revision == request.revision for word in spoken):
        return _bad_state(f"You have already approved revision {request.revision}.")
    if request.state != State.IN_REVIEW and not approvals_missing(words):
        return _bad_state("The request already has the approvals it needs.")
    return None


def _approved(request: ChangeRequest, actor: Any, words: Sequence[Word]) -> TraceError | None:
    missing = approvals_missing(words)
    if not missing:
        return None
    lost = [word.why for word in words if word.why and word.approval.revision == request.revision]
    return _bad_state(
        f"Revision {request.revision} still needs {missing} approval{'s' if missing > 1 else ''}"
        f"{': ' + '; '.join(lost) if lost else ''}.",
        "Ask a domain expert or an admin who did not edit it.",
    )


def _bypass(request: ChangeRequest, actor: Any, words: Sequence[Word]) -> TraceError | None:
    if not actor.has_perm(BYPASS):
        return _not_allowed(
            "Applying without approval needs the permission to bypass the review.",
            "Admins have it; ask one, or have the request approved.",
        )
    if not approvals_missing(words):
        return _bad_state("The request has the approvals it needs; apply it the ordinary way.")
    return None


def _own(request: ChangeRequest, actor: Any, words: Sequence[Word]) -> TraceError | None:
    if actor.pk in {request.author_id, *request.editor_ids}:
        return None
    return _not_allowed("Only the people who wrote it submit a request.", "Comment, or edit it first.")


def _own_or_admin(request: ChangeRequest, actor: Any, words: Sequence[Word]) -> TraceError | None:
    if ADMIN in roles_of(actor) or _own(request, actor, words) is None:
        return None
    return _not_allowed(
        "Only the people who wrote the request, or an admin, may do this.", "Reject it, or comment."
    )


CHECKS: dict[str, Check] = {
    "submit": _own,
    "approve": _approve,
    "reject": _judge,
    "schedule": _approved,
    "apply": _approved,
    "bypass": _bypass,
    "cancel": _own_or_admin,
    "reopen": _own_or_admin,
}


def _not_allowed(message: str, hint: str) -> TraceError:
    return TraceError(message, code="not_allowed", hint=hint)


def _bad_state(message: str, hint: str = "") -> TraceError:
    return TraceError(message, code="bad_state", hint=hint)
