"""Reads about reviewing: how far one is today, what became of all samples, the decisions of one."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from synthesis.models import Decision, ReviewItem, Sample
from synthesis.selectors_counts import status_totals, waiting_total


@dataclass(frozen=True, slots=True)
class Progress:
    """A reviewer's day: own decisions, and what is left for everybody."""

    today: int
    left: int

    @property
    def percent(self) -> int:
        return round(100 * self.today / (self.today + self.left)) if self.today + self.left else 0


def progress(user: Any) -> Progress:
    """Decisions standing today: what one undid does not count. Two queries."""
    start = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    today = ReviewItem.objects.filter(decided_by=user, decided_at__gte=start).count()
    return Progress(today, waiting_total())


def sample_totals() -> dict[str, int]:
    """What became of all samples: being written, waiting for a reading, approved, rejected, dropped. Two queries."""
    totals = dict.fromkeys(("writing", "approved", "rejected", "dropped"), 0)
    for (machine, human), count in status_totals().items():
        totals["writing"] += count * (machine == Sample.Machine.PENDING)
        totals["dropped"] += count * (machine == Sample.Machine.DROPPED)
        totals["approved"] += count * (human == Sample.Human.APPROVED)
        totals["rejected"] += count * (human == Sample.Human.REJECTED)
    return {**totals, "waiting": waiting_total()}


def decisions(of: Sample) -> QuerySet[Decision]:
    return of.decisions.select_related("reviewer")
