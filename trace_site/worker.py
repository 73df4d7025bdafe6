"""Celery's whole part: wake, sweep, and a poll that works when the broker does not.

Messages and the poll share one set of slots, so that a worker never runs more jobs at once than its concurrency.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from celery import shared_task
from celery.signals import celeryd_after_setup, worker_shutting_down
from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import close_old_connections, connection, models
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from trace_site import jobs
from trace_site.audit_context import acting
from trace_site.database import delete_in_parts
from trace_site.deliveries import deliver_due
from trace_site.lib.provenance import hardware_facts
from trace_site.outages import AWAY

log = logging.getLogger(__name__)
sweeping = threading.Lock()
slots = threading.Semaphore(1)  # as many as the worker's concurrency, set when it starts
KEPT = timedelta(days=1)


class Worker(models.Model):
    """One worker process and when it was last heard of: its polling thread says so, also while a job of hours runs.

    It counts as alive for three polling intervals. All times are the database's.
    """

    name = models.CharField(max_length=200, unique=True, help_text="host:process")
    queues = ArrayField(models.CharField(max_length=20))
    hardware = models.JSONField(default=dict)
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "trace_site"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def host(self) -> str:
        return self.name.rpartition(":")[0]


def own_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def report(queues: list[str]) -> None:
    """Say that this worker is alive; forget those that have been silent for a day."""
    hardware = hardware_facts(settings.ML_THREADS) | {"load": round(os.getloadavg()[0], 2)}
    fields = {"queues": queues, "hardware": hardware, "seen_at": Now()}
    Worker.objects.update_or_create(name=own_name(), defaults=fields)
    Worker.objects.filter(seen_at__lt=Now() - KEPT).delete()


def gone() -> None:
    Worker.objects.filter(name=own_name()).delete()


def alive(queue: str) -> QuerySet[Worker]:
    """Workers of a queue that were heard of lately, the newest first."""
    silence = timedelta(seconds=3 * settings.JOB_POLL_SECONDS)
    return Worker.objects.filter(queues__contains=[queue], seen_at__gt=Now() - silence).order_by("-seen_at")


def load(queue: str) -> float | None:
    """Of the machine of the queue's newest worker, a core: the mean number of processes that ran or waited to run in
    the last minute (its load average), over its cores, as the worker last said it. None: no worker lives."""
    worker = alive(queue).first()
    if worker is None or "load" not in worker.hardware:
        return None
    hardware = worker.hardware
    return round(float(hardware["load"]) / int(hardware["cores"]), 2)


@shared_task(name="trace_site.worker.run_job")
def run_job(job_id: int) -> None:
    with slots:
        if not jobs.stopping.is_set():
            jobs.run(job_id)


@shared_task(name="trace_site.worker.sweep")
def sweep() -> None:
    """Requeue dead jobs and wake workers for everything that waits."""
    jobs.reap()
    for job in jobs.due():
        jobs.send_wake(job)
    run_sweepers()


@shared_task(name="trace_site.worker.deliver")
def deliver() -> None:
    """Send what is due now rather than at the next sweep."""
    deliver_due()


def run_sweepers() -> None:
    """Call all of settings.SWEEPERS and delete what those of settings.EXPIRED give; what one of them does wrong is
    logged and stops none of the others.

    One sweep a process at a time: a slow one is not joined by the next.
    """
    if not sweeping.acquire(blocking=False):
        return
    try:
        for name in [*settings.SWEEPERS, *settings.EXPIRED]:
            try:
                with acting(None, f"sweep {name}"):
                    found = import_string(name)()
                    if name in settings.EXPIRED:
                        delete_in_parts(found)
            except Exception:  # noqa: BLE001 - logged whole; the others must run
                log.exception("the sweeper %s failed", name)
                connection.close()
    finally:
        sweeping.release()


@celeryd_after_setup.connect
def start_polling(instance: Any, **_: Any) -> None:
    """Look into the database every JOB_POLL_SECONDS, so that a dead or emptied broker only costs time."""
    global slots
    slots = threading.Semaphore(instance.concurrency)
    queues = list(instance.app.amqp.queues.consume_from)
    threading.Thread(target=_poll, args=(queues,), daemon=True, name="job-poll").start()


@worker_shutting_down.connect
def release_jobs(**_: Any) -> None:
    jobs.stopping.set()


def _poll(queues: list[str]) -> None:
    _tell(lambda: report(queues))
    while not jobs.stopping.wait(settings.JOB_POLL_SECONDS):
        close_old_connections()
        try:
            report(queues)
            jobs.reap()
            waiting = list(jobs.due().filter(queue__in=queues).order_by("id").values_list("pk", flat=True))
            for place, job_id in enumerate(waiting):
                if not slots.acquire(blocking=False):
                    break
                threading.Thread(target=_run_polled, args=(waiting[place:],), name=f"job-{job_id}").start()
            threading.Thread(target=_sweep_polled, daemon=True, name="sweepers").start()
        except AWAY as error:
            log.warning("polling failed: %s", error)
            connection.close()
    _tell(gone)


def _tell(what: Callable[[], None]) -> None:
    try:
        what()
    except AWAY as error:
        log.warning("the worker's sign of life was not written: %s", error)
        connection.close()


def _sweep_polled() -> None:
    """A thread of its own: a slow receiver of webhooks must not keep jobs waiting."""
    try:
        run_sweepers()
    finally:
        connection.close()


def _run_polled(waiting: list[int]) -> None:
    """A thread of its own: a handler that crashes ends it, not the poll, and the poll goes on meanwhile.

    Runs the first job that can go on: one that another worker has, or that must wait for another, is passed over.
    """
    try:
        for job_id in waiting:
            job = jobs.run(job_id)
            if jobs.stopping.is_set() or (job is not None and job.state != jobs.Job.State.QUEUED):
                break
    finally:
        connection.close()
        slots.release()
