"""Rollups of samples and waiting items: triggers append what changed (migration 0004), here it is folded and recounted.

A count is the sum of its rows, whenever it is read. Folding replaces loose rows by sums in one statement, so that
readers see the rows or the sums, and writers, who only append, wait for nobody.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction
from django.db.models import Q, QuerySet, Sum

from rules.models import Rule, RuleVersion
from synthesis.models import Level, ReviewCount, Sample, SampleCount

LOOSE = 200  # so many rows not folded yet are worth a fold
LOCK = "trace counts"


@dataclass(frozen=True, slots=True)
class Rollup:
    """A table of sums over `names`, and the rows that it counts, as SQL that gives these columns."""

    table: str
    names: tuple[str, ...]
    counted: str
    rule: str  # the column that the coarse level leaves out


SAMPLES = Rollup(
    "synthesis_samplecount",
    ("branch", "domain", "rule_version", "style", "tier", "machine", "human", "approved_how", "writer"),
    """SELECT branch, domain_id, coalesce(rule_version_id, 0), style, tier, machine, human, approved_how,
  split_part(writer, ':', 1) FROM synthesis_sample""",
    "rule_version",
)
ITEMS = Rollup(
    "synthesis_reviewcount",
    ("round", "branch", "domain", "rule", "style", "tier", "held", "calibration", "assigned_to", "first_by"),
    """SELECT round, branch, domain_id, coalesce(rule_id, 0), style, tier, state = 'held', calibration,
  coalesce(assigned_to_id, 0), coalesce(first_by_id, 0) FROM synthesis_reviewitem
  WHERE state IN ('held', 'open', 'claimed')""",
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
  DELETE FROM {table} WHERE ({key}, level) IN (SELECT {key}, level FROM kinds) RETURNING *
)
INSERT INTO {table} ({key}, level, n)
SELECT {key}, level, sum(n) FROM (SELECT {key}, level, n FROM kinds UNION ALL SELECT {key}, level, n FROM gone) d
GROUP BY {key}, level HAVING sum(n) <> 0
"""
# at each level: the rule's level is short of what counting says, the coarse one of what the finer rows sum up to
DIFFERENCES = """
SELECT {key}, 0 AS level, sum(n)::bigint AS n FROM (
  SELECT t.*, 1 FROM ({counted}) t UNION ALL SELECT {key}, -n FROM {table} WHERE level < 2
) d ({key}, n) GROUP BY {key} HAVING sum(n) <> 0
UNION ALL
SELECT {key}, 2, sum(n)::bigint FROM (
  SELECT {coarse}, n FROM {table} WHERE level = 1
  UNION ALL SELECT {key}, -n FROM {table} WHERE level = 2
) d ({key}, n) GROUP BY {key} HAVING sum(n) <> 0
"""
REPAIR = f"INSERT INTO {{table}} ({{key}}, level, n) {DIFFERENCES} RETURNING {{key}}, level, n"


def fold(least: int = LOOSE) -> int:
    """Put loose rows into the folded ones, in every rollup that has `least` of them; how many there were.

    Two at once do not wait for each other: the second does nothing.
    """
    return sum(_fold(rollup, least) for rollup in ROLLUPS)


@transaction.atomic
def _fold(rollup: Rollup, least: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {rollup.table} WHERE level = 0")
        loose: int = cursor.fetchone()[0]
        if loose < least:
            return 0
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext(%s))", [LOCK + rollup.table])
        if not cursor.fetchone()[0]:
            return 0
        cursor.execute(_sql(FOLD, rollup))
        return loose


@transaction.atomic
def recount(*, repair: bool = False) -> list[dict[str, Any]]:
    """Where the rollups are not what counting says. repair: put that right, while others may write.

    {"rollup", "kind", "level", "n": so many of the kind are missing at this level, below zero: too many}. Both sides
    are read in one statement: what a transaction under way has written is in neither.
    """
    found = []
    with connection.cursor() as cursor:
        for rollup in ROLLUPS:
            if repair:  # two repairs at once would both add what is missing
                cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [LOCK + rollup.table])
            cursor.execute(_sql(REPAIR if repair else DIFFERENCES, rollup))
            for *kind, level, n in cursor.fetchall():
                named = dict(zip(rollup.names, kind, strict=True))
                found.append({"rollup": rollup.table, "kind": named, "level": level, "n": n})
    return found


def _sql(template: str, rollup: Rollup) -> str:
    coarse = ", ".join("0" if name == rollup.rule else name for name in rollup.names)
    key = ", ".join(rollup.names)
    return template.format(table=rollup.table, key=key, counted=rollup.counted, coarse=coarse)


# Counts that lists and the queue show, from rollups: a few thousand narrow rows, however many samples there are.


SAMPLE_FACETS = ("branch", "domain", "style", "tier", "machine", "human", "approved_how", "writer")
BY_RULE, TOGETHER = (Level.LOOSE, Level.FINE), (Level.LOOSE, Level.COARSE)
QUEUE_FACETS = ("branch", "domain", "style", "tier", "round")


