"""The job engine. The Postgres row is the job; a Celery message only wakes a worker, and polling replaces a lost one.

Claim: one conditional UPDATE moves `queued` to `running`, raises the fence and starts a lease. A heartbeat thread
renews the lease; the reaper requeues what stopped renewing, and quarantines it after JOB_MAX_ATTEMPTS. Whatever a
handler publishes goes inside `ctx.guard()`, which locks the row and fails when the fence has moved: a worker that
was thought dead writes nothing. All times are the database's (`Now()`), so clocks of workers do not matter.

What the platform fails in (see outages.py) is no fault of the job: it goes back to the queue with a growing pause and
keeps its attempt, JOB_MAX_FAULTS times. A sign of progress that cannot be written is left out.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from trace_site.audit import models as audit_models
from trace_site.audit_context import acting
from trace_site.celery import wake_worker
from trace_site.lib.errors import TraceError
from trace_site.outages import AWAY, outage

log = logging.getLogger(__name__)
WAITS_FOR = "waits_for"  # in a job's params, while it is put off for another
LONGEST_PAUSE = 30.0  # seconds
PATIENCE = 600.0  # seconds that the end of a job waits to be written
stopping = threading.Event()  # set when this process is asked to end: running jobs go back to the queue


class Job(models.Model):
    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"
        QUARANTINED = "quarantined"

    kind = models.CharField(max_length=40)
    queue = models.CharField(max_length=20)
    title = models.CharField(max_length=300)
    params = models.JSONField(default=dict)
    state = models.CharField(max_length=12, choices=State, default=State.QUEUED)
    idempotency_key = models.CharField(max_length=100, null=True, unique=True)
    attempt = models.PositiveIntegerField(default=0)
    fence = models.PositiveIntegerField(default=0)
    faults = models.PositiveIntegerField(
        default=0, help_text="of the platform, since it was last queued by a person"
    )
    not_before = models.DateTimeField(null=True, help_text="while it pauses after a fault of the platform")
    lease_until = models.DateTimeField(null=True)
    cancel_requested = models.BooleanField(default=False)
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    rate = models.FloatField(default=0.0, help_text="units a second in this attempt")
    note = models.CharField(max_length=300, blank=True)
    error = models.TextField(blank=True)
    error_code = models.CharField(max_length=60, blank=True)
    result = models.JSONField(null=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "trace_site"
        ordering = ["-id"]
        indexes = [models.Index(fields=["state", "queue"]), models.Index(fields=["kind", "-id"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"

    @property
    def is_active(self) -> bool:
        return self.state in (self.State.QUEUED, self.State.RUNNING)

    @property
    def seconds_left(self) -> int | None:
        """Estimated seconds to the end, from this attempt's rate; None when unknown."""
        if self.state != self.State.RUNNING or not self.rate or not self.total:
            return None
        return max(0, round((self.total - self.done) / self.rate))

    @property
    def seconds_taken(self) -> float | None:
        """How long the last attempt ran; None while it runs or when it never did."""
        if self.started_at is None or self.finished_at is None or self.finished_at < self.started_at:
            return None
        return (self.finished_at - self.started_at).total_seconds()

    @property
    def percent(self) -> int:
        return min(100, round(100 * self.done / self.total)) if self.total else 0

    def progress_line(self) -> str:
        """One line for a terminal: what, how far, how fast, how long."""
        parts = [f"{self.title}: {self.state}"]
        if self.total:
            parts.append(f"{self.done:,}/{self.total:,} ({self.percent} %)")
        if self.state == self.State.RUNNING and self.rate:
            parts.append(f"{self.rate:,.1f}/s")
        if (left := self.seconds_left) is not None:
            parts.append(f"{left} s left")
        if self.note:
            parts.append(self.note)
        return "  ".join(parts)


class LeaseLost(Exception):
    """Another worker owns the job now; stop without writing."""


class JobCancelled(Exception):
    """A person asked the job to stop."""


class JobReleased(Exception):
    """This process is ending; the job goes back to the queue without losing an attempt."""


class JobPostponed(Exception):
    """What the job needs is being made by another one; it goes back to the queue without losing an attempt.

    Its message says in a few words what is waited for; `waits_for` is the job that makes it, where that is known.
    """

    def __init__(self, message: str, waits_for: Job | None = None) -> None:
        super().__init__(message)
        self.waits_for = waits_for


