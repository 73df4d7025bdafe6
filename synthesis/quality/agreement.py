"""How far two blind readers of one sample agree: per style, domain and pair of reviewers.

Readings are the first and second decisions that stand; an adjudication is the reference, not a reading. The database
counts which answers met, so that no figure depends on how many there are.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import hypot
from statistics import NormalDist
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import connection

from synthesis.core.review.agreement import (
    Estimate,
    Rate,
    agreeing,
    cohen_kappa,
    krippendorff_alpha,
    patterns_of,
    wilson,
)

VERDICTS = ("approve", "edit", "reject")
EDIT_APPROVES = (0, 0, 1)
Table = list[list[int]]

READ_TWICE = """
SELECT two.domain_id, coalesce(nullif(two.style, ''), two.tier),
  least(a.reviewer_id, b.reviewer_id), greatest(a.reviewer_id, b.reviewer_id),
  CASE WHEN a.reviewer_id < b.reviewer_id THEN a.verdict ELSE b.verdict END,
  CASE WHEN a.reviewer_id < b.reviewer_id THEN b.verdict ELSE a.verdict END,
  EXISTS (SELECT FROM synthesis_reviewitem three
    WHERE three.sample_id = two.sample_id AND three.round = 3
      AND (three.state <> 'withdrawn' OR b.after ->> 'human' = 'disputed')),
  count(*)
FROM synthesis_reviewitem two
JOIN synthesis_decision b ON b.item_id = two.id AND b.take = two.takes AND b.verdict <> 'undo'
JOIN synthesis_reviewitem one ON one.sample_id = two.sample_id AND one.round = 1 AND one.state = 'decided'
JOIN synthesis_decision a ON a.item_id = one.id AND a.take = one.takes AND a.verdict <> 'undo'
WHERE two.round = 2 AND two.state = 'decided'
GROUP BY 1, 2, 3, 4, 5, 6, 7
"""


class Met(NamedTuple):
    """So many samples of a domain and kind that these two people read with these verdicts."""

    domain: str
    kind: str  # the style of a rule sample, the tier of another
    one: int
    other: int
    of_one: str
    of_other: str
    disputed: bool
    units: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """alpha over approve, edit, reject; same_verdict of all read twice; same_outcome: same texts, or both refused."""

    name: str
    alpha: Estimate
    same_verdict: Rate
    same_outcome: Rate


@dataclass(frozen=True, slots=True)
class Pair:
    """Two reviewers by id: kappa over the three verdicts, and with an edit counted as an approval."""

    one: int
    other: int
    kappa: Estimate
    collapsed: Estimate
    same_verdict: Rate


@dataclass(frozen=True, slots=True)
class Agreements:
    overall: Agreement
    domains: list[Agreement]
    styles: list[Agreement]
    pairs: list[Pair]  # the most samples in common first
    more_pairs: int

    def pairs_of(self, reviewer: int | None) -> list[Pair]:
        return [pair for pair in self.pairs if reviewer in (None, pair.one, pair.other)]


def agreements(*, reviewer: int | None = None, most_pairs: int = 50) -> Agreements:
    """Everybody's, with the pairs of one reviewer alone when one is given. One query."""
    rows = read_twice()
    met = [row for row in rows if reviewer in (None, row.one, row.other)]
    pairs = _by(met, lambda row: (row.one, row.other))
    first = sorted(pairs, key=lambda ids: (-sum(row.units for row in pairs[ids]), ids))
    return Agreements(
        _agreement("all", rows),
        [_agreement(name, found) for name, found in sorted(_by(rows, lambda row: row.domain).items())],
        [_agreement(name, found) for name, found in sorted(_by(rows, lambda row: row.kind).items())],
        [_pair(one, other, pairs[one, other]) for one, other in first[:most_pairs]],
        max(0, len(first) - most_pairs),
    )


def read_twice() -> list[Met]:
    with connection.cursor() as cursor:
        cursor.execute(READ_TWICE)
        return [Met(*row) for row in cursor.fetchall()]


def table_of(rows: Iterable[Met]) -> Table:
    """Rows: the verdict of the one; columns: of the other."""
    table = [[0] * len(VERDICTS) for _ in VERDICTS]
    for row in rows:
        table[VERDICTS.index(row.of_one)][VERDICTS.index(row.of_other)] += row.units
    return table