@dataclass(slots=True)
class Tally:
    """How many match, and how many would for each value of each filter while the others stay: {filter: {value: n}}."""

    total: int = 0
    options: dict[str, dict[Any, int]] = field(default_factory=dict)


def sample_counts(filters: Mapping[str, Any]) -> Tally:
    """Of samples by branch, domain, style, tier, machine, human, approved_how, writer, and of one rule (its code) or
    of all; other filters are not looked at, see `covers`. One query.
    """
    wanted = {name: str(filters[name]) for name in SAMPLE_FACETS if filters.get(name)}
    tally = Tally(options={name: defaultdict(int) for name in SAMPLE_FACETS})
    rows = sample_kinds(filters).values_list(*SAMPLE_FACETS).annotate(sum=Sum("n"))
    for *values, count in rows.filter(sum__gt=0).order_by():
        kind = dict(zip(SAMPLE_FACETS, values, strict=True))
        missed = [name for name, value in wanted.items() if str(kind[name]) != value]
        if not missed:
            tally.total += count
        for name in SAMPLE_FACETS if not missed else missed if len(missed) == 1 else ():
            tally.options[name][kind[name]] += count
    return tally


def sample_kinds(filters: Mapping[str, Any]) -> QuerySet[SampleCount]:
    """The rollup's rows of one rule, or all."""
    if code := filters.get("rule"):
        versions = list(RuleVersion.objects.filter(rule__code=code).values_list("pk", flat=True))
        return SampleCount.objects.filter(level__in=BY_RULE, rule_version__in=versions)
    return SampleCount.objects.filter(level__in=TOGETHER)


def covers(filters: Mapping[str, Any]) -> bool:
    """Whether `sample_counts` knows every filter given."""
    return not {name for name, value in filters.items() if value} - {*SAMPLE_FACETS, "rule"}


def rules_with_samples() -> list[str]:
    """Codes, in order."""
    counts = SampleCount.objects.filter(level__in=BY_RULE).values("rule_version").annotate(sum=Sum("n"))
    rows = Rule.objects.filter(versions__in=counts.filter(sum__gt=0).values("rule_version"))
    return list(rows.order_by("code").values_list("code", flat=True).distinct())


def waiting_total(reviewer: Any = None) -> int:
    """Items open or claimed; of one reviewer, those they may read."""
    rows = in_queue({}).filter(held=False)
    if reviewer is not None:
        rows = rows.filter(assigned_to__in=(0, reviewer.pk)).exclude(first_by=reviewer.pk)
    total: int = rows.aggregate(sum=Sum("n", default=0))["sum"]
    return total


def waiting_by_rule(filters: Mapping[str, Any]) -> dict[str, int]:
    """{rule's code: items open or claimed}, for the other filters."""
    named = {name: filters[name] for name in QUEUE_FACETS if filters.get(name)}
    rows = ReviewCount.objects.filter(level__in=BY_RULE, rule__gt=0, held=False, **named)
    found = dict(rows.values_list("rule").annotate(sum=Sum("n")).filter(sum__gt=0))
    return {code: found[pk] for pk, code in Rule.objects.filter(pk__in=found).values_list("pk", "code")}


def queue_totals(reviewer: Any, filters: Mapping[str, Any]) -> dict[str, int]:
    """{"left", "held", "assigned_to_others", "read_by_you", "elsewhere"}: the queue as `reviewer` meets it.

    `read_by_you` wait for a later reading by somebody else; `left` are open or claimed, `elsewhere` those of them
    outside the filters.
    """
    rows = in_queue(filters).filter(**{name: filters[name] for name in QUEUE_FACETS if filters.get(name)})
    waits = Q(held=False)
    counts: dict[str, int] = rows.aggregate(
        left=Sum("n", default=0, filter=waits),
        assigned_to_others=Sum("n", default=0, filter=waits & ~Q(assigned_to__in=(0, reviewer.pk))),
        read_by_you=Sum("n", default=0, filter=waits & Q(first_by=reviewer.pk)),
        held=Sum("n", default=0, filter=~waits),  # last: above it is the column
    )
    return {**counts, "elsewhere": waiting_total() - counts["left"]}


def in_queue(filters: Mapping[str, Any]) -> QuerySet[ReviewCount]:
    """The rollup's rows of one rule, or all."""
    if code := filters.get("rule"):
        rules = list(Rule.objects.filter(code=code).values_list("pk", flat=True))
        return ReviewCount.objects.filter(level__in=BY_RULE, rule__in=rules)
    return ReviewCount.objects.filter(level__in=TOGETHER)


def sample_totals() -> dict[str, int]:
    """What became of all samples: being written, waiting for a reading, approved, rejected, dropped. Two queries."""
    kinds = {
        "writing": Q(machine=Sample.Machine.PENDING),
        "approved": Q(human=Sample.Human.APPROVED),
        "rejected": Q(human=Sample.Human.REJECTED),
        "dropped": Q(machine=Sample.Machine.DROPPED),
    }
    sums = {name: Sum("n", default=0, filter=kind) for name, kind in kinds.items()}
    return {**sample_kinds({}).aggregate(**sums), "waiting": waiting_total()}
