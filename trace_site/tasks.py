"""Celery's whole part: wake, sweep, and a poll that works when the broker does not."""

import logging
import threading
from typing import Any

from celery import shared_task
from celery.signals import celeryd_after_setup, worker_shutting_down
from django.conf import settings
from django.db import close_old_connections, connection
from django.db.utils import DatabaseError

from trace_site import jobs

log = logging.getLogger(__name__)


@shared_task(name="trace_site.tasks.run_job")
def run_job(job_id: int) -> None:
    jobs.run(job_id)


@shared_task(name="trace_site.tasks.sweep")
def sweep() -> None:
    """Requeue dead jobs and wake workers for everything that waits."""
    jobs.reap()
    for job in jobs.Job.objects.filter(state=jobs.Job.State.QUEUED):
        jobs.send_wake(job)


@celeryd_after_setup.connect
def start_polling(instance: Any, **_: Any) -> None:
    """Look into the database every JOB_POLL_SECONDS, so that a dead or emptied broker only costs time."""
    queues = list(instance.app.amqp.queues.consume_from)
    threading.Thread(target=_poll, args=(queues,), daemon=True, name="job-poll").start()


@worker_shutting_down.connect
def release_jobs(**_: Any) -> None:
    jobs.stopping.set()


def _poll(queues: list[str]) -> None:
    while not jobs.stopping.wait(settings.JOB_POLL_SECONDS):
        close_old_connections()
        try:
            jobs.reap()
            for job_id in jobs.queued_ids(queues):
                jobs.run(job_id)
        except DatabaseError as error:
            log.warning("polling failed: %s", error)
            connection.close()
