"""Who reads what: claims on the items of the review queue, with a lease.

One row is taken by one transaction (FOR UPDATE SKIP LOCKED), so that reviewers never wait for each other and never
meet. Time is the database's. A lease that ran out is nobody's after the next sweep; its holder may still decide until
somebody else has taken the item.
"""

import uuid
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from synthesis.models import ReviewItem, ReviewSkip
from synthesis.selectors_queue import in_filters
from trace_site.lib.errors import TraceError

LEASE = timedelta(minutes=5)
FREE = {"claimed_by": None, "claimed_until": None, "claim": None}


def claim_next(
    reviewer: Any, filters: Mapping[str, Any] | None = None, *, besides: Collection[int] = ()
) -> ReviewItem | None:
    """The item `reviewer` reads next, claimed: one they hold already, else the first that waits. None: see
    `selectors_queue.queue_state`.

    besides: items that are not meant, by id: what is on screen while the next one is fetched ahead.
    """
    filters = filters or {}
    with transaction.atomic():
        mine = ReviewItem.objects.filter(claimed_by=reviewer, state=ReviewItem.State.CLAIMED)
        held = in_filters(mine, filters).exclude(pk__in=besides).select_for_update(skip_locked=True).first()
        return _take(held or _first_open(reviewer, filters), reviewer)


def claim_item(reviewer: Any, item: int) -> ReviewItem:
    """This very item, claimed. Raises TraceError "conflict" when it is decided, withdrawn or another's."""
    with transaction.atomic():
        row = ReviewItem.objects.select_for_update().filter(pk=item).first()
        mine = row is not None and row.state == ReviewItem.State.CLAIMED and row.claimed_by_id == reviewer.pk
        if row is None or not (mine or open_to(reviewer, ReviewItem.objects.filter(pk=item)).exists()):
            raise conflict(item)
        taken = _take(row, reviewer)
        assert taken is not None
        return taken


def heartbeat(reviewer: Any, item: int, claim: uuid.UUID | str) -> None:
    """Renew the lease. Raises TraceError "conflict" when the item is no longer the reviewer's."""
    mine = ReviewItem.objects.filter(
        pk=item, claimed_by=reviewer, claim=claim, state=ReviewItem.State.CLAIMED
    )
    if not mine.update(claimed_until=Now() + LEASE):
        raise conflict(item)


def release(reviewer: Any, items: Collection[int] | None = None) -> int:
    """Give back what `reviewer` holds (these items, or all); how many."""
    held = ReviewItem.objects.filter(claimed_by=reviewer, state=ReviewItem.State.CLAIMED)
    held = held if items is None else held.filter(pk__in=items)
    return held.update(state=ReviewItem.State.OPEN, **FREE)


@transaction.atomic
def skip(reviewer: Any, item: int) -> None:
    """Put an item off: free for everybody at once, and for `reviewer` after all others."""
    row = ReviewItem.objects.filter(pk=item).first()
    if row is None:
        raise conflict(item)
    ReviewSkip.objects.update_or_create(item=row, reviewer=reviewer, defaults={"at": Now()})
    release(reviewer, [item])


def sweep() -> int:
    """Free every item whose lease has run out; how many."""
    late = ReviewItem.objects.filter(state=ReviewItem.State.CLAIMED, claimed_until__lt=Now())
    with transaction.atomic():
        rows = list(late.select_for_update(skip_locked=True).values_list("pk", flat=True))
        return ReviewItem.objects.filter(pk__in=rows).update(state=ReviewItem.State.OPEN, **FREE)


def open_to(reviewer: Any, items: QuerySet[ReviewItem]) -> QuerySet[ReviewItem]:
    """Open items this person may read: not another's, and of no sample they have decided in another round."""
    read = ReviewItem.objects.filter(sample=OuterRef("sample"), decided_by=reviewer)
    mine = Q(assigned_to=None) | Q(assigned_to=reviewer)
    return items.filter(mine, ~Exists(read), state=ReviewItem.State.OPEN)


def conflict(item: int) -> TraceError:
    return TraceError(
        "somebody else has it, or it is decided already.",
        code="conflict",
        where=f"item {item}",
        hint="Take the next one.",
    )


def _first_open(reviewer: Any, filters: Mapping[str, Any]) -> ReviewItem | None:
    """Own assignments first, then what is everybody's, then what one skipped, the longest ago first."""
    found = in_filters(open_to(reviewer, ReviewItem.objects.all()), filters)
    skipped = ReviewSkip.objects.filter(item=OuterRef("pk"), reviewer=reviewer)
    fresh = found.filter(~Exists(skipped))
    again = found.filter(skips__reviewer=reviewer).order_by("skips__at")
    for rows in (fresh.filter(assigned_to=reviewer), fresh.filter(assigned_to=None), again):
        if row := rows.select_for_update(skip_locked=True, of=("self",)).first():
            return row
    return _first_open(reviewer, filters) if sweep() else None


def _take(row: ReviewItem | None, reviewer: Any) -> ReviewItem | None:
    """Claim a locked row; a claim already held is renewed and keeps its name."""
    if row is None:
        return None
    row.state, row.claimed_by = ReviewItem.State.CLAIMED, reviewer
    row.claim = row.claim or uuid.uuid4()
    ReviewItem.objects.filter(pk=row.pk).update(
        state=row.state, claimed_by=reviewer, claimed_until=Now() + LEASE, claim=row.claim
    )
    return row
