"""Reads behind the pages of runs: the filtered list, what a run's page tells beside its curves, and the queue."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from django.db.models import F, QuerySet

from trace_site import worker as workers
from trace_site.database import database_now
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.paging import number_of
from trace_site.worker import Worker
from training.core import recipe as recipes
from training.core.recipe import FIELDS, Recipe, differing
from training.models import Run, TrainedStage
from training.runs.estimates import Estimator
from training.runs.stages import base_folder, stage_folder

# parameter of a list -> column
FILTERS = {
    "snapshot": "snapshot",
    "format": "format",
    "memo": "memo",
    "retrieval": "retrieval",
    "base": "base",
    "state": "job__state",
    "why": "why",
    "by": "created_by__username",
}


def narrowed(found: QuerySet[Run], given: Mapping[str, str]) -> QuerySet[Run]:
    """The runs that have all that `given` names; a number that is none finds nothing."""
    for name, column in FILTERS.items():
        if value := str(given.get(name, "")).strip():
            found = found.filter(**{column: number_of(value, 9) if name == "snapshot" else value})
    return found


def choices() -> dict[str, list[Any]]:
    """What the filters of the list offer; two queries."""
    bases = Run.objects.order_by("base").values_list("base", flat=True).distinct()
    people = Run.objects.exclude(created_by=None).order_by("created_by__username")
    return {
        "format": Run.Format.choices,
        "memo": Run.Memo.choices,
        "retrieval": Run.Retrieval.choices,
        "base": [(name, name) for name in bases],
        "state": Job.State.choices,
        "why": Run.Why.choices,
        "by": [(name, name) for name in people.values_list("created_by__username", flat=True).distinct()],
    }


# What a run's page tells beside its curves: its recipe against the defaults, its logs, what a clone changed.

LOGS = ("log.txt", "errors.txt")
BLOCK = 65_536


def readable_recipe(run: Run) -> Recipe | None:
    """The run's recipe; None when it is of a version whose fields are no longer known."""
    try:
        return recipes.stored(run.recipe) if run.recipe else None
    except TraceError:
        return None


def cloned_changes(run: Run) -> list[tuple[str, str, str]]:
    """[(what, there, here)] that this run changed of the run it was cloned from."""
    origin = run.cloned_from
    if origin is None:
        return []
    moved = [("snapshot", str(origin.snapshot_id), str(run.snapshot_id))]
    found = differing(origin.recipe, run.recipe)
    named = [(FIELDS[name].label if name in FIELDS else name, there, here) for name, there, here in found]
    return [*(moved if origin.snapshot_id != run.snapshot_id else ()), *named]


def log_files(run: Run) -> list[tuple[str, Path]]:
    """[(stage/file, path)] of a run's stages in training order; empty where the worker is another machine. A stage
    that another run trained has that run's log."""
    folders = [("base", base_folder(run)), *((one["stage"], stage_folder(one["key"])) for one in run.stages)]
    return [
        (f"{stage}/{name}", folder / name)
        for stage, folder in folders
        for name in LOGS
        if (folder / name).is_file()
    ]


def lines_of(files: list[tuple[str, Path]]) -> Iterator[bytes]:
    """The files one after another, each under its name, in blocks."""
    for name, path in files:
        yield f"== {name}\n".encode()
        with path.open("rb") as handle:
            while block := handle.read(BLOCK):
                yield block
        yield b"\n"


# The queue of the worker that trains: what runs, what waits in which order, and when each may start and end.
# Training runs have the times of `estimates`; of other jobs the median of earlier ones of their kind.

QUEUE = "gpu"
MOST = 100  # jobs shown; the rest is counted
RECENT = 5  # ended jobs of a kind that a time is taken from


@dataclass(slots=True)
class QueueEntry:
    """One job of the queue. `seconds`: how long it may still take; None: unknown."""

    job: Job
    run: Run | None
    seconds: float | None
    basis: str
    starts: datetime | None = None
    ends: datetime | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    running: list[QueueEntry]
    waiting: list[QueueEntry]
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
    made = dict(TrainedStage.objects.filter(key__in=keys, removed_at=None).values_list("key", "run_id"))
    entries, now = [], database_now()
    for job in jobs[:MOST]:
        run = runs.get(job.pk)
        if run is not None and estimator is not None:
            entries.append(_training(job, run, estimator, made, now))
        elif job.state == Job.State.RUNNING and job.seconds_left is not None:
            entries.append(QueueEntry(job, run, float(job.seconds_left), "from its own rate"))
        else:
            basis = f"{'the median of earlier jobs' if job.kind in usual else 'no earlier job'} of its kind"
            entries.append(QueueEntry(job, run, usual.get(job.kind), basis))
    running = [one for one in entries if one.job.state == Job.State.RUNNING]
    waiting = [one for one in entries if one.job.state == Job.State.QUEUED]
    found = list(workers.alive(QUEUE))
    _plan(running, waiting, max(1, len(found)), now)
    ended = Job.objects.filter(queue=QUEUE, finished_at__isnull=False)
    recent = list(
        ended.exclude(pk__in=[job.pk for job in jobs])
        .select_related("created_by")
        .order_by("-finished_at")[:5]
    )
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


def _training(job: Job, run: Run, estimator: Estimator, made: dict[str, int], now: datetime) -> QueueEntry:
    """A stage that an earlier entry trains is there when this one's turn comes: `made` grows."""
    there = {stage["stage"]: made[stage["key"]] for stage in run.stages if stage["key"] in made}
    try:
        found = estimator.of(recipes.stored(run.recipe), run.snapshot.counts, there)
    except TraceError:  # a recipe of an earlier version
        return QueueEntry(job, run, None, "unknown")
    made |= {stage["key"]: made.get(stage["key"], run.pk) for stage in run.stages}
    seconds = found.seconds.value
    if job.state == Job.State.RUNNING and job.seconds_left is not None:
        return QueueEntry(job, run, float(job.seconds_left), "from its own rate")
    if job.state == Job.State.RUNNING and job.started_at is not None and seconds is not None:
        seconds = max(0.0, seconds - (now - job.started_at).total_seconds())
    return QueueEntry(job, run, seconds, found.seconds.basis)


def _plan(running: list[QueueEntry], waiting: list[QueueEntry], slots: int, now: datetime) -> None:
    """When each may start and end: jobs in order, one a worker at a time. Unknown times end what can be said."""
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
