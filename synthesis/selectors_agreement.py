"""How far two blind readers of one sample agree: per style, domain and pair of reviewers.

Readings are the first and second decisions that stand; an adjudication is the reference, not a reading. The database
counts which answers met, so that no figure depends on how many there are.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection

from synthesis.core.agreement import (
    Estimate,
    agreeing,
    cohen_kappa,
    krippendorff_alpha,
    patterns_of,
)
from synthesis.core.rates import Rate, wilson

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
