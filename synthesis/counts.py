"""Rollups of samples and waiting items: triggers append what changed (migration 0012), here it is folded and recounted.

A count is the sum of its rows, whenever it is read. Folding replaces rows of one kind by their sum in one statement,
so that readers see the rows or the sum, and writers, who only append, wait for nobody.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

LOOSE = 200  # so many rows not folded yet are worth a fold
LOCK = "trace counts"


@dataclass(frozen=True, slots=True)
class Rollup:
    """Columns of the rollup, and what they are of the counted table, in the same order."""

    table: str
    names: tuple[str, ...]
    counted: str
    columns: tuple[str, ...]
    which: str

    @property
    def key(self) -> str:
        return ", ".join(self.names)


SAMPLES = Rollup(
    "synthesis_samplecount",
    (
        "branch",
        "domain",
        "rule_version",
        "style",
        "tier",
        "machine",
        "human",
        "approved_how",
        "writer",
    ),
    "synthesis_sample",
    (
        "branch",
        "domain_id",
        "rule_version_id",
        "style",
        "tier",
        "machine",
        "human",
        "approved_how",
        "split_part(writer, ':', 1)",
    ),
    "true",
)
ITEMS = Rollup(
    "synthesis_reviewcount",
    (
        "round",
        "branch",
        "domain",
        "rule",
        "style",
        "tier",
        "held",
        "calibration",
        "assigned_to",
        "first_by",
    ),
    "synthesis_reviewitem",
    (
        "round",
        "branch",
        "domain_id",
        "rule_id",
        "style",
        "tier",
        "state = 'held'",
        "calibration",
        "assigned_to_id",
        "first_by_id",
    ),
    "state IN ('held', 'open', 'claimed')",
)
ROLLUPS = (SAMPLES, ITEMS)

FOLD = """
WITH mixed AS (
  SELECT unnest(array_agg(id)) AS id FROM {table} GROUP BY {key}
  HAVING count(*) > 1 OR sum(n) = 0 OR NOT bool_and(folded)
), gone AS (
  DELETE FROM {table} r USING mixed WHERE r.id = mixed.id RETURNING r.*
)
INSERT INTO {table} ({key}, n, folded) SELECT {key}, sum(n), true FROM gone GROUP BY {key} HAVING sum(n) <> 0
"""
DIFFERENCES = """
SELECT {key}, sum(n)::bigint AS n FROM (
  SELECT {key}, count(*) AS n FROM (SELECT {columns} FROM {counted} WHERE {which}) t ({key}) GROUP BY {key}
  UNION ALL SELECT {key}, -n FROM {table}
) d GROUP BY {key} HAVING sum(n) <> 0
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A kind of which the rollup has `n` too few (below zero: too many)."""

    rollup: str
    kind: dict[str, Any]
    n: int


def fold(least: int = LOOSE) -> int:
    """Put rows of one kind together in every rollup that has `least` loose ones; how many rows it has fewer.

    Two at once do not wait for each other: the second does nothing.
    """
    return sum(_fold(rollup, least) for rollup in ROLLUPS)


@transaction.atomic
def _fold(rollup: Rollup, least: int) -> int:
    with connection.cursor() as cursor:
        loose = f"SELECT count(*) FROM (SELECT 1 FROM {rollup.table} WHERE NOT folded LIMIT %s) l"
        if _one(cursor, loose, [least]) < least:
            return 0
        if not _one(cursor, "SELECT pg_try_advisory_xact_lock(hashtext(%s))", [LOCK + rollup.table]):
            return 0
        rows = f"SELECT count(*) FROM {rollup.table}"
        before = _one(cursor, rows)
        cursor.execute(FOLD.format(table=rollup.table, key=rollup.key))
        return before - _one(cursor, rows)


@transaction.atomic
def recount(*, repair: bool = False) -> list[Difference]:
    """Where the rollups are not what counting says. repair: put that right, while others may write.

    Both sides are read in one statement: what a transaction under way has written is in neither.
    """
    return [difference for rollup in ROLLUPS for difference in _recount(rollup, repair)]


def _recount(rollup: Rollup, repair: bool) -> Iterable[Difference]:
    sql = DIFFERENCES.format(
        table=rollup.table,
        key=rollup.key,
        counted=rollup.counted,
        columns=", ".join(rollup.columns),
        which=rollup.which,
    )
    with connection.cursor() as cursor:
        if repair:  # two repairs at once would both add what is missing
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [LOCK + rollup.table])
            sql = f"INSERT INTO {rollup.table} ({rollup.key}, n) {sql} RETURNING {rollup.key}, n"
        cursor.execute(sql)
        for *kind, n in cursor.fetchall():
            yield Difference(rollup.table, dict(zip(rollup.names, kind, strict=True)), n)


def _one(cursor: Any, sql: str, params: list[Any] | None = None) -> Any:
    cursor.execute(sql, params)
    return cursor.fetchone()[0]
