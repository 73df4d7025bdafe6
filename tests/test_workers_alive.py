"""A worker says that it lives, also while it works; a silent one is not counted."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models.functions import Now

from trace_site import jobs, worker
from trace_site.lib import provenance
from trace_site.worker import Worker

pytestmark = pytest.mark.django_db


def test_a_reporting_worker_is_alive_for_its_queues_with_its_hardware():
    worker.report(["gpu"])
    worker.report(["gpu"])
    (found,) = worker.alive("gpu")
    assert (found.name, found.queues) == (worker.own_name(), ["gpu"])
    assert found.hardware["cores"] >= 1 and {"gpu", "gpu_memory_gb", "gpus"} <= set(found.hardware)
    assert not worker.alive("default").exists()


def test_a_silent_worker_is_not_alive_and_forgotten_after_a_day(settings):
    worker.report(["gpu"])
    silence = timedelta(seconds=3 * settings.JOB_POLL_SECONDS + 1)
    Worker.objects.update(seen_at=Now() - silence, name="old")
    assert not worker.alive("gpu").exists()
    Worker.objects.update(seen_at=Now() - timedelta(days=2))
    worker.report(["default"])
    assert list(Worker.objects.values_list("name", flat=True)) == [worker.own_name()]


def test_the_poll_reports_at_once_and_takes_its_leave(monkeypatch):
    seen = []
    monkeypatch.setattr(worker, "gone", lambda: seen.append(worker.alive("gpu").count()))
    monkeypatch.setattr(jobs.stopping, "wait", lambda seconds: True)
    worker._poll(["gpu"])
    assert seen == [1]


@pytest.mark.parametrize(
    ("said", "expected"),
    [("NVIDIA H200, 143771\nNVIDIA H200, 143771\n", ("NVIDIA H200", 140, 2)), ("", ("", 0, 0))],
)
def test_accelerators_are_named_with_their_memory_and_number(tmp_path: Path, monkeypatch, said, expected):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '{said}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert provenance._gpus.__wrapped__() == expected
