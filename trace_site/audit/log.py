"""The audit list: named events and row changes as one list, newest first, in words and with links.

A row change whose transaction also left a named event is told by that event and is not listed again, unless one asks
for a table, an object, an operation or a transaction: then every row change counts.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Annotated, Any, Literal

from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection, models
from django.db.models import BigIntegerField, CharField, Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Cast, Left
from django.urls import reverse
from django.utils import timezone
from django.utils.module_loading import import_string

from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.impact import declared_by_apps
from trace_site.lib.errors import TraceError
from trace_site.paging import SIZE, Page

# columns that name a row: the first that a table has, unless an app names another in `audit_names`
NAMES = ("name", "code", "title", "username", "slug", "filename", "url", "label", "query", "text")


def names_of_rows(rows: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """{(table, row id): name} of the rows that still exist and have one; one query, however many tables."""
    ids: dict[str, list[int]] = defaultdict(list)
    for table, row_id in rows:
        if row_id.isdecimal():
            ids[table].append(int(row_id))
    parts: list[QuerySet[Any, Any]] = []
    for table, keys in ids.items():
        model = _models().get(table)
        if model is None or not isinstance(model._meta.pk, models.AutoField):
            continue
        columns = {column.name for column in model._meta.fields}
        column = declared_by_apps("audit_names").get(table) or next(
            (name for name in NAMES if name in columns), None
        )
        if column is not None:
            named = model._default_manager.filter(pk__in=keys).order_by()
            called = Left(Cast(column, CharField()), 120)
            values = named.annotate(
                of_table=Value(table, output_field=CharField()), of_row=F("pk"), called=called
            )
            parts.append(values.values_list("of_table", "of_row", "called"))
    if not parts:
        return {}
    found = parts[0].union(*parts[1:], all=True) if len(parts) > 1 else parts[0]
    return {(table, str(key)): name for table, key, name in found if name}


@cache
def _models() -> dict[str, type[models.Model]]:
    known = apps.get_models(include_auto_created=True)
    return {model._meta.db_table: model for model in known if not model._meta.proxy}


@cache
def model_names() -> dict[str, str]:
    """{table: what an AuditEntry calls its model}."""
    return {table: model._meta.model_name or "" for table, model in _models().items()}


@cache
def words_of(object_type: str) -> str:
    """changerequest -> change request."""
    tables = tables_of(object_type)
    return str(_models()[tables[0]]._meta.verbose_name).replace("-", " ") if tables else object_type


def tables_of(object_type: str) -> list[str]:
    return [table for table, name in model_names().items() if name == object_type]


def page_url(object_type: str, object_id: str) -> str:
    """Where the object is shown; empty when it has no page."""
    page = declared_by_apps("audit_pages").get(object_type)
    return reverse(page, args=[int(object_id)]) if page and object_id.isdecimal() else ""


# What the audit list does not tell yet: how an object was judged that somebody has still to judge without knowing.
#
# The app that owns the objects names a veil in `audit_veils` of its AppConfig. A veil
# is for every reader, admins as well: they may judge too. Who and when stay; once nothing waits, all of it shows.


@dataclass(frozen=True, slots=True)
class Veil:
    """`actions` are events of an object, listed as `told_as` meanwhile; of a row of `table`, whose `column` holds the
    object's id, no value is told. `waiting` gives rows of what waits, with the object's id in their column `key`.
    """

    object_type: str
    actions: frozenset[str]
    told_as: str
    table: str
    column: str
    waiting: Callable[[], QuerySet[Any, Any]]
    key: str

    def object_of(self, row: AuditEntry | AuditChange) -> int | None:
        """The id of the object that a line judges, if it is one of these."""
        told: object = None
        if isinstance(row, AuditEntry):
            told = row.object_id if row.action in self.actions else None
        elif row.table_name == self.table:
            told = {**(row.before or {}), **(row.after or {})}.get(self.column)
        return int(str(told)) if str(told).isdecimal() else None


@cache
def _veils() -> list[Veil]:
    return [import_string(name) for app in apps.get_app_configs() for name in getattr(app, "audit_veils", ())]


def veiled(rows: list[AuditEntry | AuditChange]) -> dict[AuditEntry | AuditChange, Veil]:
    """{row that is under a veil: the veil}; a query for each veil that has rows here."""
    found: dict[AuditEntry | AuditChange, Veil] = {}
    for veil in _veils():
        about = {row: key for row in rows if (key := veil.object_of(row)) is not None}
        if about:
            hidden = veil.waiting().filter(**{f"{veil.key}__in": set(about.values())})
            waiting = set(hidden.values_list(veil.key, flat=True))
            found |= {row: veil for row, key in about.items() if key in waiting}
    return found


def without_veiled(rows: QuerySet[AuditEntry], action: str) -> QuerySet[AuditEntry]:
    """Entries of one action, chosen by its name: those under a veil left out, since the choice would tell."""
    for veil in _veils():
        if action in veil.actions:
            key = Cast(OuterRef("object_id"), BigIntegerField())
            rows = rows.filter(~Q(Exists(veil.waiting().filter(**{veil.key: key}))))
    return rows


LATER = "until nobody is left to judge it blind"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    kind: Annotated[Literal["event", "change"], "a named event, or a changed row"]
    id: int
    at: datetime
    actor: Annotated[str, "empty: a command, a sweep or raw SQL"]
    source: str = ""
    action: str
    object_type: str
    object_id: str
    label: str
    url: str
    detail: dict[str, Any] = field(default_factory=dict)
    tx: int | None
    before: Annotated[dict[str, Any] | None, "of an UPDATE, the columns that changed"] = None
    after: dict[str, Any] | None = None
    token: dict[str, Any] | None = None  # through which a program acted for the actor

    @property
    def through(self) -> str:
        """The token in words: a service token acts in its own name, beside its owner's."""
        if self.token is None:
            return ""
        if self.token["kind"] == "personal":
            return "personal token"
        return f"token {self.token['name']}, made by {self.token['maker'] or 'the command line'}"

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
        _event_line(row, people, veils.get(row))
        if isinstance(row, AuditEntry)
        else _change_line(row, people, objects.get((row.table_name, row.row_id), ""), row in veils)
        for row in rows
    ]


