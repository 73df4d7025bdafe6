"""Who reads what: claims on the items of the review queue, with a lease.

One row is taken by one transaction (FOR UPDATE SKIP LOCKED), so that reviewers never wait for each other and never
meet. Time is the database's. A lease that ran out is nobody's after the next sweep; the item keeps the name of the
claim, so that its holder may still decide or go on until somebody else has taken it.
"""

import random
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Case, Exists, Max, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Now

from rules.models import Rule
from synthesis.models import ReviewItem, ReviewSkip, Sample
from synthesis.samples.counts import QUEUE_FACETS
from synthesis.samples.staleness import OVERTAKEN, REPLACED
from trace_site.access import ADMIN, PROGRAM, REVIEWER
from trace_site.database import database_now
from trace_site.lib.errors import TraceError

Round, State = ReviewItem.Round, ReviewItem.State
WAITS = (State.HELD, State.OPEN, State.CLAIMED)
LEASE = timedelta(minutes=5)
NOBODYS = {"claimed_by": None, "claimed_until": None}


def claim_next(
    reviewer: Any, filters: Mapping[str, Any] | None = None, *, besides: Collection[int] = ()
) -> ReviewItem | None:
    """The item `reviewer` reads next, claimed: one they hold already, else the first that waits. None: see
    `selectors.queue_state`. besides: ids of items that are not meant: what is on screen while the next is fetched.
    """
    while (row := take_next(reviewer.pk, filters or {}, besides)) is None:
        if not sweep():
            return None
    return row


def claim_item(reviewer: Any, item: int) -> ReviewItem:
    """This very item, claimed. Raises TraceError "conflict" when it is decided, withdrawn or another's."""
    with transaction.atomic():
        only = ReviewItem.objects.filter(pk=item)
        row = only.select_for_update(no_key=True).first()
        if row is None or (row.claimed_by_id != reviewer.pk and not open_to(reviewer, only).exists()):
            raise taken(item, reviewer)
        return take(row, reviewer)


def take(row: ReviewItem, reviewer: Any) -> ReviewItem:
    """Claim a locked row that is the reviewer's to read; a claim already held is renewed and keeps its name."""
    if row.claimed_by_id != reviewer.pk:
        row.state, row.claimed_by, row.claim = State.CLAIMED, reviewer, uuid.uuid4()
    lease = {"state": State.CLAIMED, "claimed_by": reviewer, "claimed_until": Now() + LEASE}
    ReviewItem.objects.filter(pk=row.pk).update(**lease, claim=row.claim)
    return row


def heartbeat(reviewer: Any, item: int, claim: uuid.UUID | str) -> None:
    """Renew the lease, also one that ran out while nobody took the item. Raises TraceError "conflict" when the item is
    no longer the reviewer's.
    """
    shown = ReviewItem.objects.filter(pk=item, claim=claim)
    lease = {"state": State.CLAIMED, "claimed_by": reviewer, "claimed_until": Now() + LEASE}
    held = shown.filter(state=State.CLAIMED, claimed_by=reviewer)
    if not held.update(**lease) and not open_to(reviewer, shown).update(**lease):
        raise taken(item, reviewer)


@transaction.atomic
def release(reviewer: Any, items: Collection[int] | None = None) -> int:
    """Give back what `reviewer` holds (these items, or all); how many."""
    held = ReviewItem.objects.filter(claimed_by=reviewer, state=State.CLAIMED)
    if items is not None:
        held = held.filter(pk__in=items)
    locked = held.select_for_update(no_key=True).order_by("-sample", "-round")
    rows = list(locked.values_list("pk", flat=True))
    return ReviewItem.objects.filter(pk__in=rows).update(state=State.OPEN, claim=None, **NOBODYS)


@transaction.atomic
def skip(reviewer: Any, item: int) -> None:
    """Put an item off: free for everybody at once, and for `reviewer` after all others."""
    if not ReviewItem.objects.filter(pk=item).exists():
        raise conflict([], reviewer)
    ReviewSkip.objects.update_or_create(item_id=item, reviewer=reviewer, defaults={"at": Now()})
    release(reviewer, [item])


