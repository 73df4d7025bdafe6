"""What every verb on a change request begins and ends with: the lock, the permit, the audit entry."""

from collections.abc import Mapping
from typing import Any

from rules.core.draft import draft_problems, fill_draft
from rules.models import ChangeRequest
from rules.selectors_permits import WRITERS, refusal, words_on
from trace_site import audit
from trace_site.access import ADMIN, EXPERT, ROLE_LABELS, roles_of
from trace_site.lib.errors import TraceError
from trace_site.lib.files import storable
from trace_site.webhooks import emit

LONGEST = 5000
LENGTHS = {"title": 200, "description": 5000, "code": 80, "domain": 60, "note": 300}


def locked(request: ChangeRequest | int, revision: int | None = None) -> ChangeRequest:
    """The row as it is now, held until the transaction ends.

    Raises TraceError `not_found`, or `stale_revision` when it is not the revision that the caller saw.
    """
    pk = request if isinstance(request, int) else request.pk
    found = ChangeRequest.objects.select_for_update(of=("self",)).select_related("author").filter(pk=pk)
    row = found.first()
    if row is None:
        raise TraceError(f"There is no change request {pk}.", code="not_found")
    if revision is not None and row.revision != revision:
        raise TraceError(
            f"The request was edited since you opened it: you saw revision {revision}, now it is {row.revision}.",
            code="stale_revision",
            hint="Read what changed, then decide again.",
            extra={"revision": row.revision},
        )
    return row


def possible(verb: str, request: ChangeRequest, actor: Any) -> None:
    """Raise what `refusal` says, if anything. The request is locked by the caller."""
    if error := refusal(verb, request, actor, words_on(request)):
        raise error


def writer(actor: Any) -> None:
    """Raise TraceError `not_allowed` unless the actor may write rules."""
    if not actor.is_active or not roles_of(actor) & WRITERS:
        raise TraceError(
            f"Only the role {ROLE_LABELS[EXPERT]} or {ROLE_LABELS[ADMIN]} may do this.",
            code="not_allowed",
            hint="Ask an admin for the role.",
        )


def audit_request(
    action: str, request: ChangeRequest, actor: Any, *, before: str = "", **detail: Any
) -> None:
    """One entry `request.<action>` with the revision and the states before and after."""
    states = {"before": before or None, "after": request.state}
    audit.record(
        actor=actor,
        action=f"request.{action}",
        obj=request,
        detail={"revision": request.revision, **states, **detail},
    )


def tell(event: str, request: ChangeRequest, actor: Any, **facts: Any) -> None:
    """Tell the webhooks `request.<event>`."""
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
        raise TraceError(f"The {what} is missing.", code="reason_missing", hint="Say it in one sentence.")
    if len(text) > LONGEST:
        raise TraceError(
            f"The {what} has {len(text):,} characters; at most {LONGEST:,} fit.",
            code="bad_text",
            hint="Shorten it, or link to the long version.",
        )
    if not storable(text):
        raise TraceError(f"The {what} holds a NUL or half a character.", code="bad_text")
    return text


def checked_draft(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with every field. Raises TraceError `bad_rule` for wrong types and sizes."""
    problems = draft_problems(content)
    if problems:
        pointer, sentence = problems[0]
        listed = [{"pointer": place, "message": text} for place, text in problems]
        raise TraceError(sentence, code="bad_rule", where=pointer, extra={"problems": listed})
    return fill_draft(content)


def short_texts(**given: str) -> dict[str, str]:
    """The short fields, refused when too long for their column."""
    for name, text in given.items():
        if len(text) > LENGTHS[name]:
            raise TraceError(
                f"The {name} has {len(text):,} characters; at most {LENGTHS[name]:,} fit.",
                code="bad_rule",
                where=f"/{name}",
                hint="Shorten it.",
            )
        if not storable(text):
            raise TraceError(
                f"The {name} holds a NUL or half a character.", code="bad_rule", where=f"/{name}"
            )
    return given
