"""Reads behind the review queue: which items a selection means, why a queue is empty. No text of a sample is read."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q, QuerySet

from synthesis.models import ReviewItem

State = ReviewItem.State
WAITS = (State.HELD, State.OPEN, State.CLAIMED)
EQUAL = {
    "branch": "branch",
    "domain": "domain",
    "style": "style",
    "tier": "tier",
    "round": "round",
    "batch": "batch",
}


def waiting_items() -> QuerySet[ReviewItem]:
    """What somebody has to read yet; the unread rest of a batch is not in it."""
    return ReviewItem.objects.filter(state__in=(State.OPEN, State.CLAIMED))


def in_filters(items: QuerySet[ReviewItem], filters: Mapping[str, Any]) -> QuerySet[ReviewItem]:
    """Items that match every filter given: branch, domain, style, tier, round, batch, rule (its code)."""
    found = items.filter(**{column: filters[name] for name, column in EQUAL.items() if filters.get(name)})
    return found.filter(rule__code=filters["rule"]) if filters.get("rule") else found


def queue_state(reviewer: Any, filters: Mapping[str, Any]) -> dict[str, Any]:
    """Why `reviewer` gets nothing: counts of what is left in the selection, and when the oldest lease ends.

    {"left", "claimed_by_others", "frees_at", "assigned_to_others", "read_by_you", "held", "elsewhere"}
    """
    found = in_filters(ReviewItem.objects.filter(state__in=WAITS), filters)
    read = Q(sample__review_items__decided_by=reviewer)
    others = Q(state=State.CLAIMED) & ~Q(claimed_by=reviewer)
    counts: dict[str, Any] = found.aggregate(
        left=Count("pk", filter=~Q(state=State.HELD)),
        claimed_by_others=Count("pk", filter=others),
        held=Count("pk", filter=Q(state=State.HELD)),
        assigned_to_others=Count(
            "pk", filter=Q(state=State.OPEN, assigned_to__isnull=False) & ~Q(assigned_to=reviewer)
        ),
    )
    frees: datetime | None = found.filter(others).aggregate(at=Min("claimed_until"))["at"]
    open_items = found.filter(state=State.OPEN)
    return {
        **counts,
        "frees_at": frees,
        "read_by_you": open_items.filter(read).distinct().count(),
        "elsewhere": waiting_items().count() - counts["left"],
    }