@transaction.atomic
def sweep() -> int:
    """Free every item whose lease has run out or whose holder may no longer review; how many."""
    holder = reviewers().filter(pk=OuterRef("claimed_by"))
    claimed = ReviewItem.objects.filter(state=State.CLAIMED)
    late = claimed.filter(Q(claimed_until__lt=Now()) | ~Exists(holder)).order_by()
    rows = list(late.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
    return ReviewItem.objects.filter(pk__in=rows).update(state=State.OPEN, **NOBODYS)


def reviewers() -> QuerySet[User]:
    """Everybody who may read the queue, by name."""
    may_read = Q(is_superuser=True) | Q(groups__name__in=(REVIEWER, ADMIN))
    found = User.objects.exclude(groups__name=PROGRAM).filter(may_read, is_active=True)
    return found.distinct().order_by("username")


def open_to(reviewer: Any, items: QuerySet[ReviewItem]) -> QuerySet[ReviewItem]:
    """Open items this person may read: not another's, and of no sample they have decided in another round."""
    read = ReviewItem.objects.filter(sample=OuterRef("sample"), decided_by=reviewer)
    mine = Q(assigned_to=None) | Q(assigned_to=reviewer)
    return items.filter(mine, ~Exists(read), state=State.OPEN)


def taken(item: int, reviewer: Any) -> TraceError:
    """Why this item is not the reviewer's, as TraceError "conflict"."""
    rows = ReviewItem.objects.select_related("claimed_by", "decided_by", "assigned_to")
    return conflict(list(rows.filter(sample__review_items=item).order_by("-round")), reviewer)


# The order of the queue, as a statement that takes a reviewer's next item: what claims run most.
#
# What one holds, then own assignments, then what is everybody's, then what one skipped, the longest ago first. Rows
# that another transaction has locked are passed over, so that nobody waits and no two take the same.


COLUMNS = {name: name for name in ("branch", "style", "tier", "round")}
COLUMNS |= {"domain": "domain_id", "batch": "batch_id"}
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


def take_next(reviewer: int, filters: Mapping[str, Any], besides: Collection[int]) -> ReviewItem | None:
    """Claim the next item of the selection for `reviewer` (an id) and give it; None: there is none to take."""
    given = {"reviewer": reviewer, "besides": list(besides), "lease": LEASE}
    narrow = "".join(f" AND i.{column} = %({name})s" for name, column in COLUMNS.items() if filters.get(name))
    given |= {name: filters[name] for name in COLUMNS if filters.get(name)}
    if int(filters.get("round") or 0) > Round.FIRST:
        narrow += " AND i.first_by_id IS NOT NULL"  # of these there is an index
    if code := filters.get("rule"):
        narrow += " AND i.rule_id = ANY(%(rules)s)"
        given["rules"] = list(Rule.objects.filter(code=code).values_list("pk", flat=True))
    known = ""
    if UNINDEXED & given.keys():
        counted = (f" AND c.{name} = %({name})s" for name in QUEUE_FACETS if name in given)
        known, narrow = KNOWN.format(narrow="".join(counted)), narrow + IF_KNOWN
    kinds = (*PICKS[:2], DRAWN, *PICKS[2:]) if random.random() < MIXED else PICKS
    for tried in (kinds, [AGAIN]):
        picks = (PICK.format(who=who, order=order, join=join, narrow=narrow) for who, order, join in tried)
        sql = TAKE.format(known=known, picks=",\n".join(picks))
        if row := next(iter(ReviewItem.objects.raw(sql, given)), None):
            return row
    return None


# Why an item is not one's to read or decide, in a sentence: what is answered to whoever comes too late.


NEXT = "Take the next one."


def conflict(items: Sequence[ReviewItem], reviewer: Any) -> TraceError:
    """TraceError "conflict" about the items of one sample; the one that waits is told of, else the newest reading."""
    if not items:
        return TraceError("there is nothing to decide any more.", code="conflict", hint=NEXT)
    item = next((item for item in items if item.state in WAITS), items[0])
    return TraceError(
        why_not(item, items, reviewer),
        code="conflict",
        where=f"sample {item.sample_id}",
        hint=NEXT,
        extra={"sample": item.sample_id, "item": item.pk, "round": item.round, "state": item.state},
    )


def why_not(item: ReviewItem, items: Sequence[ReviewItem], reviewer: Any) -> str:
    """One sentence. Who decided a reading is not told while another, blind one may follow."""
    if item.state == State.HELD:
        return "its batch holds it: only some samples of the batch are read."
    if item.state in (State.DECIDED, State.WITHDRAWN):
        row = Sample.objects.select_related("rule_version__rule").defer("trace").get(pk=item.sample_id)
        final = row.human if row.human in (Sample.Human.APPROVED, Sample.Human.REJECTED) else ""
    if item.state == State.DECIDED:
        if item.decided_by_id == reviewer.pk:
            return "you have decided it already, otherwise than now."
        if item.decided_by_id is None:
            return "it is approved by now, unread: with its batch or by a policy."
        if final:
            return f"{item.decided_by} has decided it meanwhile: {final}."
        return "somebody else has decided it meanwhile."
    if item.state == State.WITHDRAWN:
        rule = row.rule_version and row.rule_version.rule
        if final:
            return f"it is {final} by now."
        if rule and rule.published_id != row.rule_version_id:
            return f"rule {rule.code} was published anew, so the sample no longer waits."
        return "it no longer waits: a newer sample stands in its place, or its reading was taken back."
    if any(other.decided_by_id == reviewer.pk for other in items):
        return "you have read it in another round; this reading is somebody else's."
    if item.state == State.CLAIMED and item.claimed_by_id == reviewer.pk:
        return "you were shown it anew since, in another tab or after an undo."
    if item.state == State.CLAIMED:
        assert item.claimed_until is not None
        minutes = max(1, round((item.claimed_until - database_now()).total_seconds() / 60))
        return f"{item.claimed_by} has it now, for {minutes} min unless they go on."
    if item.assigned_to_id not in (None, reviewer.pk):
        return f"it is assigned to {item.assigned_to}."
    return "it was opened anew since you were shown it."


# Whether the items are what samples and rules say, and setting right what is not.
#
# Triggers keep them (migration 0003), each seeing what was committed before its own statement. Two transactions at once
# on siblings of one slot, or on a rule and a sample of it, can each miss the other; and nothing is told when a run ends
# and gives up what it planned. Then an item waits that should not, or none does. This finds those.


WIDTH = 20_000  # sample ids that one sweep looks at, beside the newest as many


def wrong_items(first: int = 0, last: int = 2**63 - 1) -> set[int]:
    """Samples (ids from `first` to `last`) whose items are not the one they should have."""
    human = Sample.Human
    rounds = {human.PENDING: Round.FIRST, human.SECOND: Round.SECOND, human.DISPUTED: Round.THIRD}
    wanted = Sample.objects.filter(
        ~REPLACED, ~OVERTAKEN, machine=Sample.Machine.READY, human__in=rounds
    ).annotate(wanted=Case(*(When(human=human, then=Value(round)) for human, round in rounds.items())))
    waiting = ReviewItem.objects.filter(state__in=WAITS)
    item = waiting.filter(sample=OuterRef("pk"), round=OuterRef("wanted"))
    right = wanted.filter(Q(wanted=OuterRef("round")), pk=OuterRef("sample"))
    missing = wanted.filter(~Exists(item), pk__range=(first, last)).order_by()
    extra = waiting.filter(~Exists(right), sample__gte=first, sample__lte=last, calibration=False).order_by()
    return {*missing.values_list("pk", flat=True), *extra.values_list("sample", flat=True)}


@transaction.atomic
def repair_items(samples: set[int]) -> None:
    """Have the triggers' function look at these samples again."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT synthesis_review_sync(%s)", [sorted(samples)])


def sweep_items() -> int:
    """Look at the newest samples and at one part of the others, drawn by lot; how many were set right."""
    newest: int = Sample.objects.aggregate(last=Max("pk"))["last"] or 0
    parts = {newest // WIDTH, random.randrange(newest // WIDTH + 1)}
    found = {pk for part in parts for pk in wrong_items(part * WIDTH, (part + 1) * WIDTH)}
    if found:
        repair_items(found)
    return len(found)
