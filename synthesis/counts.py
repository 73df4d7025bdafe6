"""Rollups of samples and waiting items: triggers append what changed (migration 0012), here it is folded and recounted.

A count is the sum of its rows, whenever it is read. Folding replaces loose rows by sums in one statement, so that
readers see the rows or the sums, and writers, who only append, wait for nobody.
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
    rule: str  # the column that the coarse level leaves out

    @property
    def key(self) -> str:
        return ", ".join(self.names)

    @property
    def truth(self) -> str:
        columns = ", ".join(self.columns)
        rows = f"SELECT {columns} FROM {self.counted} WHERE {self.which}"
        return f"SELECT {self.key}, count(*) AS n FROM ({rows}) t ({self.key}) GROUP BY {self.key}"


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
        "coalesce(rule_version_id, 0)",
        "style",
        "tier",
        "machine",
        "human",
        "approved_how",
        "split_part(writer, ':', 1)",
    ),
    "true",
    "rule_version",
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
        "coalesce(rule_id, 0)",
        "style",
        "tier",
        "state = 'held'",
        "calibration",
        "coalesce(assigned_to_id, 0)",
        "coalesce(first_by_id, 0)",
    ),
    "state IN ('held', 'open', 'claimed')",
    "rule",
)
ROLLUPS = (SAMPLES, ITEMS)

# the loose rows go, and with them the folded ones of the same kinds; what comes back are their sums
FOLD = """
WITH loose AS (
  DELETE FROM {table} WHERE level = 0 RETURNING *
), kinds AS (
  SELECT {key}, 1 AS level, n FROM loose UNION ALL SELECT {coarse}, 2, n FROM loose
), gone AS (
  DELETE FROM {table} r USING (SELECT DISTINCT {key}, level FROM kinds) k
  WHERE (r.level, {kept}) = (k.level, {named}) RETURNING r.*
)
INSERT INTO {table} ({key}, level, n)
SELECT {key}, level, sum(n) FROM (SELECT {key}, level, n FROM kinds UNION ALL SELECT {key}, level, n FROM gone) d
GROUP BY {key}, level HAVING sum(n) <> 0
"""
# at each level: the rule's level is short of what counting says, the coarse one of what the finer rows sum up to
DIFFERENCES = """
SELECT {key}, 0 AS level, sum(n)::bigint AS n FROM (
  {truth} UNION ALL SELECT {key}, -n FROM {table} WHERE level < 2
) d GROUP BY {key} HAVING sum(n) <> 0
UNION ALL
SELECT {key}, 2, sum(n)::bigint FROM (
  SELECT {coarse}, n FROM {table} WHERE level = 1
  UNION ALL SELECT {key}, -n FROM {table} WHERE level = 2
) d ({key}, n) GROUP BY {key} HAVING sum(n) <> 0
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A kind of which the rollup has `n` too few (below zero: too many), at one level."""

    rollup: str
    kind: dict[str, Any]
    level: int
    n: int


def fold(least: int = LOOSE) -> int:
    """Put loose rows into the folded ones, in every rollup that has `least` of them; how many there were.

    Two at once do not wait for each other: the second does nothing.
    """
    return sum(_fold(rollup, least) for rollup in ROLLUPS)


@transaction.atomic
def _fold(rollup: Rollup, least: int) -> int:
    with connection.cursor() as cursor:
        loose: int = _one(cursor, f"SELECT count(*) FROM {rollup.table} WHERE level = 0")
        if loose < least or not _one(
            cursor, "SELECT pg_try_advisory_xact_lock(hashtext(%s))", [LOCK + rollup.table]
        ):
            return 0
        cursor.execute(_sql(FOLD, rollup))
        return loose


@transaction.atomic
def recount(*, repair: bool = False) -> list[Difference]:
    """Where the rollups are not what counting says. repair: put that right, while others may write.

    Both sides are read in one statement: what a transaction under way has written is in neither.
    """
    return [difference for rollup in ROLLUPS for difference in _recount(rollup, repair)]


def _recount(rollup: Rollup, repair: bool) -> Iterable[Difference]:
    sql = _sql(DIFFERENCES, rollup)
    with connection.cursor() as cursor:
        if repair:  # two repairs at once would both add what is missing
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [LOCK + rollup.table])
            sql = (
                f"INSERT INTO {rollup.table} ({rollup.key}, level, n) {sql} RETURNING {rollup.key}, level, n"
            )
        cursor.execute(sql)
        for *kind, level, n in cursor.fetchall():
            yield Difference(rollup.table, dict(zip(rollup.names, kind, strict=True)), level, n)


def _sql(template: str, rollup: Rollup) -> str:
    return template.format(
        table=rollup.table,
        key=rollup.key,
        truth=rollup.truth,
        coarse=", ".join("0" if name == rollup.rule else name for name in rollup.names),
        kept=", ".join(f"r.{name}" for name in rollup.names),
        named=", ".join(f"k.{name}" for name in rollup.names),
    )


def _one(cursor: Any, sql: str, params: list[Any] | None = None) -> Any:
    cursor.execute(sql, params)
    return cursor.fetchone()[0]