def _by(rows: Iterable[Met], key: Any) -> dict[Any, list[Met]]:
    found: dict[Any, list[Met]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def _agreement(name: str, rows: list[Met]) -> Agreement:
    table = table_of(rows)
    n = sum(row.units for row in rows)
    settled = sum(row.units for row in rows if not row.disputed)
    return Agreement(
        name, krippendorff_alpha(patterns_of(table)), wilson(*agreeing(table)), wilson(settled, n)
    )


def _pair(one: int, other: int, rows: list[Met]) -> Pair:
    table = table_of(rows)
    collapsed = cohen_kappa(table, collapse=EDIT_APPROVES)
    return Pair(one, other, cohen_kappa(table), collapsed, wilson(*agreeing(table)))


# How good each reviewer's readings are: against adjudications, against what became of them, against the team.
#
# Counted by the database from the decisions that stand. What a batch approves unread is nobody's reading; readings of
# the judge's refusals are left out, they are no fair share of anybody's work.


STANDING = "d.item_id = i.id AND d.take = i.takes AND d.verdict <> 'undo'"
SAME = """(d.verdict = 'reject') = (x.verdict = 'reject') AND (d.verdict = 'reject' OR
  (d.after -> 'query', d.after -> 'trace', d.after -> 'answer')
  = (x.after -> 'query', x.after -> 'trace', x.after -> 'answer'))"""

READ = f"""
SELECT d.reviewer_id, i.domain_id, coalesce(nullif(i.style, ''), i.tier),
  count(*), count(*) FILTER (WHERE d.verdict = 'reject')
FROM synthesis_reviewitem i JOIN synthesis_decision d ON {STANDING}
WHERE i.state = 'decided' AND i.decided_by_id IS NOT NULL AND NOT i.calibration AND i.round IN (1, 2)
GROUP BY 1, 2, 3
"""
# a sample read twice has ended when its readings agreed or a third person decided (x)
ENDED = f"""
SELECT d.reviewer_id, count(*), count(x.id), count(*) FILTER (WHERE {SAME})
FROM synthesis_reviewitem two
JOIN synthesis_reviewitem i ON i.sample_id = two.sample_id AND i.round IN (1, 2) AND i.state = 'decided'
JOIN synthesis_decision d ON {STANDING}
LEFT JOIN synthesis_reviewitem three ON three.sample_id = two.sample_id AND three.round = 3
LEFT JOIN synthesis_decision x ON x.item_id = three.id AND x.take = three.takes AND x.verdict <> 'undo'
WHERE two.round = 2 AND two.state = 'decided' AND (three.id IS NULL OR three.state = 'decided') GROUP BY 1
"""
TAKEN_BACK = """
SELECT who, sum(stand + back)::int, sum(back)::int FROM (
  SELECT decided_by_id AS who, count(*) AS stand, 0 AS back FROM synthesis_reviewitem
  WHERE state = 'decided' AND decided_by_id IS NOT NULL GROUP BY 1
  UNION ALL SELECT reviewer_id, 0, count(*) FROM synthesis_decision WHERE verdict = 'undo' GROUP BY 1
) d GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class Quality:
    """One reviewer. Rates carry their n; `expected` is the rejection rate of the others on the same strata."""

    reviewer: int
    name: str
    readings: int
    adjudicated: Rate  # of the readings a third person decided about: those with the same outcome
    reversed: Rate  # of the readings of samples read twice: those that ended otherwise
    rejected: Rate
    expected: float | None
    compared: int  # readings in strata where others have read too
    taken_back: Rate
    stands_out: str  # high or low: rejects more or less than the others do on the same strata


def qualities(reviewer: int | None = None) -> list[Quality]:
    """One row a reviewer, the most readings first; or one reviewer's own row. Four queries."""
    strata, read = _read()
    ended = {who: tuple(counts) for who, *counts in _rows(ENDED)}
    undone = {who: tuple(counts) for who, *counts in _rows(TAKEN_BACK)}
    people = sorted(read, key=lambda who: (-sum(n for n, _ in read[who].values()), who))
    shown = [who for who in people if reviewer in (None, who)]
    # so wide that by chance alone 1 team in 20 has anybody who stands out
    wide = NormalDist().inv_cdf(1 - 0.025 / max(1, len(people)))
    names = dict(User.objects.filter(pk__in=shown).values_list("pk", "username"))
    return [
        _quality(who, names[who], read[who], strata, ended.get(who, (0, 0, 0)), undone.get(who, (0, 0)), wide)
        for who in shown
    ]


Strata = dict[tuple[str, str], tuple[int, int]]  # (domain, kind) -> (read, rejected)


def _read() -> tuple[Strata, dict[int, Strata]]:
    """What was read and rejected per stratum: by all, and by each."""
    everybody: Strata = {}
    by: dict[int, Strata] = defaultdict(dict)
    for who, domain, kind, read, rejected in _rows(READ):
        by[who][domain, kind] = read, rejected
        before = everybody.get((domain, kind), (0, 0))
        everybody[domain, kind] = before[0] + read, before[1] + rejected
    return everybody, by


def _quality(
    who: int,
    name: str,
    own: Strata,
    team: Strata,
    ended: tuple[int, ...],
    undone: tuple[int, ...],
    wide: float,
) -> Quality:
    twice, judged, same = ended
    kept, back = undone
    compared = {at: counts for at, counts in own.items() if team[at][0] > counts[0]}
    shown = compared or own
    n, rejected = (sum(counts[part] for counts in shown.values()) for part in (0, 1))
    expected = _expected(compared, team)
    return Quality(
        reviewer=who,
        name=name,
        readings=sum(read for read, _ in own.values()),
        adjudicated=wilson(same, judged),
        reversed=wilson(judged - same, twice),
        rejected=wilson(rejected, n),
        expected=expected,
        compared=n if compared else 0,
        taken_back=wilson(back, kept),
        stands_out=_stands_out(wilson(rejected, n, wide), _others(compared, team, expected, wide)),
    )


def _expected(compared: Strata, team: Strata) -> float | None:
    """The rejection rate of the others, in the mixture of strata that one has read."""
    rates = {at: (team[at][1] - rejected) / (team[at][0] - read) for at, (read, rejected) in compared.items()}
    n = sum(read for read, _ in compared.values())
    return sum(read * rates[at] for at, (read, _) in compared.items()) / n if n else None


def _others(compared: Strata, team: Strata, expected: float | None, wide: float) -> Rate:
    """`expected` with its interval: the mixture's variance is that of so many readings in one stratum."""
    n = sum(read for read, _ in compared.values())
    spread = sum(read**2 / (team[at][0] - read) for at, (read, _) in compared.items())
    return wilson((expected or 0) * n**2 / spread, n**2 / spread, wide) if n else wilson(0, 0)


def _stands_out(own: Rate, others: Rate) -> str:
    """high or low when the interval of the difference is without 0 (Newcombe 1998, hybrid score)."""
    if own.value is None or others.value is None:
        return ""
    gap = own.value - others.value
    if gap > hypot(own.value - own.low, others.high - others.value):
        return "high"
    return "low" if -gap > hypot(own.high - own.value, others.value - others.low) else ""


def _rows(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
