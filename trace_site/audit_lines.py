"""One line of the audit list: a named event or a row change, in words and with a link to what it is about."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.urls import NoReverseMatch, reverse

from trace_site.audit import AuditChange, AuditEntry

# their values are for admins: names, e-mail addresses, addresses of other servers
PRIVATE = frozenset({"auth_user", "authtoken_token", "trace_site_webhook"})
PAGES = {
    "benchmark": "evaluation:benchmark",
    "catalogimport": "catalog:import_detail",
    "changerequest": "rules:request",
    "cluster": "cluster",
    "evaluation": "evaluation:detail",
    "job": "jobs:detail",
    "model": "training:model",
    "rule": "rules:detail",
    "run": "training:detail",
    "sample": "synthesis:sample",
    "snapshot": "synthesis:snapshot",
    "synthesisrun": "synthesis:detail",
    "tool": "catalog:detail",
    "webhook": "webhooks:detail",
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = ("name", "code", "title", "username", "slug", "filename", "url", "text", "query")


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
    def changed(self) -> list[str]:
        return sorted({**(self.before or {}), **(self.after or {})}) if self.action == "UPDATE" else []


def lines_of(rows: Iterable[AuditEntry | AuditChange], *, private: bool) -> list[Line]:
    """One query for the names of the people."""
    rows = list(rows)
    names = dict(User.objects.filter(pk__in={row.actor_id for row in rows}).values_list("pk", "username"))
    return [
        _event_line(row, names) if isinstance(row, AuditEntry) else _change_line(row, names, private)
        for row in rows
    ]


def _event_line(entry: AuditEntry, names: Mapping[int, str]) -> Line:
    return Line(
        kind="event",
        id=entry.pk,
        at=entry.at,
        actor=names.get(entry.actor_id or 0, ""),
        source="",
        action=entry.action,
        object_type=entry.object_type,
        object_id=entry.object_id,
        label=entry.object_label,
        url=page_url(entry.object_type, entry.object_id),
        detail=entry.detail,
        tx=entry.txid,
    )


def _change_line(row: AuditChange, names: Mapping[int, str], private: bool) -> Line:
    known = {**(row.before or {}), **(row.after or {})}
    hidden = row.table_name in PRIVATE and not private
    model = model_names().get(row.table_name, row.table_name)
    gone = f"user {row.actor_id}, deleted since" if row.actor_id else ""
    named = next((str(known[name]) for name in NAMES if known.get(name) and not hidden), "")
    return Line(
        kind="change",
        id=row.pk,
        at=row.at,
        actor=names.get(row.actor_id or 0, gone),
        source=row.source or f"SQL as {row.db_user}",
        action=row.operation,
        object_type=model,
        object_id=row.row_id,
        label=named[:120],
        url=page_url(model, row.row_id) or page_url("rule", str(known.get("rule_id") or "")),
        detail={},
        tx=row.txid,
        before=None if hidden else row.before,
        after=None if hidden else row.after,
    )


@cache
def model_names() -> dict[str, str]:
    """{table: what an AuditEntry calls its model}."""
    tables = {model._meta.db_table: model._meta.model_name or "" for model in apps.get_models()}
    through = {
        link._meta.db_table: link._meta.model_name or ""
        for model in apps.get_models()
        for relation in model._meta.many_to_many
        if (link := relation.remote_field.through)
    }
    return {**tables, **through}


def tables_of(object_type: str) -> list[str]:
    return [table for table, name in model_names().items() if name == object_type]


def page_url(object_type: str, object_id: str) -> str:
    """Where the object is shown; empty when it has no page."""
    if not object_id.isdecimal() or object_type not in PAGES:
        return ""
    try:
        return reverse(PAGES[object_type], args=[int(object_id)])
    except NoReverseMatch:
        return ""
