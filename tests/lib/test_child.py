"""A child process tells its progress, fails with its last words, and never outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trace_site.lib.child import run_child, tail
from trace_site.lib.errors import TraceError

ROOT = Path(__file__).resolve().parents[2]
FAKE = "tests.lib.fake_child"


def start(tmp_path, *arguments, on_event=lambda event: None, tick=lambda: None, **options):
    return run_child(
        FAKE, arguments, cwd=ROOT, log=tmp_path / "errors.txt", on_event=on_event, tick=tick, **options
    )


def test_child_reports_its_json_lines_and_its_last_event(tmp_path):
    events = []
    assert start(tmp_path, "speak", on_event=events.append) == {"event": "done"}
    assert events[0] == {"event": "progress", "done": 1, "total": 2}


def test_child_that_fails_raises_its_last_stderr_line(tmp_path):
    with pytest.raises(TraceError, match=r"^tests.lib.fake_child: the file is gone\.$"):
        start(tmp_path, "fail")
    assert "first a warning" in tail(tmp_path / "errors.txt")


def test_last_words_of_an_earlier_child_are_not_repeated(tmp_path):
    (tmp_path / "errors.txt").write_text("an old error\n")
    with pytest.raises(TraceError, match="the file is gone"):
        start(tmp_path, "fail")


def test_child_is_killed_when_the_tick_raises(tmp_path):
    seen = []

    def tick():
        if seen:
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, "hang", on_event=seen.append, tick=tick)
    assert time.monotonic() - began < 10


def test_child_may_end_by_itself_when_asked(tmp_path):
    seen, stop = [], tmp_path / "STOP"

    def tick():
        if seen:
            raise RuntimeError("cancelled")

    def ask(reason):
        stop.touch()
        return 10.0

    with pytest.raises(RuntimeError):
        start(tmp_path, "until-stop", str(stop), on_event=seen.append, tick=tick, ask_to_stop=ask)
    assert (tmp_path / "stopped").exists()


def test_child_that_dies_without_a_word_says_how(tmp_path):
    def die(event):
        os.kill(event["pid"], signal.SIGKILL)

    with pytest.raises(TraceError, match="killed by SIGKILL. The machine may have run out of memory"):
        start(tmp_path, "until-stop", str(tmp_path / "never"), on_event=die)


def test_child_leaves_when_its_parent_is_killed(tmp_path):
    mark = tmp_path / "mark"
    program = (
        "from pathlib import Path; from trace_site.lib.child import run_child;"
        f"run_child({FAKE!r}, ['orphan', {str(mark)!r}], cwd=Path({str(ROOT)!r}), log=Path({str(tmp_path / 'e')!r}),"
        " on_event=print, tick=lambda: None)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    wait_for(lambda: mark.exists() and mark.read_text() == "alive")
    parent.kill()
    parent.wait()
    wait_for(lambda: mark.read_text() == "left")


def wait_for(fact, seconds=10):
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_tail_starts_with_a_whole_line(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("first line\nsecond line\n")
    assert tail(path, 15) == "second line\n" and tail(tmp_path / "none") == ""


def test_log_with_nul_bytes_is_text_that_can_be_stored(tmp_path):
    (tmp_path / "log.txt").write_bytes(b"step 1\n\0\0\0step 2\n")
    assert tail(tmp_path / "log.txt") == "step 1\nstep 2\n"
