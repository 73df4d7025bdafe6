"""What every ml process shares: progress lines out, end of life in.

An ml process is started by a worker as a child. It reports as JSON lines on stdout and, with `--parent-pipe`, leaves
when its stdin reaches EOF, so that a killed parent never leaves a training behind.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable

from trace_site.lib.errors import TraceError

PROGRESS_SECONDS = 2.0


class Progress:
    """Prints {"event": "progress", ...} lines, at most one per `every` seconds, the last one always."""

    def __init__(self, total: int, every: float = PROGRESS_SECONDS / 2) -> None:
        self.total = total
        self.every = every
        self.printed_at = 0.0

    def __call__(self, done: int, note: str = "") -> None:
        now = time.monotonic()
        if done < self.total and now - self.printed_at < self.every:
            return
        self.printed_at = now
        emit("progress", done=done, total=self.total, note=note)


def emit(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}, ensure_ascii=False), flush=True)  # noqa: T201


def leave_with_parent() -> None:
    """Exit hard when stdin closes: the parent holds the other end and does nothing else with it."""

    def wait_for_eof() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        os._exit(75)

    threading.Thread(target=wait_for_eof, daemon=True).start()


def run_command(parser: argparse.ArgumentParser, argv: list[str] | None = None) -> int:
    """Parse, run `args.run`, turn a user's mistake into one line on stderr. Returns the exit status."""
    parser.add_argument("--parent-pipe", action="store_true", help="exit when stdin reaches EOF")
    args = parser.parse_args(argv)
    if args.parent_pipe:
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
