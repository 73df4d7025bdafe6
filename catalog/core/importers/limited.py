"""Documents are parsed in a child process with little memory and little time, so that a hostile file harms nobody.

In: a file and its format. Out: the child's rows, or one TraceError. The limits grow with the size of the file: an
honest document takes about 8 times its size, a YAML of ten megabytes about two seconds.
"""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from catalog.core.importers.documents import check_size
from catalog.core.importers.rows import CatalogFile
from catalog.core.tool import RowError, ToolRecord
from trace_site.lib.errors import TraceError

ROOT = Path(__file__).resolve().parents[3]
MEMORY = 160_000_000  # bytes beyond what the interpreter itself takes; a small file never needs more
MEMORY_PER_BYTE = 12
SECONDS = 2.0  # of processor time
SECONDS_PER_MB = 0.8
TEXT = 5_000_000  # characters of tools beyond the size of the file
WAIT = 5  # on a busy machine a second of processor time may take so many
PASSED = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def read_limited(path: Path, shown: str, fmt: str, max_errors: int | None) -> CatalogFile:
    """`fmt` is a format or `auto`; raises TraceError for what cannot be read within the limits."""
    order = make_order(path, shown, fmt, max_errors)
    seconds = order["seconds"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "catalog.core.importers", json.dumps(order)],
            cwd=ROOT,
            env={key: os.environ[key] for key in PASSED if key in os.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT * (seconds + 1),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _slow(shown, seconds) from error
    if done.returncode == -signal.SIGXCPU:
        raise _slow(shown, seconds)
    lines = [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else []
    if not lines:
        raise _broken(shown, done.stderr.decode(errors="replace").strip() or f"status {done.returncode}")
    return _result(lines)


def make_order(path: Path, shown: str, fmt: str, max_errors: int | None) -> dict[str, Any]:
    """What the child is told: the file, and its limits in bytes, seconds of processor time and characters."""
    size = check_size(path, shown)
    return {
        "path": str(path.resolve()),
        "shown": shown,
        "fmt": fmt,
        "max_errors": max_errors,
        "memory": max(MEMORY, MEMORY_PER_BYTE * size),
        "seconds": math.ceil(SECONDS + SECONDS_PER_MB * size / 1e6),
        "max_text": TEXT + size,
    }


def _slow(shown: str, seconds: int) -> TraceError:
    return TraceError(
        f"reading it takes more than {seconds} seconds of processor time.",
        code="too_large",
        where=shown,
        hint="Split the file by API, or take unusual nesting and repetition out of it.",
    )


def _broken(shown: str, said: str) -> TraceError:
    last = said.splitlines()[-1][:300]
    hint = "This is a fault of the importer, not of the file: please report it with the file."
    return TraceError(f"its reader broke off ({last}).", code="reader_failed", where=shown, hint=hint)


def _result(lines: list[Any]) -> CatalogFile:
    head, *rows = lines
    if "error" in head:
        raise TraceError(**head["error"])
    file = CatalogFile(head["format"])
    for kind, row in rows:
        if kind == "tool":
            file.records.append(ToolRecord(**{**row, "permissions": tuple(row["permissions"])}))
        else:
            (file.errors if kind == "error" else file.notes).append(RowError(**row))
    return file
