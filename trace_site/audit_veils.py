"""What the audit list does not tell yet: how an object was judged that somebody has still to judge without knowing.

The app that owns the objects registers a veil in its AppConfig.ready(); nothing imports to its right for it. A veil is
for every reader, admins as well: they may judge too. Who and when stay; once nothing waits, all of it shows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Cast

from trace_site.audit import AuditChange, AuditEntry


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


_veils: list[Veil] = []


def register(veil: Veil) -> None:
    if veil not in _veils:
        _veils.append(veil)


def veiled(rows: Iterable[AuditEntry | AuditChange]) -> dict[tuple[str, int], Veil]:
    """{(model, id) of a row that is under a veil: the veil}; a query for each veil that has rows here."""
    found: dict[tuple[str, int], Veil] = {}
    rows = list(rows)
    for veil in _veils:
        about = [(row, key) for row in rows if (key := veil.object_of(row)) is not None]
        waiting = veil.among({key for _, key in about})
        found |= {place_of(row): veil for row, key in about if key in waiting}
    return found


def place_of(row: AuditEntry | AuditChange) -> tuple[str, int]:
    return type(row).__name__, row.pk


def without_veiled(rows: QuerySet[AuditEntry], action: str) -> QuerySet[AuditEntry]:
    """Entries of one action, chosen by its name: those under a veil left out, since the choice would tell."""
    for veil in _veils:
        if action in veil.actions:
            key = Cast(OuterRef("object_id"), BigIntegerField())
            rows = rows.filter(~Q(Exists(veil.waiting().filter(**{veil.key: key}))))
    return rows
