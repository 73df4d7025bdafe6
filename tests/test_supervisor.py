"""A child that dies is started again: at once where it had lived, later and later where it cannot start."""

import sys
import time

import pytest

from trace_site.dev import supervisor
from trace_site.dev.supervisor import Child, stop


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(supervisor, "STEADY_SECONDS", 0.2)


def watched(child, folder, seconds):
    """What was told while the child was watched for so long."""
    told, ending = [], []
    end = time.monotonic() + seconds

    class Ending(list):
        def __bool__(self):
            return time.monotonic() > end

    supervisor._start(child, folder)
    try:
        supervisor._watch([child], folder, Ending(ending), told.append)
    finally:
        stop([child])
    return told


def test_a_child_that_had_lived_is_back_at_once(quick, tmp_path):
    child = Child("engine", [sys.executable, "-c", "import time; time.sleep(0.3)"])
    told = watched(child, tmp_path, 2.0)
    assert len(told) >= 3 and child.deaths == 0


def test_a_child_that_cannot_start_is_tried_less_and_less(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(supervisor, "STEADY_SECONDS", 10.0)
    child = Child("engine", [sys.executable, "-c", "raise SystemExit(3)"])
    told = watched(child, tmp_path, 2.5)
    assert len(told) == 2 and child.deaths == 2 and "status 3" in told[0]
