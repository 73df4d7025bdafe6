"""The order of the queue, as a statement that takes a reviewer's next item: what claims run most.

What one holds, then own assignments, then what is everybody's, then what one skipped, the longest ago first. Rows that
another transaction has locked are passed over, so that nobody waits and no two take the same.
"""

import random
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any

from rules.models import Rule
from synthesis.models import ReviewItem
from synthesis.selectors_counts import QUEUE_FACETS

COLUMNS = {
    "branch": "branch",
    "domain": "domain_id",
    "style": "style",
    "tier": "tier",
    "round": "round",
    "batch": "batch_id",
}
PICK = """(SELECT i.id FROM synthesis_reviewitem i {join} WHERE {who} AND i.id <> ALL(%(besides)s) {narrow}
  ORDER BY {order} LIMIT 1 FOR NO KEY UPDATE OF i SKIP LOCKED)"""
OPEN = """i.state = 'open' AND i.first_by_id IS DISTINCT FROM %(reviewer)s
  AND NOT EXISTS (SELECT 1 FROM synthesis_reviewitem r
    WHERE r.sample_id = i.sample_id AND r.decided_by_id = %(reviewer)s)"""
FRESH = """NOT EXISTS (SELECT 1 FROM synthesis_reviewskip s
  WHERE s.item_id = i.id AND s.reviewer_id = %(reviewer)s)"""
SKIPPED = "JOIN synthesis_reviewskip k ON k.item_id = i.id AND k.reviewer_id = %(reviewer)s"
MINE, FREE = "i.assigned_to_id = %(reviewer)s", "i.assigned_to_id IS NULL"
PICKS = (  # (who may be met, in which order, joined with)
    ("i.state = 'claimed' AND i.claimed_by_id = %(reviewer)s", "i.rank, i.id", ""),
    (f"{OPEN} AND {MINE} AND {FRESH}", "i.rank, i.id", ""),
    (f"{OPEN} AND {FREE} AND {FRESH}", "i.rank, i.id", ""),
)
# asked for alone, where nothing else is left: planning takes longer than finding
AGAIN = (f"{OPEN} AND ({FREE} OR {MINE})", "k.at", SKIPPED)
# the calibration draw was opened last: by lot among the others, its items are not told by their place
DRAWN = (f"{OPEN} AND {FREE} AND {FRESH} AND i.calibration", "i.rank, i.id", "")
MIXED = 0.1  # the share of claims that look for one of them first
# of some filters there is no index: where the counts know of no item, none is looked for among all that are open
KNOWN = """known AS MATERIALIZED (SELECT coalesce(sum(c.n), 0) > 0 AS any_wait FROM synthesis_reviewcount c
  WHERE c.level IN (0, 2) AND NOT c.held{narrow}), """
IF_KNOWN = " AND (SELECT any_wait FROM known)"
UNINDEXED = {"branch", "style", "tier"}
TAKE = """WITH {known}following AS MATERIALIZED (SELECT coalesce({picks}) AS id)
UPDATE synthesis_reviewitem i SET state = 'claimed', claimed_by_id = %(reviewer)s,
  claimed_until = statement_timestamp() + %(lease)s,
  claim = CASE WHEN i.state = 'claimed' THEN i.claim ELSE gen_random_uuid() END
FROM following WHERE i.id = following.id RETURNING i.*"""


def take_next(
    reviewer: int, filters: Mapping[str, Any], besides: Collection[int], lease: timedelta
) -> ReviewItem | None:
    """Claim the next item of the selection for `reviewer` (an id) and give it; None: there is none to take."""
    given = {"reviewer": reviewer, "besides": list(besides), "lease": lease}
    narrow = "".join(f" AND i.{column} = %({name})s" for name, column in COLUMNS.items() if filters.get(name))
    given |= {name: filters[name] for name in COLUMNS if filters.get(name)}
    if int(filters.get("round") or 0) > ReviewItem.Round.FIRST:
        narrow += " AND i.first_by_id IS NOT NULL"  # of these there is an index
    if code := filters.get("rule"):
        narrow += " AND i.rule_id = ANY(%(rules)s)"
        given["rules"] = list(Rule.objects.filter(code=code).values_list("pk", flat=True))
    known = ""
    if UNINDEXED & given.keys():
        counted = (f" AND c.{name} = %({name})s" for name in QUEUE_FACETS if name in given)
        known, narrow = KNOWN.format(narrow="".join(counted)), narrow + IF_KNOWN
    kinds = (*PICKS[:2], DRAWN, *PICKS[2:]) if random.random() < MIXED else PICKS
    return _taken(kinds, known, narrow, given) or _taken([AGAIN], known, narrow, given)


def _taken(
    kinds: Iterable[tuple[str, str, str]], known: str, narrow: str, given: dict[str, Any]
) -> ReviewItem | None:
    picks = (PICK.format(who=who, order=order, join=join, narrow=narrow) for who, order, join in kinds)
    sql = TAKE.format(known=known, picks=",\n".join(picks))
    return next(iter(ReviewItem.objects.raw(sql, given)), None)
