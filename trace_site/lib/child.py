"""A supervised child process: `python -m MODULE --parent-pipe ...`, JSON lines on its stdout, its errors on stderr.

In: a command, a callback per event, a `tick` that raises when the work must stop. Out: the child's last event, or a
TraceError that carries its last stderr line. The child never outlives this call, nor this process: its stdin is a
pipe that the child watches, and the kernel closes our end however we die.
"""

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from trace_site.lib.errors import TraceError

TICK_SECONDS = 0.25
TERMINATE_SECONDS = 5.0
TAIL_BYTES = 4000

Event = dict[str, Any]


def run_child(
    module: str,
    arguments: Sequence[str],
    *,
    cwd: Path,
    log: Path,
    on_event: Callable[[Event], None],
    tick: Callable[[], None],
    ask_to_stop: Callable[[BaseException], float] = lambda reason: 0.0,
    env: dict[str, str] | None = None,
) -> Event:
    """Run to the end. `tick` is called about four times a second and may raise; so may `on_event`.

    Then `ask_to_stop(reason)` may ask the child to end by itself and says for how many seconds to wait for it;
    after that the child is terminated, then killed, and the reason is raised again. stderr is appended to `log`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as errors:
        start = errors.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", module, "--parent-pipe", *arguments],
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C reaches us alone; we then stop the child in order
        )
    try:
        last = _follow(process, on_event, tick)
    except BaseException as reason:
        _end(process, ask_to_stop(reason))
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
    if process.returncode:
        raise TraceError(_failure(process.returncode, log, start), code="child_failed", where=module)
    return last


def _follow(
    process: subprocess.Popen[bytes], on_event: Callable[[Event], None], tick: Callable[[], None]
) -> Event:
    lines: queue.Queue[bytes | None] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    last: Event = {}
    while True:
        tick()
        try:
            line = lines.get(timeout=TICK_SECONDS)
        except queue.Empty:
            continue
        if line is None:
            break
        try:
            event = json.loads(line)
        except ValueError:  # a library may print to stdout as well: what is not a JSON object is no event
            continue
        if isinstance(event, dict) and event:
            last = event
            on_event(event)
    while process.poll() is None:  # stdout may close a moment before the process ends
        tick()
        try:
            process.wait(TICK_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    return last


def _read(stream: IO[bytes], lines: "queue.Queue[bytes | None]") -> None:
    try:
        for line in stream:
            lines.put(line)
    except ValueError:  # closed by the main thread after the child was stopped
        pass
    finally:
        lines.put(None)


def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    for wait, stop in ((grace, None), (TERMINATE_SECONDS, process.terminate), (None, process.kill)):
        if stop is not None:
            stop()
        try:
            process.wait(wait)
            return
        except subprocess.TimeoutExpired:
            continue


def _failure(status: int, log: Path, start: int) -> str:
    """What the child said last, or how it died when it said nothing."""
    if status < 0:
        name = signal.Signals(-status).name
        memory = " The machine may have run out of memory." if name == "SIGKILL" else ""
        return f"the process was killed by {name}.{memory}"
    with log.open("rb") as errors:
        errors.seek(start)
        lines = _text(errors.read()).strip().splitlines()
    return lines[-1].strip() if lines else f"the process ended with status {status} and said nothing."


def _text(data: bytes) -> str:
    """A log as text that can be stored: a machine that went down in the middle of a write leaves NUL bytes."""
    return data.decode(errors="replace").replace("\0", "")


def tail(path: Path, limit: int = TAIL_BYTES) -> str:
    """The last whole lines of a text file, at most `limit` bytes; empty when there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as handle:
        size = handle.seek(0, 2)
        handle.seek(max(0, size - limit))
        text = _text(handle.read())
    return text.split("\n", 1)[1] if size > limit and "\n" in text else text
