"""What every ml process shares: progress lines out, end of life in.

An ml process is started by a worker as a child. It reports as JSON lines on stdout and, with `--parent-pipe`,
leaves when its stdin reaches EOF, so that a killed parent never leaves a training behind.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Self

from trace_site.lib.errors import TraceError

# Threads that spin while they wait take the cores from every other process; threads that sleep at once wake up late.
# So they spin for some 30 us: without, a sentence is read in 15 ms instead of 10. To be set before torch loads.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

PROGRESS_SECONDS = 2.0


class Progress:
    """Prints {"event": "progress", ...}: one line a second at work, one every 2 s in silence until it is left."""

    def __init__(self, total: int, note: str = "") -> None:
        self.total = total
        self.state = (0, note)
        self.lock = threading.Lock()
        self.finished = threading.Event()
        self._print()

    def __enter__(self) -> Self:
        threading.Thread(target=self._keep_alive, daemon=True, name="progress").start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.finished.set()

    def __call__(self, done: int, note: str = "") -> None:
        self.state = (done, note)
        if done >= self.total or time.monotonic() - self.printed_at >= PROGRESS_SECONDS / 2:
            self._print()

    def _print(self) -> None:
        with self.lock:
            self.printed_at = time.monotonic()
            emit("progress", done=self.state[0], total=self.total, note=self.state[1])

    def _keep_alive(self) -> None:
        while not self.finished.wait(PROGRESS_SECONDS / 4):
            if time.monotonic() - self.printed_at >= PROGRESS_SECONDS * 0.9:
                self._print()


def emit(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}, ensure_ascii=False), flush=True)  # noqa: T201


def leave_with_parent() -> None:
    """Exit hard when stdin closes: the parent holds the other end and does nothing else with it."""
    descriptor = sys.stdin.fileno()

    def wait_for_eof() -> None:
        # not through sys.stdin: its lock held at exit aborts the interpreter
        while os.read(descriptor, 4096):
            pass
        os._exit(75)

    threading.Thread(target=wait_for_eof, daemon=True).start()


def run_command(parser: argparse.ArgumentParser, argv: list[str] | None = None) -> int:
    """Parse, run `args.run`, turn a user's mistake into one line on stderr. Returns the exit status."""
    parser.add_argument("--parent-pipe", action="store_true", help="exit when stdin reaches EOF")
    words = sys.argv[1:] if argv is None else argv
    # it may stand before or after the command
    args = parser.parse_args([word for word in words if word != "--parent-pipe"])
    if "--parent-pipe" in words:
        leave_with_parent()
    run: Callable[[argparse.Namespace], None] = args.run
    try:
        run(args)
    except TraceError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2 if error.permanent else 1
    except OSError as error:
        print(f"{error.filename or 'file system'}: {error.strerror or error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0
