"""Reads behind the review queue: which items a selection means, why a queue is empty. No text of a sample is read."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet

from rules.models import Rule
from synthesis.models import ReviewItem
from synthesis.selectors_counts import queue_totals

State = ReviewItem.State
WAITS = (State.HELD, State.OPEN, State.CLAIMED)
OPEN_AGAIN = Q(state=State.OPEN, first_by__isnull=False)  # of these there is an index
EQUAL = ("branch", "domain", "style", "tier", "round", "batch")


def waiting_items() -> QuerySet[ReviewItem]:
    """What somebody has to read yet; the unread rest of a batch is not in it."""
    return ReviewItem.objects.filter(state__in=(State.OPEN, State.CLAIMED))


def in_filters(items: QuerySet[ReviewItem], filters: Mapping[str, Any]) -> QuerySet[ReviewItem]:
    """Items that match every filter given: branch, domain, style, tier, round, batch, rule (its code)."""
    found = items.filter(**{name: filters[name] for name in EQUAL if filters.get(name)})
    if code := filters.get("rule"):  # by id: the index of a rule's open items has their order
        found = found.filter(rule__in=list(Rule.objects.filter(code=code).values_list("pk", flat=True)))
    return found


def queue_state(reviewer: Any, filters: Mapping[str, Any]) -> dict[str, Any]:
    """Why `reviewer` gets nothing: counts of what is left in the selection, and when the oldest lease ends.

    {"left", "claimed_by_others", "frees_at", "assigned_to_others", "read_by_you", "adjudications_read_by_you", "held",
    "elsewhere"}. Nothing here grows with the queue: rollups, what is claimed now, open adjudications, one batch.
    """
    counts = _of_batch(reviewer, filters) if filters.get("batch") else queue_totals(reviewer, filters)
    claimed = ReviewItem.objects.filter(state=State.CLAIMED).exclude(claimed_by=reviewer)
    claims = in_filters(claimed, filters).aggregate(count=Count("pk"), frees=Min("claimed_until"))
    thirds = (
        in_filters(_read_by(reviewer), filters)
        .filter(OPEN_AGAIN | Q(state=State.CLAIMED), rank=0)
        .aggregate(all=Count("pk"), not_first=Count("pk", filter=~Q(first_by=reviewer)))
    )
    if not filters.get("batch"):  # the rollup knows who read first, the second reader is looked up
        counts["read_by_you"] += thirds["not_first"]
    return {
        **counts,
        "claimed_by_others": claims["count"],
        "frees_at": claims["frees"],
        "adjudications_read_by_you": thirds["all"],
    }


def _read_by(reviewer: Any) -> QuerySet[ReviewItem]:
    """Waiting items of samples this person has decided in another round."""
    mine = ReviewItem.objects.filter(sample=OuterRef("sample"), decided_by=reviewer)
    return waiting_items().filter(Exists(mine), round__gt=ReviewItem.Round.FIRST)


def _of_batch(reviewer: Any, filters: Mapping[str, Any]) -> dict[str, int]:
    """As `queue_totals`, of the items of one batch."""
    found = in_filters(ReviewItem.objects.filter(state__in=WAITS), filters)
    waits = ~Q(state=State.HELD)
    others = Q(assigned_to__isnull=False) & ~Q(assigned_to=reviewer)
    counts: dict[str, int] = found.aggregate(
        left=Count("pk", filter=waits),
        held=Count("pk", filter=~waits),
        assigned_to_others=Count("pk", filter=waits & others),
    )
    read = in_filters(_read_by(reviewer), filters).count()
    everywhere = queue_totals(reviewer, {})["left"]
    return {**counts, "read_by_you": read, "elsewhere": everywhere - counts["left"]}
