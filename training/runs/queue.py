"""The queue of the worker that trains: what runs, what waits in which order, and when each may start and end.

Training runs have the times of `estimates`; of other jobs the median of earlier ones of their kind.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from django.db.models import F
from django.utils import timezone

from trace_site import worker as workers
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.worker import Worker
from training.core import recipe as recipes
from training.models import Run, TrainedStage
from training.runs.estimates import Estimator

QUEUE = "gpu"
MOST = 100  # jobs shown; the rest is counted
RECENT = 5  # ended jobs of a kind that a time is taken from


@dataclass(slots=True)
class Entry:
    """One job of the queue. `seconds`: how long it may still take; None: unknown."""

    job: Job
    run: Run | None
    seconds: float | None
    basis: str
    starts: datetime | None = None
    ends: datetime | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    running: list[Entry]
    waiting: list[Entry]
    more: int
    workers: list[Worker]
    recent: list[Job]


def queue() -> Queue:
    """Everything on one page; the number of queries does not grow with the queue."""
    active = Job.objects.filter(queue=QUEUE, state__in=[Job.State.RUNNING, Job.State.QUEUED])
    jobs = list(active.select_related("created_by").order_by("-state", "id")[: MOST + 1])
    rows = Run.objects.filter(job__in=jobs).select_related("snapshot")
    runs = {run.job_id: run for run in rows.defer("log_tail", "snapshot__manifest", "snapshot__parts")}
    estimator = Estimator({run.base for run in runs.values()}) if runs else None
    usual = usual_seconds({job.kind for job in jobs})
    keys = {stage["key"] for run in runs.values() for stage in run.stages}
    known = (
        TrainedStage.objects.filter(key__in=keys, removed_at=None) if keys else TrainedStage.objects.none()
    )
    made = dict(known.values_list("key", "run_id"))
    entries = []
    for job in jobs[:MOST]:
        run = runs.get(job.pk)
        if run is not None and estimator is not None:
            entries.append(_training(job, run, estimator, made))
        elif job.state == Job.State.RUNNING and job.seconds_left is not None:
            entries.append(Entry(job, run, float(job.seconds_left), "from its own rate"))
        else:
            told = (
                "the median of earlier jobs of its kind"
                if job.kind in usual
                else "no earlier job of its kind"
            )
            entries.append(Entry(job, run, usual.get(job.kind), told))
    running = [one for one in entries if one.job.state == Job.State.RUNNING]
    waiting = [one for one in entries if one.job.state == Job.State.QUEUED]
    found = list(workers.alive(QUEUE))
    _plan(running, waiting, max(1, len(found)))
    ended = Job.objects.filter(queue=QUEUE, finished_at__isnull=False).exclude(
        pk__in=[job.pk for job in jobs]
    )
    recent = list(ended.select_related("created_by").order_by("-finished_at")[:5])
    more = active.count() - len(entries) if len(jobs) > MOST else 0
    return Queue(running, waiting, more, found, recent)


def usual_seconds(kinds: Iterable[str]) -> dict[str, float]:
    """{kind: median of its newest ended jobs}; one query."""
    took: dict[str, list[float]] = {}
    ended = Job.objects.filter(kind__in=kinds, state=Job.State.DONE, started_at__isnull=False)
    spans = ended.order_by("-finished_at").values_list("kind", F("finished_at") - F("started_at"))
    for kind, span in spans[:50]:
        if len(of := took.setdefault(kind, [])) < RECENT:
            of.append(span.total_seconds())
    return {kind: median(spans) for kind, spans in took.items()}


def _training(job: Job, run: Run, estimator: Estimator, made: dict[str, int]) -> Entry:
    """A stage that an earlier entry trains is there when this one's turn comes: `made` grows."""
    there = {stage["stage"]: made[stage["key"]] for stage in run.stages if stage["key"] in made}
    try:
        found = estimator.of(recipes.stored(run.recipe), run.snapshot, there)
    except TraceError:  # a recipe of an earlier version
        return Entry(job, run, None, "unknown")
    made |= {stage["key"]: made.get(stage["key"], run.pk) for stage in run.stages}
    seconds = found.seconds.value
    if job.state == Job.State.RUNNING and job.seconds_left is not None:
        # the job shows the progress of one stage; its note begins with the stage's name
        told, names = job.note.lower(), [one.stage for one in found.stages]
        here = "plain" if "plain" in told else "stage2" if told.startswith("stage 2") else "stage1"
        later = found.stages[names.index(here) + 1 :] if here in names else []
        rest = sum(one.seconds or 0.0 for one in later)
        basis = "this stage from its own rate, later stages estimated"
        return Entry(job, run, job.seconds_left + rest, basis)
    if job.state == Job.State.RUNNING and job.started_at is not None and seconds is not None:
        seconds = max(0.0, seconds - (timezone.now() - job.started_at).total_seconds())
    return Entry(job, run, seconds, found.seconds.basis)


def _plan(running: list[Entry], waiting: list[Entry], slots: int) -> None:
    """When each may start and end: jobs in order, one a worker at a time. Unknown times end what can be said."""
    now = timezone.now()
    free: list[datetime | None] = []
    for entry in running:
        entry.starts = entry.job.started_at
        entry.ends = None if entry.seconds is None else now + timedelta(seconds=entry.seconds)
        free.append(entry.ends)
    free += [now] * max(0, slots - len(free))
    for entry in waiting:
        if any(end is None for end in free):
            break
        first = min(range(len(free)), key=lambda number: free[number] or now)
        starts = entry.starts = free[first] or now
        entry.ends = None if entry.seconds is None else starts + timedelta(seconds=entry.seconds)
        free[first] = entry.ends
