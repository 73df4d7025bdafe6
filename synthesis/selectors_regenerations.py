"""Reads behind rejections that are written again: what waits, who has it, how often a slot was tried."""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, Q
from django.db.models.functions import Now

from synthesis.models import Decision, Regeneration, Sample, SynthesisRun
from trace_site.jobs import Job

State = Regeneration.State
OPEN = (State.WAITING, State.WRITING)
STOPPED = (Job.State.FAILED, Job.State.CANCELLED, Job.State.QUARANTINED)


def written_again(branch: str) -> set[int]:
    """Rejected samples that are to be written again."""
    rows = Regeneration.objects.filter(state__in=OPEN, sample__branch=branch)
    return set(rows.values_list("sample", flat=True))


def times_written(sample: Sample) -> int:
    """How often what stood in the sample's slot, for its rule version, was written again or is to be."""
    rows = Regeneration.objects.filter(sample__branch=sample.branch, sample__slot=sample.slot)
    rows = rows.filter(sample__rule_version=sample.rule_version_id).exclude(sample=sample)
    return rows.filter(Q(state__in=OPEN) | Q(replacement__isnull=False)).count()


def refusals(sample: Sample) -> list[Decision]:
    """The rejections of a sample that were not taken back, in order."""
    rows = list(Decision.objects.filter(sample=sample, policy="").order_by("pk"))
    undone = {row.after.get("undoes") for row in rows if row.verdict == Decision.Verdict.UNDO}
    return [row for row in rows if row.verdict == Decision.Verdict.REJECT and row.pk not in undone]


@dataclass(frozen=True, slots=True)
class Again:
    """Rejected samples to write again. `writing`: of runs under way; `stopped`: {run that stopped: how many}."""

    waiting: int
    writing: int
    stopped: dict[int, int]

    @property
    def to_start(self) -> int:
        """What the button starts."""
        return self.waiting + sum(self.stopped.values())


def again() -> Again:
    """One query."""
    rows = Regeneration.objects.filter(state__in=OPEN).order_by().values_list("run", "run__job__state")
    counts = list(rows.annotate(count=Count("pk")))
    stopped = {run: count for run, state, count in counts if state in STOPPED}
    waiting = sum(count for run, _, count in counts if run is None)
    return Again(waiting, sum(c for *_, c in counts) - waiting - sum(stopped.values()), stopped)


def runs_of_waiting() -> list[tuple[SynthesisRun, int, int]]:
    """[(a run, how many of its samples the button writes again, of how many the trace alone)]"""
    rows = Regeneration.objects.filter(Q(state=State.WAITING) | held_by_stopped()).order_by()
    only = Count("pk", filter=Q(decision__reason="bad_trace"))
    counts = list(rows.values_list("sample__run").annotate(count=Count("pk"), traces=only))
    runs = SynthesisRun.objects.in_bulk([run for run, *_ in counts])
    return [(runs[run], count, traces) for run, count, traces in counts]


def held_by_stopped() -> Q:
    return Q(state=State.WRITING, run__job__state__in=STOPPED)


def is_due() -> bool:
    """Whether enough wait, or one long enough, and none is being written."""
    most, minutes = settings.REVIEW_REGENERATE_COUNT, settings.REVIEW_REGENERATE_MINUTES
    late = Q(state=State.WAITING, at__lte=Now() - timedelta(minutes=minutes))
    found = Regeneration.objects.filter(state__in=OPEN).aggregate(
        writing=Count("pk", filter=Q(state=State.WRITING)),
        waiting=Count("pk", filter=Q(state=State.WAITING)),
        late=Count("pk", filter=late),
    )
    if found["writing"]:
        return False
    return 0 < most <= found["waiting"] or (minutes > 0 and found["late"] > 0)
