"""A child that dies is started again: at once where it had lived, later and later where it cannot start; and all are
where a server comes back at another port."""

import sys
import time

import pytest

from trace_site.dev import supervisor
from trace_site.dev.supervisor import Child, stop


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(supervisor.services, "revive_services", lambda: None)


def ends_of(child, folder, count):
    """What was told at so many ends of the child, which a slow machine may take its time for: [(seconds from its start
    to the time at which it is due again, whether that has come, words)]."""
    told, began = [], time.monotonic()

    class Ending(list):
        def __bool__(self):
            return len(told) >= count or time.monotonic() > began + 120

    def tell(words):
        told.append((child.next_start - child.started, child.next_start <= time.monotonic(), words))

    supervisor._start(child, folder)
    try:
        supervisor._watch([child], folder, Ending(), tell, None)
    finally:
        stop([child])
    return told


def test_a_child_that_had_lived_is_back_at_once(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(supervisor, "STEADY_SECONDS", 0.2)
    child = Child("engine", [sys.executable, "-c", "import time; time.sleep(0.3)"])
    told = ends_of(child, tmp_path, 3)
    assert [is_due for _, is_due, _ in told] == [True] * 3 and child.deaths == 0


def test_a_child_that_cannot_start_is_tried_less_and_less(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(supervisor, "STEADY_SECONDS", 60.0)
    child = Child("engine", [sys.executable, "-c", "raise SystemExit(3)"])
    (first, _, words), (second, *_), (third, *_) = ends_of(child, tmp_path, 3)
    assert first >= 1 and second >= 2 and third >= 4 and child.deaths == 3 and "status 3" in words


def test_children_are_started_again_with_the_new_port_of_a_server(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(supervisor, "REVIVE_SECONDS", 0.1)
    changes = iter([False, True])
    monkeypatch.setattr(supervisor.services, "revive_services", lambda: next(changes, False))
    child = Child("web", [sys.executable, "-c", "import time; time.sleep(60)"])
    ((_, _, words),) = ends_of(child, tmp_path, 1)
    assert words == "web ended with status -15; starting it again" and next(changes, None) is None


def test_a_copy_that_sleeps_is_served_without_workers(monkeypatch, tmp_path):
    monkeypatch.setenv("TRACE_HOME", str(tmp_path))
    monkeypatch.setattr(supervisor, "_start", lambda *_: None)
    monkeypatch.setattr(supervisor, "_wait_for_site", lambda *_: None)
    served, told = [], []
    monkeypatch.setattr(supervisor, "_watch", lambda parts, *_: served.append({part.name for part in parts}))
    for _ in range(2):
        supervisor._serve_locked(tmp_path, 0, told.append, None)
        (tmp_path / "asleep").touch()
    awake, asleep = served
    assert awake - asleep == {"worker", "gpu-worker", "beat"} and "web" in asleep
    assert any("`up --work`" in line for line in told)


def test_a_log_stays_within_its_bound_and_its_child_writes_on(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(supervisor, "MOST_LOG_BYTES", 10_000)
    write = "import sys, time\nfor n in range(60): print(f'{n} ' + 'x' * 1000, flush=True); time.sleep(0.01)"
    ends_of(Child("web", [sys.executable, "-c", write]), tmp_path, 1)
    newest, before = ((tmp_path / "logs" / name).read_text() for name in ("web.log", "web.log.1"))
    assert len(newest) + len(before) < 60_000 and "59 x" in before + newest
