"""What is kept of requests and for how long; a report of a wrong answer; one person's requests taken out."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from catalog.core.scrubbing.scrub import scrub
from catalog.models import Tool
from catalog.selectors import as_stored
from evaluation.core.asking import LONGEST_CALLER
from evaluation.models import RequestLogPolicy, RetrievalRequest
from evaluation.requests.log import (
    REPORTED,
    WRITE_SECONDS,
    caller_hash,
    is_logged,
    policy,
    requests,
)
from trace_site.audit import models as audit_models
from trace_site.database import database_now
from trace_site.lib.errors import TraceError
from trace_site.rest.tokens import service_token_of

MOST_DAYS = 3650
AT_ONCE = 5000  # rows of one delete


@transaction.atomic
def policy_change(*, share: float, keeps_texts: bool, days: int, actor: Any) -> RequestLogPolicy:
    """Raises TraceError `bad_input`."""
    if not 0 <= share <= 1:
        raise TraceError("is a share from 0 to 1.", code="bad_input", where="share")
    if not 1 <= days <= MOST_DAYS:
        raise TraceError(f"must lie in 1..{MOST_DAYS}.", code="bad_input", where="days")
    detail = {"share": share, "keeps_texts": keeps_texts, "days": days}
    kept = policy()
    kept.share, kept.keeps_texts, kept.days, kept.changed_by = share, keeps_texts, days, actor
    kept.save()
    audit_models.record(actor=actor, action="request_log.changed", obj=kept, detail=detail)
    return kept


def forget_old() -> int:
    """Delete what is older than the policy keeps, a part at a time; returns how many."""
    return _deleted(RetrievalRequest.objects.filter(at__lt=Now() - timedelta(days=policy().days)))


def _deleted(rows: QuerySet[RetrievalRequest]) -> int:
    gone = 0
    while found := list(rows.order_by("pk").values_list("pk", flat=True)[:AT_ONCE]):
        _, deleted = RetrievalRequest.objects.filter(pk__in=found).delete()
        gone += deleted.get(RetrievalRequest._meta.label, 0)
    return gone


def requests_erase(*, actor: Any, owner: str = "", caller: str = "") -> int:
    """Delete every request of a person: of the user whose tokens asked (`owner`, a username), or of those a call named
    (`caller`); of both, where both are given, what fits both. The audit keeps that it was done and how many, not of
    whom a caller's were. Raises TraceError `bad_input` where nobody is named, `no_such_user`.
    """
    if not owner and not caller:
        hint = "Name the caller, the user whose tokens asked, or both."
        raise TraceError("say whose requests.", code="bad_input", where="caller", hint=hint)
    user = User.objects.filter(username=owner).first() if owner else None
    if owner and user is None:
        raise TraceError(f"there is no user {owner}.", code="no_such_user", where="owner")
    if len(caller) > LONGEST_CALLER:  # no call could name it
        raise TraceError(f"a caller has 1 to {LONGEST_CALLER} characters.", code="bad_input", where="caller")
    time.sleep(2 * WRITE_SECONDS)  # until other processes have written what waits there
    requests.flush()
    chosen = {"owner": user, "caller": caller_hash(caller)}
    rows = RetrievalRequest.objects.filter(**{name: value for name, value in chosen.items() if value})
    with transaction.atomic():
        gone = _deleted(rows)
        by = "both" if user and caller else "owner" if user else "caller"
        about = user or policy()
        if about.pk is None:
            about.save()
        audit_models.record(
            actor=actor, action="requests.erased", obj=about, detail={"requests": gone, "by": by}
        )
    return gone


@transaction.atomic
def feedback_give(
    *,
    key: UUID,
    user: Any,
    token: Any,
    verdict: str,
    expected: Iterable[str] = (),
    comment: str = "",
    query: str = "",
    tools: Iterable[str] = (),
    caller: str = "",
) -> RetrievalRequest:
    """What a caller says of an answer to them; saying it again replaces it. A request that was not drawn for the log is
    kept now when its `query` comes along, with the `tools` that were answered and the `caller` it named. Of one that
    was drawn and is not there the caller must come along: it may have been erased, and can be erased again.

    Raises TraceError `not_found`, `unknown_tool`.
    """
    require_answered(key, user.pk, query=query, caller=caller)
    given = as_stored({"expected": list(dict.fromkeys(expected)), "tools": list(dict.fromkeys(tools))})
    require_known(given)
    keeps_texts = policy().keeps_texts
    service = service_token_of(token)
    asked = scrub(query) if query and keeps_texts else None
    # the log fills in the rest when it comes to it
    now = database_now()
    stub = {
        "at": now,
        "owner": user,
        "token": service,
        "token_name": token.name if service else "",
        "caller": caller_hash(caller),
        "via": RetrievalRequest.Via.REPORT,
        "query": asked.text if asked else "",
        "replaced": asked.kinds if asked else [],
        "tools": given["tools"],
    }
    row, _ = RetrievalRequest.objects.get_or_create(key=key, defaults=stub)
    row.verdict, row.expected = verdict, given["expected"]
    row.comment = scrub(comment).text if comment and keeps_texts else ""
    row.reported_at = now
    row.save(update_fields=REPORTED)
    return row


def require_answered(key: UUID, owner: int, *, query: str, caller: str) -> None:
    """Raises TraceError `not_found` of a request of somebody else, and where what the log lacks does not come along."""
    logged = is_logged(key, owner)
    if logged is None or not (logged or query):
        raise TraceError(
            f"there is no request {key} of yours" + ("." if logged is None else " in the log."),
            code="not_found",
            where="id",
            hint="Only a share is kept. Send `query` and `tools` along, and the report is kept all the same.",
        )
    if not logged or caller or requests.holds(key) or RetrievalRequest.objects.filter(key=key).exists():
        return
    raise TraceError(
        f"the log does not have request {key}: it was erased, or is not written yet.",
        code="not_found",
        where="id",
        hint="Send the `caller` that the request named, or ask again in a few seconds.",
    )


def require_known(given: Mapping[str, Sequence[str]]) -> None:
    """Raises TraceError `unknown_tool` for a name that the catalog never had."""
    names = {name for of in given.values() for name in of}
    unknown = names - set(Tool.objects.filter(name__in=names).values_list("name", flat=True))
    if unknown:
        where = next(field for field, of in given.items() if unknown & set(of))
        raise TraceError(f"there is no tool {min(unknown)}.", code="unknown_tool", where=where)
