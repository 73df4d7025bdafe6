"""Which workers are alive: each says so from its polling thread, also while a job of hours runs.

A worker counts as alive for three polling intervals. All times are the database's.
"""

import os
import socket
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import QuerySet
from django.db.models.functions import Now

from trace_site.lib import hardware

KEPT = timedelta(days=1)


class Worker(models.Model):
    """One worker process and when it was last heard of."""

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
    facts: dict[str, Any] = hardware.facts(settings.ML_THREADS)
    fields = {"queues": queues, "hardware": facts, "seen_at": Now()}
    Worker.objects.update_or_create(name=own_name(), defaults=fields)
    Worker.objects.filter(seen_at__lt=Now() - KEPT).delete()


def gone() -> None:
    """This worker ends in order."""
    Worker.objects.filter(name=own_name()).delete()


def alive(queue: str) -> QuerySet[Worker]:
    """Workers of a queue that were heard of lately, the newest first."""
    silence = timedelta(seconds=3 * settings.JOB_POLL_SECONDS)
    return Worker.objects.filter(queues__contains=[queue], seen_at__gt=Now() - silence).order_by("-seen_at")
