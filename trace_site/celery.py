"""The Celery application. Messages only wake workers; see trace_site/jobs.py."""

import os
from typing import Any

from celery import Celery
from celery.exceptions import OperationalError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
app = Celery("trace_site")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["trace_site"], related_name="worker")


def wake_worker(task: str, *args: Any, queue: str | None = None) -> OperationalError | None:
    """Send the task of this name; what kept the broker from taking it. A message that is a minute old is worth nothing.

    By name, so that those who wake need not import what runs.
    """
    try:
        app.send_task(f"trace_site.worker.{task}", args=args, queue=queue, expires=60, retry=False)
    except OperationalError as error:
        return error
    return None
