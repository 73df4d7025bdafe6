"""One line of the audit list: a named event or a row change, in words and with a link to what it is about."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.db import models
from django.db.models import BigIntegerField, CharField, Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Cast, Left
from django.urls import reverse
from django.utils.module_loading import import_string

from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.impact import declared_by_apps

# columns that name a row: the first that a table has, unless an app names another in `audit_names`
NAMES = ("name", "code", "title", "username", "slug", "filename", "url", "label", "query", "text")

_declared = cache(declared_by_apps)


def names_of_rows(rows: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """{(table, row id): name} of the rows that still exist and have one; one query, however many tables."""
    ids: dict[str, list[int]] = defaultdict(list)
    for table, row_id in rows:
        if row_id.isdecimal():
            ids[table].append(int(row_id))
    parts = [part for table, keys in ids.items() if (part := _named(table, keys)) is not None]
    if not parts:
        return {}
    found = parts[0].union(*parts[1:], all=True) if len(parts) > 1 else parts[0]
    return {(table, str(key)): name for table, key, name in found if name}


def _named(table: str, keys: list[int]) -> QuerySet[Any, Any] | None:
    model = _models().get(table)
    if model is None or not isinstance(model._meta.pk, models.AutoField):
        return None
    columns = {column.name for column in model._meta.fields}
    column = _declared("audit_names").get(table) or next((name for name in NAMES if name in columns), None)
    if column is None:
        return None
    named = model._default_manager.filter(pk__in=keys).order_by()
    rows: QuerySet[Any, Any] = named.annotate(
        of_table=Value(table, output_field=CharField()),
        of_row=F("pk"),
        called=Left(Cast(column, CharField()), 120),
    ).values_list("of_table", "of_row", "called")
    return rows


@cache
def _models() -> dict[str, type[models.Model]]:
    known = {model._meta.db_table: model for model in apps.get_models(include_auto_created=True)}
    return {table: model for table, model in known.items() if not model._meta.proxy}


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
    page = _declared("audit_pages").get(object_type)
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

    def among(self, objects: set[int]) -> set[int]:
        rows = self.waiting().filter(**{f"{self.key}__in": objects}) if objects else self.waiting().none()
        return set(rows.values_list(self.key, flat=True))


@cache
def _veils() -> list[Veil]:
    return [import_string(name) for app in apps.get_app_configs() for name in getattr(app, "audit_veils", ())]


def veiled(rows: Iterable[AuditEntry | AuditChange]) -> dict[tuple[str, int], Veil]:
    """{(model, id) of a row that is under a veil: the veil}; a query for each veil that has rows here."""
    found: dict[tuple[str, int], Veil] = {}
    rows = list(rows)
    for veil in _veils():
        about = [(row, key) for row in rows if (key := veil.object_of(row)) is not None]
        waiting = veil.among({key for _, key in about})
        found |= {place_of(row): veil for row, key in about if key in waiting}
    return found


def place_of(row: AuditEntry | AuditChange) -> tuple[str, int]:
    return type(row).__name__, row.pk


def without_veiled(rows: QuerySet[AuditEntry], action: str) -> QuerySet[AuditEntry]:
    """Entries of one action, chosen by its name: those under a veil left out, since the choice would tell."""
    for veil in _veils():
        if action in veil.actions:
            key = Cast(OuterRef("object_id"), BigIntegerField())
            rows = rows.filter(~Q(Exists(veil.waiting().filter(**{veil.key: key}))))
    return rows


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
