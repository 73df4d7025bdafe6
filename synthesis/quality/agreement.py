"""How far two blind readers of one sample agree: per style, domain and pair of reviewers.

Readings are the first and second decisions that stand; an adjudication is the reference, not a reading. The database
counts which answers met, so that no figure depends on how many there are.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import connection

from synthesis.core.agreement import (
    VERDICTS,
    Z95,
    Bounds,
    Rate,
    agreeing,
    cohen_kappa,
    krippendorff_alpha,
    minus,
    wilson,
)
from trace_site.access import ADMIN, roles_of

PLACES = {verdict: place for place, verdict in enumerate(VERDICTS)}
EDIT_APPROVES = {"approve": 0, "edit": 0, "reject": 1}
Table = list[list[int]]
Figures = dict[str, Any]  # plain values, a `Rate` or an `Estimate`: what pages, CSV files and the API show

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
WHERE two.round = 2 AND two.state = 'decided' {of_runs}
GROUP BY 1, 2, 3, 4, 5, 6, 7
"""


class TwoReadings(NamedTuple):
    """So many samples of a domain and kind that these two people read with these verdicts."""

    domain: str
    kind: str  # the style of a rule sample, the tier of another
    one: int
    other: int
    of_one: str
    of_other: str
    disputed: bool
    units: int


def only_own(viewer: Any) -> int | None:
    """Of whom `viewer` sees figures by name, by id: an admin everybody (None), a reviewer totals and their own."""
    return None if ADMIN in roles_of(viewer) else viewer.pk


def agreements(*, reviewer: int | None = None, most_pairs: int = 50) -> Figures:
    """{"overall", "domains", "styles", "pairs": the most samples in common first, "more_pairs"}. Two queries. A pair
    has kappa over the three verdicts, and with an edit counted as an approval. reviewer: an id; its pairs alone.
    """
    rows = read_twice()
    domains, kinds = defaultdict[str, list[TwoReadings]](list), defaultdict[str, list[TwoReadings]](list)
    by_pair = defaultdict[tuple[int, int], list[TwoReadings]](list)
    for row in rows:
        domains[row.domain].append(row)
        kinds[row.kind].append(row)
        if reviewer in (None, row.one, row.other):
            by_pair[row.one, row.other].append(row)
    pairs = sorted(by_pair.items(), key=lambda pair: (-sum(row.units for row in pair[1]), pair[0]))
    people = {who for ids, _ in pairs[:most_pairs] for who in ids}
    names = dict(User.objects.filter(pk__in=people).values_list("pk", "username"))
    shown = []
    for (one, other), found in pairs[:most_pairs]:
        table = table_of(found)
        kappa, collapsed = cohen_kappa(table), cohen_kappa(table_of(found, EDIT_APPROVES))
        pair = {"one": names[one], "other": names[other], "n": kappa.n, "kappa": kappa}
        shown.append({**pair, "collapsed": collapsed, "same_verdict": wilson(*agreeing(table))})
    return {
        "overall": _agreement("all", rows),
        "domains": [_agreement(name, found) for name, found in sorted(domains.items())],
        "styles": [_agreement(name, found) for name, found in sorted(kinds.items())],
        "pairs": shown,
        "more_pairs": max(0, len(pairs) - most_pairs),
    }


def _agreement(name: str, rows: list[TwoReadings]) -> Figures:
    """alpha over approve, edit, reject; same_verdict of all read twice; same_outcome: same texts, or both refused."""
    table, settled = table_of(rows), sum(row.units for row in rows if not row.disputed)
    alpha = krippendorff_alpha(table)
    outcome = wilson(settled, sum(row.units for row in rows))
    verdict = wilson(*agreeing(table))
    return {"name": name, "n": alpha.n, "alpha": alpha, "same_verdict": verdict, "same_outcome": outcome}


