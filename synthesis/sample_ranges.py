"""Ids of samples in order, by an index over what selects them: how lists step through a table of any size."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import F, QuerySet

from synthesis.models import Sample

HIDDEN = F("pk") + 0  # the id, where no index can tell


@dataclass(frozen=True, slots=True)
class Range:
    """Ids of [low, high), the oldest or the newest first."""

    low: int
    high: int
    newest: bool = True

    def near(self, width: int) -> "Range":
        """The part one comes to first."""
        if self.newest:
            return Range(max(self.low, self.high - width), self.high)
        return Range(self.low, min(self.high, self.low + width), newest=False)

    def of(self, rows: QuerySet[Sample], size: int, *, sort: bool = False) -> list[int]:
        """The first `size` of the rows. sort: by what selects them, then sorted, rather than in the order of ids."""
        return self._first(rows.filter(pk__gte=self.low, pk__lt=self.high), size, sort)

    def of_few(self, rows: QuerySet[Sample], size: int) -> list[int]:
        """The same where few rows are selected at all: no index is asked for the ids of the range, most of them."""
        return self._first(rows.alias(at=HIDDEN).filter(at__gte=self.low, at__lt=self.high), size, sort=True)

    def _first(self, found: QuerySet[Sample], size: int, sort: bool) -> list[int]:
        key = HIDDEN if sort else F("pk")
        return list(
            found.order_by(key.desc() if self.newest else key.asc()).values_list("pk", flat=True)[:size]
        )


EVERYWHERE = Range(0, 2**62)


@contextmanager
def planned(*without: str) -> Iterator[None]:
    """Without these kinds of plan: a limit lets reading on look cheap that never finds as many."""
    if not without:
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("; ".join(f"SET LOCAL enable_{kind} = off" for kind in without))
        cursor.execute("SET LOCAL work_mem = '64MB'")  # a bitmap that is too large names whole pages
        yield
        cursor.execute("; ".join(f"RESET enable_{kind}" for kind in without))
        cursor.execute("RESET work_mem")


def merged(facets: list[int], within: Range, each: int, most: int) -> tuple[list[int], bool]:
    """Ids of these facets in order, `most` at most: by index `each` of every facet, as far as that leaves no gap; and
    whether that is all of them.
    """
    down = "DESC" if within.newest else "ASC"
    facet = "synthesis_facet(branch, domain_id, style, tier, machine, human, approved_how, writer)"
    sql = f"""
SELECT s.id, s.place FROM unnest(%s::bigint[]) AS f (facet) CROSS JOIN LATERAL (
  SELECT id, row_number() OVER () AS place FROM (
    SELECT id FROM {Sample._meta.db_table} WHERE {facet} = f.facet AND id >= %s AND id < %s
    ORDER BY {facet} {down}, id {down} LIMIT %s
  ) found
) s ORDER BY id {down}"""
    ids: list[int] = []
    with connection.cursor() as cursor:
        cursor.execute(sql, [facets, within.low, within.high, each])
        for pk, place in cursor.fetchall():
            ids.append(pk)
            if place == each or len(ids) == most:  # there may be more of this facet right behind
                return ids, False
    return ids, True
