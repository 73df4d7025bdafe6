"""What happened to a change request: the audit entries and the comments in one list."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rules.models import ChangeRequest
from trace_site.audit import AuditEntry

SHOWN_ENTRIES = 200


@dataclass(frozen=True, slots=True)
class Happened:
    """One line of the timeline."""

    at: datetime
    who: str
    action: str
    text: str
    detail: dict[str, Any]


def timeline(request: ChangeRequest) -> list[Happened]:
    """The audit entries and the comments, newest first."""
    entries = AuditEntry.objects.filter(object_type="changerequest", object_id=str(request.pk))
    rows = entries.exclude(action="request.commented").select_related("actor").order_by("-id")
    happened = [_happened(entry) for entry in rows[:SHOWN_ENTRIES]]
    comments = request.comments.select_related("author").order_by("-id")[:SHOWN_ENTRIES]
    happened += [Happened(row.at, row.author.username, "commented", row.text, {}) for row in comments]
    return sorted(happened, key=lambda row: row.at, reverse=True)


def _happened(entry: AuditEntry) -> Happened:
    who = entry.actor.username if entry.actor else "the schedule"
    detail = dict(entry.detail)
    if "at" in detail:
        detail["at"] = datetime.fromisoformat(detail["at"])
    action = entry.action.removeprefix("request.")
    said = detail.get("reason") or detail.get("comment") or detail.get("why") or detail.get("note") or ""
    return Happened(entry.at, who, action, str(said), detail)
