"""One line of the audit list: a named event or a row change, in words and with a link to what it is about."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from trace_site.audit import AuditChange, AuditEntry
from trace_site.audit_names import NAMES, model_names, names_of_rows, page_url, words_of
from trace_site.audit_veils import Veil, place_of, veiled

LATER = "until nobody is left to judge it blind"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Line:
    """One event or one row change."""

    kind: str  # "event" or "change"
    id: int
    at: datetime
    actor: str
    source: str
    action: str
    object_type: str
    object_id: str
    label: str
    url: str
    detail: dict[str, Any]
    tx: int | None
    before: dict[str, Any] | None = field(default=None, repr=False)
    after: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        """Where the next page begins."""
        return f"{(self.at - EPOCH) // timedelta(microseconds=1)}-{self.kind}-{self.id}"

    @property
    def object_words(self) -> str:
        return words_of(self.object_type)

    @property
    def facts(self) -> list[tuple[str, Any]]:
        """The detail for a template, which takes `detail.items` for the entry of that name where there is one."""
        return list(self.detail.items())

    @property
    def changed(self) -> list[str]:
        return sorted({**(self.before or {}), **(self.after or {})}) if self.action == "UPDATE" else []


def lines_of(rows: Iterable[AuditEntry | AuditChange]) -> list[Line]:
    """Two queries: the names of the people, and of the rows that changed; one more where a veil has rows."""
    rows = list(rows)
    veils = veiled(rows)
    people = dict(User.objects.filter(pk__in={row.actor_id for row in rows}).values_list("pk", "username"))
    objects = names_of_rows((row.table_name, row.row_id) for row in rows if isinstance(row, AuditChange))
    return [
        _event_line(row, people, veils.get(place_of(row)))
        if isinstance(row, AuditEntry)
        else _change_line(
            row,
            people,
            objects.get((row.table_name, row.row_id), ""),
            place_of(row) in veils,
        )
        for row in rows
    ]


def _event_line(entry: AuditEntry, people: Mapping[int, str], veil: Veil | None) -> Line:
    return Line(
        kind="event",
        id=entry.pk,
        at=entry.at,
        actor=people.get(entry.actor_id or 0, ""),
        source="",
        action=veil.told_as if veil else entry.action,
        object_type=entry.object_type,
        object_id=entry.object_id,
        label=entry.object_label,
        url=page_url(entry.object_type, entry.object_id),
        detail={"hidden": LATER} if veil else entry.detail,
        tx=entry.txid,
    )


def _change_line(row: AuditChange, people: Mapping[int, str], name: str, hidden: bool) -> Line:
    known = {**(row.before or {}), **(row.after or {})}
    model = model_names().get(row.table_name, row.table_name)
    gone = f"user {row.actor_id}, deleted since" if row.actor_id else ""
    told = name or next((str(known[column]) for column in NAMES if known.get(column)), "")
    return Line(
        kind="change",
        id=row.pk,
        at=row.at,
        actor=people.get(row.actor_id or 0, gone),
        source=row.source or f"SQL as {row.db_user}",
        action=row.operation,
        object_type=model,
        object_id=row.row_id,
        label="" if hidden else told[:120],
        url=page_url(model, row.row_id) or page_url("rule", str(known.get("rule_id") or "")),
        detail={},
        tx=row.txid,
        before=None if hidden else row.before,
        after=None if hidden else row.after,
    )