class JobContext:
    """What a handler holds while it owns a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.params: dict[str, Any] = job.params
        self.waited_for: int | None = job.params.get(WAITS_FOR)  # what the last attempt was put off for
        self._lost = self._cancelled = False
        self._first: tuple[float, int] | None = None
        self._done = 0
        self._written = 0.0
        self.told: dict[str, int] = {}  # done and total of the last progress, written or not
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._heartbeat, daemon=True, name=f"heartbeat-{job.pk}")
        self._thread.start()

    def _mine(self) -> models.QuerySet[Job]:
        return Job.objects.filter(pk=self.job.pk, fence=self.job.fence, state=Job.State.RUNNING)

    def _heartbeat(self) -> None:
        """Renew the lease three times per lease; learn of cancellation. A database outage is retried, not fatal."""
        try:
            while not self._ended.wait(settings.JOB_LEASE_SECONDS / 3):
                try:
                    renewed = self._mine().update(lease_until=_lease_end())
                    self._lost = renewed == 0
                    self._cancelled = self._mine().filter(cancel_requested=True).exists()
                except AWAY as error:  # the lease itself decides who owns the job
                    log.warning("heartbeat of job %s failed: %s", self.job.pk, error)
                    connection.close()
        finally:
            connection.close()

    def check(self) -> None:
        """Raise when the job must stop: cancelled, taken over, or this process is ending."""
        if self._lost:
            raise LeaseLost
        if self._cancelled:
            raise JobCancelled
        if stopping.is_set():
            raise JobReleased

    def progress(self, done: int, total: int, note: str = "") -> None:
        """Record how far the job is (at most twice a second, and at its end) and check whether to go on."""
        self.told = {"done": done, "total": total}
        self.check()
        now = time.monotonic()
        if self._first is None or done < self._done:  # a new stage counts from its own start
            self._first = (now, done)
        self._done = done
        if now - self._written < 0.5 and done < total:
            return
        self._written = now
        started, first = self._first
        rate = (done - first) / (now - started) if now > started and done > first else 0.0
        fields = {"done": done, "total": total, "rate": rate, "note": note[:300]}
        row = self._mine()
        try:
            if not row.update(**fields):
                raise LeaseLost
            self._cancelled = row.filter(cancel_requested=True).exists()
        except AWAY as error:
            if connection.in_atomic_block:
                raise
            log.warning("the progress of job %s was not written: %s", self.job.pk, error)
            connection.close()
        self.check()

    @contextmanager
    def guard(self) -> Iterator[None]:
        """A transaction in which this worker certainly owns the job; publish effects only inside it.

        Rows that refer to the job may be written meanwhile (no_key): the ledger of calls is.
        """
        with transaction.atomic():
            if not self._mine().select_for_update(no_key=True).exists():
                raise LeaseLost
            yield

    def close(self) -> None:
        self._ended.set()
        self._thread.join(timeout=5)


def _lease_end() -> Any:
    return Now() + timedelta(seconds=settings.JOB_LEASE_SECONDS)


def enqueue(
    kind: str,
    params: dict[str, Any],
    *,
    title: str = "",
    created_by: Any = None,
    idempotency_key: str | None = None,
    wake: bool = True,
) -> Job:
    """Add a job; with the same idempotency key the job made first is returned. Wakes a worker after commit."""
    _, queue = settings.JOB_HANDLERS[kind]
    fields = {
        "kind": kind,
        "queue": queue,
        "params": params,
        "title": title or kind,
        "created_by": created_by,
    }
    if idempotency_key is None:
        job = Job.objects.create(**fields)
    else:
        job, _ = Job.objects.get_or_create(idempotency_key=idempotency_key, defaults=fields)
    if wake and job.state == Job.State.QUEUED:
        transaction.on_commit(lambda: send_wake(job))
    return job


def send_wake(job: Job) -> None:
    """Tell a worker; when the broker is away, polling will find the job.

    The sweep tells again, so an old message is worth nothing: a queue of many jobs behind a long one must not pile up.
    """
    if error := wake_worker("run_job", job.pk, queue=job.queue):
        log.warning("broker is away (%s); job %s waits for the next poll", error, job.pk)


Handler = Callable[[JobContext], dict[str, Any]]


def due() -> models.QuerySet[Job]:
    """What a worker may take."""
    return Job.objects.filter(Q(not_before=None) | Q(not_before__lte=Now()), state=Job.State.QUEUED)


def claim(job_id: int) -> JobContext | None:
    """Take a queued job, or None when it is not due or somebody else got there first."""
    taken = (
        due()
        .filter(pk=job_id)
        .update(
            state=Job.State.RUNNING,
            fence=F("fence") + 1,
            attempt=F("attempt") + 1,
            lease_until=_lease_end(),
            started_at=Now(),
            finished_at=None,
            not_before=None,
            error="",
            error_code="",
            rate=0.0,
        )
    )
    return JobContext(Job.objects.get(pk=job_id)) if taken else None


def run(job_id: int) -> Job | None:
    """Claim and run one job to its end; returns the finished row, or None when it was not ours to run."""
    context = claim(job_id)
    if context is None:
        return None
    handler: Handler = import_string(settings.JOB_HANDLERS[context.job.kind][0])
    try:
        with acting(context.job.created_by_id, f"job {job_id}"):
            result = handler(context)
        _finish(context, state=Job.State.DONE, result=result)
    except LeaseLost:
        log.warning("job %s was taken over; nothing more is written", job_id)
    except JobCancelled:
        _finish(context, state=Job.State.CANCELLED, note="Cancelled. What was finished is kept.")
    except (JobReleased, KeyboardInterrupt) as reason:
        _finish(context, state=Job.State.QUEUED, attempt=context.job.attempt - 1, finished_at=None)
        if isinstance(reason, KeyboardInterrupt):
            raise
    except JobPostponed as reason:
        waits = {WAITS_FOR: reason.waits_for.pk} if reason.waits_for else {}
        _finish(
            context,
            state=Job.State.QUEUED,
            attempt=context.job.attempt - 1,
            finished_at=None,
            note=str(reason)[:300],
            params={**_without_wait(context.params), **waits},
        )
        # a wish to cancel may have come in while the job was on its way back to the queue
        wished = Job.objects.filter(pk=job_id, state=Job.State.QUEUED, cancel_requested=True)
        wished.update(state=Job.State.CANCELLED, finished_at=Now())
    except Exception as error:
        away = outage(error)
        if away is not None and context.job.faults < settings.JOB_MAX_FAULTS:
            _pause(context, away)
        elif told := away or (error if isinstance(error, TraceError) else None):
            _finish(context, state=Job.State.FAILED, error=str(told), error_code=told.code)
        else:
            crash = f"{type(error).__name__}: {error}"
            _finish(context, state=Job.State.FAILED, error=crash, error_code="crash")
            log.exception("job %s crashed", job_id)
            raise
    finally:
        context.close()
    return Job.objects.get(pk=job_id)


def _without_wait(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != WAITS_FOR}


def _pause(context: JobContext, away: TraceError) -> None:
    faults = context.job.faults
    seconds = min(LONGEST_PAUSE, 2.0**faults)
    log.warning("job %s goes on in %.0f s: %s", context.job.pk, seconds, away)
    _finish(
        context,
        state=Job.State.QUEUED,
        attempt=context.job.attempt - 1,
        faults=faults + 1,
        not_before=Now() + timedelta(seconds=seconds),
        finished_at=None,
        note=f"{away.message[:1].upper()}{away.message[1:]} It goes on by itself.",
    )


def _finish(context: JobContext, **fields: Any) -> None:
    """Waits for a database that is away: until it is told, the job would count as running."""
    if "error" in fields:  # what a database refuses must not keep it from being told that the job failed
        fields["error"] = fields["error"].replace("\0", "").encode(errors="replace").decode()
    ended: dict[str, Any] = {"finished_at": Now(), "lease_until": None}
    if context.waited_for is not None:
        ended["params"] = _without_wait(context.params)
    given_up = time.monotonic() + PATIENCE
    while True:
        try:
            context._mine().update(**{**ended, **context.told, **fields})
            return
        except AWAY:
            if connection.in_atomic_block or stopping.is_set() or time.monotonic() > given_up:
                raise
            connection.close()
            time.sleep(0.5)


def reap() -> int:
    """Requeue running jobs whose lease has ended; quarantine those that ended so too often. Returns how many."""
    expired = Job.objects.filter(state=Job.State.RUNNING, lease_until__lt=Now())
    poisoned = expired.filter(attempt__gte=settings.JOB_MAX_ATTEMPTS).update(
        state=Job.State.QUARANTINED,
        finished_at=Now(),
        lease_until=None,
        error=f"The worker died {settings.JOB_MAX_ATTEMPTS} times during this job. Read its log, then retry the job.",
        error_code="poison",
    )
    cancelled = expired.filter(cancel_requested=True).update(state=Job.State.CANCELLED, finished_at=Now())
    return poisoned + cancelled + expired.update(state=Job.State.QUEUED, lease_until=None)


@transaction.atomic
def cancel(job: Job, *, actor: Any = None) -> bool:
    """Cancel at once when queued, at the next check when running. False when it has already ended."""
    row = Job.objects.filter(pk=job.pk)
    moved = row.filter(state=Job.State.QUEUED).update(state=Job.State.CANCELLED, finished_at=Now())
    moved = moved or row.filter(state=Job.State.RUNNING).update(cancel_requested=True)
    if moved:
        audit_models.record(actor=actor, action="job.cancelled", obj=job)
    return bool(moved)


@transaction.atomic
def retry(job: Job, *, actor: Any = None) -> bool:
    """Queue an ended job again; it resumes where it stopped. False when it is not in a state to retry.

    What it was put off for is asked anew: the other job may have ended long ago.
    """
    ended = Q(state__in=[Job.State.FAILED, Job.State.CANCELLED, Job.State.QUARANTINED])
    row = Job.objects.filter(ended, pk=job.pk).select_for_update(no_key=True).first()
    if row is None:
        return False
    Job.objects.filter(pk=row.pk).update(
        state=Job.State.QUEUED,
        attempt=0,
        faults=0,
        not_before=None,
        cancel_requested=False,
        error="",
        error_code="",
        finished_at=None,
        params=_without_wait(row.params),
    )
    audit_models.record(actor=actor, action="job.resumed", obj=job)
    transaction.on_commit(lambda: send_wake(job))
    return True
