"""Who reads what: claims on the items of the review queue, with a lease.

One row is taken by one transaction (FOR UPDATE SKIP LOCKED), so that reviewers never wait for each other and never
meet. Time is the database's. A lease that ran out is nobody's after the next sweep; the item keeps the name of the
claim, so that its holder may still decide or go on until somebody else has taken it.
"""

import uuid
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from synthesis.conflicts import conflict
from synthesis.models import ReviewItem, ReviewSkip
from synthesis.queue_order import take_next
from trace_site.access import ADMIN, REVIEWER
from trace_site.lib.errors import TraceError

State = ReviewItem.State
LEASE = timedelta(minutes=5)
NOBODYS = {"claimed_by": None, "claimed_until": None}


def claim_next(
    reviewer: Any, filters: Mapping[str, Any] | None = None, *, besides: Collection[int] = ()
) -> ReviewItem | None:
    """The item `reviewer` reads next, claimed: one they hold already, else the first that waits. None: see
    `selectors_queue.queue_state`.

    besides: items that are not meant, by id: what is on screen while the next one is fetched ahead.
    """
    while (row := take_next(reviewer.pk, filters or {}, besides, LEASE)) is None:
        if not sweep():
            return None
    return row


def claim_item(reviewer: Any, item: int) -> ReviewItem:
    """This very item, claimed. Raises TraceError "conflict" when it is decided, withdrawn or another's."""
    with transaction.atomic():
        row = ReviewItem.objects.select_for_update(no_key=True).filter(pk=item).first()
        if row is None or not (_is_held(row, reviewer) or open_to(reviewer, _only(row)).exists()):
            raise taken(item, reviewer)
        return take(row, reviewer)


def take(row: ReviewItem, reviewer: Any) -> ReviewItem:
    """Claim a locked row that is the reviewer's to read; a claim already held is renewed and keeps its name."""
    row.claim = row.claim if _is_held(row, reviewer) else uuid.uuid4()
    row.state, row.claimed_by = State.CLAIMED, reviewer
    _only(row).update(state=State.CLAIMED, claimed_by=reviewer, claimed_until=Now() + LEASE, claim=row.claim)
    return row


def heartbeat(reviewer: Any, item: int, claim: uuid.UUID | str) -> None:
    """Renew the lease, also one that ran out while nobody took the item.

    Raises TraceError "conflict" when the item is no longer the reviewer's.
    """
    shown = ReviewItem.objects.filter(pk=item, claim=claim)
    lease = {"state": State.CLAIMED, "claimed_by": reviewer, "claimed_until": Now() + LEASE}
    held = shown.filter(state=State.CLAIMED, claimed_by=reviewer)
    if not held.update(**lease) and not open_to(reviewer, shown).update(**lease):
        raise taken(item, reviewer)


@transaction.atomic
def release(reviewer: Any, items: Collection[int] | None = None) -> int:
    """Give back what `reviewer` holds (these items, or all); how many."""
    held = _held(reviewer) if items is None else _held(reviewer).filter(pk__in=items)
    locked = held.select_for_update(no_key=True).order_by("-sample", "-round")
    rows = list(locked.values_list("pk", flat=True))
    return ReviewItem.objects.filter(pk__in=rows).update(state=State.OPEN, claim=None, **NOBODYS)


@transaction.atomic
def skip(reviewer: Any, item: int) -> None:
    """Put an item off: free for everybody at once, and for `reviewer` after all others."""
    row = ReviewItem.objects.filter(pk=item).first()
    if row is None:
        raise conflict([], reviewer)
    ReviewSkip.objects.update_or_create(item=row, reviewer=reviewer, defaults={"at": Now()})
    release(reviewer, [item])


@transaction.atomic
def sweep() -> int:
    """Free every item whose lease has run out or whose holder may no longer review; how many."""
    reviewers = User.objects.filter(pk=OuterRef("claimed_by"), is_active=True)
    reviewers = reviewers.filter(Q(is_superuser=True) | Q(groups__name__in=[REVIEWER, ADMIN]))
    claimed = ReviewItem.objects.filter(state=State.CLAIMED)
    late = claimed.filter(Q(claimed_until__lt=Now()) | ~Exists(reviewers)).order_by()
    rows = list(late.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
    return ReviewItem.objects.filter(pk__in=rows).update(state=State.OPEN, **NOBODYS)


def open_to(reviewer: Any, items: QuerySet[ReviewItem]) -> QuerySet[ReviewItem]:
    """Open items this person may read: not another's, and of no sample they have decided in another round."""
    read = ReviewItem.objects.filter(sample=OuterRef("sample"), decided_by=reviewer)
    mine = Q(assigned_to=None) | Q(assigned_to=reviewer)
    return items.filter(mine, ~Exists(read), state=State.OPEN)


def _held(reviewer: Any) -> QuerySet[ReviewItem]:
    return ReviewItem.objects.filter(claimed_by=reviewer, state=State.CLAIMED)


def _is_held(row: ReviewItem, reviewer: Any) -> bool:
    return row.state == State.CLAIMED and row.claimed_by_id == reviewer.pk


def _only(row: ReviewItem) -> QuerySet[ReviewItem]:
    return ReviewItem.objects.filter(pk=row.pk)


def taken(item: int, reviewer: Any) -> TraceError:
    """Why this item is not the reviewer's, as TraceError "conflict"."""
    rows = ReviewItem.objects.select_related("claimed_by", "decided_by", "assigned_to")
    return conflict(list(rows.filter(sample__review_items=item).order_by("-round")), reviewer)
