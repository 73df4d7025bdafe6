"""Reads behind the review queue: what waits, what comes next, how far one is today."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Max, Q, QuerySet
from django.utils import timezone

from synthesis.models import Decision, Sample
from synthesis.selectors_standing import OVERTAKEN, REPLACED


@dataclass(frozen=True, slots=True)
class Progress:
    """A reviewer's day: own decisions, and what is left for everybody."""

    today: int
    left: int

    @property
    def percent(self) -> int:
        return round(100 * self.today / (self.today + self.left)) if self.today + self.left else 0


def waiting() -> QuerySet[Sample]:
    """What a person should decide: machine-ready, not decided yet and not superseded, oldest first."""
    rows = Sample.objects.filter(~REPLACED, ~OVERTAKEN, machine=Sample.Machine.READY)
    return rows.filter(human=Sample.Human.PENDING).order_by("pk")


def waiting_in(filters: dict[str, Any]) -> QuerySet[Sample]:
    found = waiting()
    for name in ("branch", "domain", "style"):
        if filters.get(name):
            found = found.filter(**{name: filters[name]})
    return found.filter(rule_version__rule__code=filters["rule"]) if filters.get("rule") else found


def next_waiting(filters: dict[str, Any], *, after: int = 0) -> int | None:
    """The next sample to decide; past the end it starts again with what was skipped."""
    found = waiting_in(filters).values_list("pk", flat=True)
    return found.filter(pk__gt=after).first() or found.first()


def previous_waiting(filters: dict[str, Any], *, before: int) -> int | None:
    return waiting_in(filters).filter(pk__lt=before).values_list("pk", flat=True).last()


def progress(user: Any) -> Progress:
    """Decisions standing today: what one undid does not count."""
    start = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    newest = (
        Sample.objects.filter(decisions__reviewer=user, decisions__at__gte=start)
        .annotate(last=Max("decisions__pk"))
        .filter(decisions__pk=F("last"))
        .values("decisions__verdict")
        .annotate(count=Count("pk"))
        .values_list("decisions__verdict", "count")
    )
    counts: dict[str, int] = dict(newest)
    made = {Decision.Verdict.APPROVE, Decision.Verdict.EDIT, Decision.Verdict.REJECT}
    return Progress(sum(counts.get(verdict, 0) for verdict in made), waiting().count())


def last_own_decision(user: Any) -> Decision | None:
    """What `undo` would take back: the newest own decision that is still the last word on its sample."""
    latest = Decision.objects.filter(reviewer=user).exclude(verdict=Decision.Verdict.UNDO)
    for decision in latest.select_related("sample").order_by("-pk")[:20]:
        if not Decision.objects.filter(sample=decision.sample_id, pk__gt=decision.pk).exists():
            return decision
    return None


def queue_state() -> dict[str, int]:
    """Why the queue is as it is: what is being written, ready, decided, dropped."""
    counts = Sample.objects.aggregate(
        writing=Count("pk", filter=Q(machine=Sample.Machine.PENDING)),
        approved=Count("pk", filter=Q(human=Sample.Human.APPROVED)),
        rejected=Count("pk", filter=Q(human=Sample.Human.REJECTED)),
        dropped=Count("pk", filter=Q(machine=Sample.Machine.DROPPED)),
    )
    return {**counts, "waiting": waiting().count()}


def decisions(of: Sample) -> QuerySet[Decision]:
    return of.decisions.select_related("reviewer")