def _event_line(entry: AuditEntry, people: Mapping[int, str], veil: Veil | None) -> Line:
    return Line(
        kind="event",
        id=entry.pk,
        at=entry.at,
        actor=people.get(entry.actor_id or 0, ""),
        action=veil.told_as if veil else entry.action,
        object_type=entry.object_type,
        object_id=entry.object_id,
        label=entry.object_label,
        url=page_url(entry.object_type, entry.object_id),
        detail={"hidden": LATER} if veil else entry.detail,
        tx=entry.txid,
        token=entry.token,
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
        tx=row.txid,
        before=None if hidden else row.before,
        after=None if hidden else row.after,
        token=row.token,
    )


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
    entries, changes = _entries(wanted), _changes(wanted)
    if after:
        at, kind, pk = _place(after)
        older, same = Q(at__lt=at), Q(at=at, pk__lt=pk)
        entries = entries.filter(at__lte=at).filter(older | same if kind == "event" else older)
        changes = changes.filter(at__lte=at).filter(older | (Q(at=at) if kind == "event" else same))
    newest = ("-at", "-id")
    found: list[AuditEntry | AuditChange] = list(entries.order_by(*newest)[: size + 1])
    if not wanted.rows_too:  # as _changes says, but cheaply: an import's 50,000 rows are passed over by hash
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
    own = Q(table_name__in=tables_of(entry.object_type), row_id=entry.object_id)
    return joined.filter(own), joined.exclude(own)


def _entries(wanted: Wanted) -> QuerySet[AuditEntry]:
    rows = AuditEntry.objects.all()
    if wanted.action in OPERATIONS or wanted.source:
        return rows.none()
    exact = {
        "actor__username": wanted.actor,
        "action": wanted.action,
        "object_type": wanted.object_type,
        "object_id": wanted.object_id,
        "txid": wanted.tx,
    }
    return without_veiled(_chosen(rows, exact, wanted), wanted.action)


def _changes(wanted: Wanted) -> QuerySet[AuditChange]:
    rows = AuditChange.objects.all()
    if wanted.action and wanted.action not in OPERATIONS:
        return rows.none()
    if wanted.actor:
        rows = rows.filter(actor_id__in=User.objects.filter(username=wanted.actor).values("pk"))
    if wanted.object_type:
        rows = rows.filter(table_name__in=tables_of(wanted.object_type))
    if not wanted.rows_too:
        rows = rows.filter(~Exists(AuditEntry.objects.filter(txid=OuterRef("txid"))))
    exact = {
        "operation": wanted.action,
        "row_id": wanted.object_id,
        "source__startswith": wanted.source,
        "txid": wanted.tx,
    }
    return _chosen(rows, exact, wanted)


def _chosen(rows: QuerySet[Any], exact: dict[str, Any], wanted: Wanted) -> QuerySet[Any]:
    """The rows for which every filter that has a value holds, of the days that are wanted."""
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    zone = timezone.get_current_timezone()
    if wanted.since:
        rows = rows.filter(at__gte=datetime.combine(wanted.since, time.min, zone))
    if wanted.until:
        rows = rows.filter(at__lt=datetime.combine(wanted.until, time.min, zone) + timedelta(days=1))
    return rows


def known_types() -> list[tuple[str, str]]:
    """[(type, its words)] of everything the two tables tell of."""
    tables = known_values(AuditChange, "table_name")
    types = {*known_values(AuditEntry, "object_type"), *(model_names().get(name, name) for name in tables)}
    return sorted(((name, words_of(name)) for name in types), key=lambda pair: pair[1])


def known_values(model: type[models.Model], column: str) -> list[str]:
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


def _wrong(where: str, value: str, expected: str) -> TraceError:
    return TraceError(f"{value[:40]!r} is not {expected}.", code="bad_input", where=where)
