"""The line of progress: rewritten on a terminal, said now and then elsewhere, with the time left of the whole."""

import io
import time

import pytest

from trace_site.dev import terminal
from trace_site.dev.terminal import CLEAR, Progress


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when a test says so."""
    now = [1000.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(terminal, "REWRITE_SECONDS", 0.01)


def test_elsewhere_a_finished_step_is_one_line(clock):
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("import the catalogs", 1, later=100)
    clock(2.0)
    progress.end()
    progress.close()
    assert out.getvalue() == "      2 s  import the catalogs\n"


def test_elsewhere_progress_is_said_again_after_30_silent_seconds(monkeypatch, quick):
    monkeypatch.setattr(terminal, "REPEAT_SECONDS", 0.1)
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("train", 60, later=60)
    time.sleep(0.25)
    progress.close()
    lines = out.getvalue().splitlines()
    assert 1 <= len(lines) <= 2 and all("2 min left, 0 %: train" in line for line in lines)


def test_a_terminal_has_one_line_that_is_rewritten_below_what_was_said():
    out = Screen()
    progress = Progress(out)
    progress.begin("train", 60, later=0)
    progress.at("stage 1 50 %")
    progress.say("serving at http://127.0.0.1:8000")
    progress.close()
    shown = out.getvalue().split(CLEAR)
    assert shown[-3:-1] == ["serving at http://127.0.0.1:8000\n", "   60 s left, 0 %: train, stage 1 50 %"]
    assert shown[-1] == "" and out.getvalue().count("\n") == 1


def test_a_machine_that_takes_twice_as_long_is_expected_to_go_on_so(clock):
    progress = Progress(io.StringIO())
    progress.begin("write", 180, later=100)
    clock(380.0)  # and 20 that are taken for granted
    progress.end()
    progress.begin("train", 100, later=0)
    progress.close()
    assert progress.seconds_left == 200


def test_a_step_that_is_late_takes_at_least_what_its_job_says(clock):
    progress = Progress(io.StringIO())
    progress.begin("train", 10, later=0)
    clock(30.0)
    progress.at("stage 2", least=45)
    progress.close()
    assert progress.seconds_left == 45
