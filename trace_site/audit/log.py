"""Reads of the audit pages: named events and row changes as one list, newest first.

A row change whose transaction also left a named event is told by that event and is not listed again, unless one asks
for a table, an object, an operation or a transaction: then every row change counts.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, models
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from trace_site.audit.lines import EPOCH, Line, lines_of, model_names, tables_of, without_veiled, words_of
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.lib.errors import TraceError
from trace_site.paging import SIZE, Page

OPERATIONS = {
    "INSERT": "row added",
    "UPDATE": "row changed",
    "DELETE": "row removed",
    "TRUNCATE": "table emptied",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a page or the API asked for; empty is everything."""

    actor: str = ""
    action: str = ""
    object_type: str = ""
    object_id: str = ""
    source: str = ""
    since: date | None = None
    until: date | None = None
    tx: int | None = None

    @property
    def rows_too(self) -> bool:
        return bool(self.object_type or self.object_id or self.source or self.tx or self.action in OPERATIONS)


def wanted_from(given: Mapping[str, str]) -> Wanted:
    """The filters of an address. Raises TraceError `bad_input` for a date or number that is none."""
    values: dict[str, Any] = {item.name: given.get(item.name, "").strip() for item in fields(Wanted)}
    for name in ("since", "until"):
        values[name] = _day(values[name], name) if values[name] else None
    if values["tx"] and not (values["tx"].isascii() and values["tx"].isdecimal() and len(values["tx"]) < 19):
        raise _wrong("tx", values["tx"], "the number of a transaction")
    values["tx"] = int(values["tx"]) if values["tx"] else None
    return Wanted(**values)


def page_of_lines(wanted: Wanted, after: str = "", *, size: int = SIZE) -> Page:
    """One page of lines."""
    entries, changes = _entries(wanted), _changes(wanted)
    if after:
        at, kind, pk = _place(after)
        older, same = Q(at__lt=at), Q(at=at, pk__lt=pk)
        entries = entries.filter(at__lte=at).filter(older | same if kind == "event" else older)
        changes = changes.filter(at__lte=at).filter(older | (Q(at=at) if kind == "event" else same))
    newest = ("-at", "-id")
    found: list[AuditEntry | AuditChange] = list(entries.order_by(*newest)[: size + 1])
    if (
        not wanted.rows_too
    ):  # what _changes says already, cheaply: an import's 50,000 rows are passed over by hash
        changes = changes.exclude(txid__in=[row.txid for row in found if row.txid])
    found += changes.order_by(*newest)[: size + 1]
    found.sort(key=lambda row: (row.at, isinstance(row, AuditEntry), row.pk), reverse=True)
    lines = lines_of(found[:size])
    return Page(lines, after, lines[-1].key if len(found) > size else None)


def all_lines(wanted: Wanted, *, most: int) -> Iterator[Line]:
    """Up to `most` lines, read page by page."""
    after, left = "", most
    while left > 0:
        page = page_of_lines(wanted, after, size=min(1000, left))
        yield from page.rows
        left -= len(page.rows)
        if page.next_key is None:
            return
        after = page.next_key


def changes_of(entry: AuditEntry) -> tuple[QuerySet[AuditChange], QuerySet[AuditChange]]:
    """The row changes of an event's transaction: those of its object, and the others."""
    joined = AuditChange.objects.filter(txid=entry.txid or 0).order_by("id")
    if entry.txid is None:
        return joined.none(), joined.none()
    own = Q(table_name__in=tables_of(entry.object_type), row_id=entry.object_id)
    return joined.filter(own), joined.exclude(own)


def _entries(wanted: Wanted) -> QuerySet[AuditEntry]:
    rows = AuditEntry.objects.all()
    if wanted.action in OPERATIONS or wanted.source:
        return rows.none()
    if wanted.actor:
        rows = rows.filter(actor__username=wanted.actor)
    exact = {"action": wanted.action, "object_type": wanted.object_type, "object_id": wanted.object_id}
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if wanted.tx:
        rows = rows.filter(txid=wanted.tx)
    return _between(without_veiled(rows, wanted.action), wanted)


def _changes(wanted: Wanted) -> QuerySet[AuditChange]:
    rows = AuditChange.objects.all()
    if wanted.action in OPERATIONS:
        rows = rows.filter(operation=wanted.action)
    elif wanted.action:
        return rows.none()
    if wanted.actor:
        rows = rows.filter(actor_id__in=User.objects.filter(username=wanted.actor).values("pk"))
    if wanted.object_type:
        rows = rows.filter(table_name__in=tables_of(wanted.object_type))
    if wanted.object_id:
        rows = rows.filter(row_id=wanted.object_id)
    if wanted.source:
        rows = rows.filter(source__startswith=wanted.source)
    if wanted.tx:
        rows = rows.filter(txid=wanted.tx)
    if not wanted.rows_too:
        rows = rows.filter(~Exists(AuditEntry.objects.filter(txid=OuterRef("txid"))))
    return _between(rows, wanted)


def _between(rows: QuerySet[Any], wanted: Wanted) -> QuerySet[Any]:
    if wanted.since:
        rows = rows.filter(at__gte=_midnight(wanted.since))
    if wanted.until:
        rows = rows.filter(at__lt=_midnight(wanted.until) + timedelta(days=1))
    return rows


def known_actions() -> list[str]:
    return _distinct(AuditEntry, "action")


def known_types() -> list[tuple[str, str]]:
    """[(type, its words)] of everything the two tables tell of."""
    tables = _distinct(AuditChange, "table_name")
    types = {*_distinct(AuditEntry, "object_type"), *(model_names().get(name, name) for name in tables)}
    return sorted(((name, words_of(name)) for name in types), key=lambda pair: pair[1])


def _distinct(model: type[models.Model], column: str) -> list[str]:
    """The values of an indexed column by hopping from one to the next: as fast on a million rows as on ten."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH RECURSIVE hop AS (SELECT min({column}) AS value FROM {table} UNION ALL "
            f"SELECT (SELECT min({column}) FROM {table} WHERE {column} > hop.value) FROM hop "
            "WHERE hop.value IS NOT NULL) SELECT value FROM hop WHERE value IS NOT NULL"
        )
        return [row[0] for row in cursor.fetchall()]


def _place(key: str) -> tuple[datetime, str, int]:
    found = re.fullmatch(r"([0-9]{1,17})-(event|change)-([0-9]{1,18})", key)
    if found is None:
        raise _wrong("after", key, "the key of a page; begin at the first page")
    return EPOCH + timedelta(microseconds=int(found[1])), found[2], int(found[3])


def _day(text: str, name: str) -> date:
    try:
        day = date.fromisoformat(text)
        if not 1970 <= day.year <= 2999:
            raise ValueError(text)
        return day
    except ValueError as error:
        raise _wrong(name, text, "a date such as 2026-11-21") from error


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=timezone.get_current_timezone())


def _wrong(where: str, value: str, expected: str) -> TraceError:
    return TraceError(f"{value[:40]!r} is not {expected}.", code="bad_input", where=where)
