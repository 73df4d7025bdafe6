"""Several workers train the cells of a grid while they are killed at random; what must hold afterwards.

Real processes on a real database with a fake trainer. Seeded; the seed is in every message.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from trace_site import jobs
from training.models import Model, Run, TrainedStage

LEASE_SECONDS = 2


def storm(
    home: Path, runs: list[Run], *, workers: int, kills: int, seed: int, step_seconds: float
) -> dict[str, Any]:
    """Train all runs to their end; returns figures. Asserts that every stage was finished once."""
    rng, journal = random.Random(seed), home / "journal.jsonl"
    environment = worker_environment(home, {"journal": str(journal), "step_seconds": step_seconds})
    running = [start(environment) for _ in range(workers)]
    began, killed, seen = time.monotonic(), 0, 0
    while waiting() and time.monotonic() - began < 900:
        time.sleep(0.1)
        if killed < kills and (trainers := told(journal, "began")) > seen:  # one that trains just now
            seen = trainers
            time.sleep(rng.uniform(0, 4 * step_seconds))
            running[rng.randrange(workers)].send_signal(signal.SIGKILL)
            killed += 1
        for number, process in enumerate(running):
            if process.poll() is not None and waiting():
                running[number] = start(environment)
        retry_quarantined()
    for process in running:
        process.wait(60)
    return {**check(runs, journal, seed), "killed": killed, "seconds": round(time.monotonic() - began, 1)}


def told(journal: Path, what: str) -> int:
    return journal.read_text().count(f'"{what}"') if journal.is_file() else 0


def worker_environment(home: Path, behaviour: dict[str, Any]) -> dict[str, str]:
    database = settings.DATABASES["default"]
    address = f"{database['USER']}:{database['PASSWORD']}@{database['HOST']}:{database['PORT']}"
    return {
        **os.environ,
        "TRACE_HOME": str(home),
        "STORE_URL": settings.STORE_URL,
        "DATABASE_URL": f"postgresql://{address}/{connection.settings_dict['NAME']}",
        "REDIS_URL": settings.REDIS_URL,
        "JOB_LEASE_SECONDS": str(LEASE_SECONDS),
        "DJANGO_SETTINGS_MODULE": "trace_site.settings",
        "FAKE_TRAINER": json.dumps(behaviour),
    }


def start(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.training.grid_worker"]
    return subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment)


def waiting() -> bool:
    return jobs.Job.objects.filter(kind="training", state__in=["queued", "running"]).exists()


def retry_quarantined() -> None:
    """A job whose worker was killed three times waits for a person: here, for us."""
    for job in jobs.Job.objects.filter(kind="training", state="quarantined"):
        jobs.retry(job)


def check(runs: list[Run], journal: Path, seed: int) -> dict[str, Any]:
    """Every run has its model, every stage was finished by one trainer, and never by two at once."""
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    finished = Counter(row["stage"] for row in rows if row["what"] == "finished" and row["stage"] != "base")
    needed = {entry["key"] for run in Run.objects.all() for entry in run.stages}
    failed = list(jobs.Job.objects.filter(kind="training").exclude(state="done").values_list("pk", "error"))
    assert not failed, (seed, failed)
    assert Model.objects.filter(run__in=runs).count() == len(runs), seed
    assert set(finished) == needed and set(finished.values()) == {1}, (seed, finished)
    assert TrainedStage.objects.filter(removed_at=None).count() == len(needed), seed
    return {
        "cells": len(runs),
        "stages": len(needed),
        "asked": sum(len(run.stages) for run in Run.objects.all()),
        "trainers_started": sum(row["what"] == "began" for row in rows),
    }