def read_twice(runs: Collection[int] | None = None) -> list[TwoReadings]:
    """runs: of their samples only."""
    if runs is None:
        return [TwoReadings(*row) for row in fetched(READ_TWICE.format(of_runs=""))]
    own = "AND two.sample_id IN (SELECT id FROM synthesis_sample WHERE run_id = ANY(%s))"
    return [TwoReadings(*row) for row in fetched(READ_TWICE.format(of_runs=own), list(runs))]


def table_of(rows: Iterable[TwoReadings], places: Mapping[str, int] = PLACES) -> Table:
    """Rows: the verdict of the one; columns: of the other. places: {verdict: its row and column}."""
    size = max(places.values()) + 1
    table = [[0] * size for _ in range(size)]
    for row in rows:
        table[places[row.of_one]][places[row.of_other]] += row.units
    return table


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

Strata = dict[tuple[str, str], tuple[int, int]]  # (domain, kind) -> (read, rejected)


def qualities(reviewer: int | None = None) -> list[Figures]:
    """One row a reviewer, the most readings first; or one reviewer's own row. Four queries.

    adjudicated: of the readings a third person decided about, those with the same outcome. reversed: of the readings of
    samples read twice, those that ended otherwise. expected: the rejection rate of the others on the same strata;
    stands_out: high or low, where one rejects more or less than that.
    """
    team: Strata = {}
    read: dict[int, Strata] = defaultdict(dict)
    for who, domain, kind, count, rejected in fetched(READ):
        read[who][domain, kind] = count, rejected
        before = team.get((domain, kind), (0, 0))
        team[domain, kind] = before[0] + count, before[1] + rejected
    ended = {who: counts for who, *counts in fetched(ENDED)}
    undone = {who: counts for who, *counts in fetched(TAKEN_BACK)}
    total = {who: sum(count for count, _ in own.values()) for who, own in read.items()}
    people = sorted(read, key=lambda who: (-total[who], who))
    shown = [who for who in people if reviewer in (None, who)]
    # so wide that by chance alone 1 team in 20 has anybody who stands out
    wide = NormalDist().inv_cdf(1 - 0.025 / max(1, len(people)))
    names = dict(User.objects.filter(pk__in=shown).values_list("pk", "username"))
    rows = []
    for who in shown:
        twice, judged, same = ended.get(who, (0, 0, 0))
        kept, back = undone.get(who, (0, 0))
        row: Figures = {"reviewer": who, "name": names[who], "readings": total[who]}
        row |= {"adjudicated": wilson(same, judged), "reversed": wilson(judged - same, twice)}
        rows.append({**row, **_against_team(read[who], team, wide), "taken_back": wilson(back, kept)})
    return rows


def _of(strata: Strata, z: float = Z95) -> Rate:
    return wilson(sum(refused for _, refused in strata.values()), sum(read for read, _ in strata.values()), z)


def _against_team(own: Strata, team: Strata, wide: float) -> Figures:
    """What one rejects, beside the others on the same strata and in the same mixture; whether one stands out."""
    compared = {at: counts for at, counts in own.items() if team[at][0] > counts[0]}
    if not compared:
        return {"rejected": _of(own), "expected": None, "stands_out": ""}
    others = {at: (team[at][0] - read, team[at][1] - refused) for at, (read, refused) in compared.items()}
    n = sum(read for read, _ in compared.values())
    expected = sum(compared[at][0] * refused / read for at, (read, refused) in others.items()) / n
    # the mixture's variance is that of so many readings in one stratum
    worth = n**2 / sum(compared[at][0] ** 2 / read for at, (read, _) in others.items())
    rates = (_of(compared, wide), wilson(expected * worth, worth, wide))
    gap = minus(*(Bounds(rate.value or 0.0, rate.low, rate.high) for rate in rates))
    stands_out = "high" if gap.low > 0 else "low" if gap.high < 0 else ""
    return {"rejected": _of(compared), "expected": expected, "stands_out": stands_out}


def fetched(sql: str, *given: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, given or None)
        return list(cursor.fetchall())
