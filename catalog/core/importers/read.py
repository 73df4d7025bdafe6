"""Any catalog file in, checked tools and row errors out.

CSV and JSON lines are read here line by line. Documents are parsed in a child process (`python -m` this module, its
input an order as JSON) with little memory and little time, so that a hostile file harms nobody: an honest document
takes about 8 times its size, a YAML of ten megabytes about two seconds.
"""

import json
import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from catalog.core.importers import odata, openapi, tool_lists
from catalog.core.importers.detect import FORMATS, check_head, detect, document_kind
from catalog.core.importers.documents import check_size, read_document, refusal
from catalog.core.importers.rows import CatalogFile, FileRow, collect
from catalog.core.tool import RowError, ToolRecord, refuse_duplicates
from trace_site.lib.cells import unguard
from trace_site.lib.errors import TraceError
from trace_site.lib.files import jsonl_lines, parse_jsonl_line
from trace_site.lib.texts import Lines, Twice, header, keep_twice, sheet_rows, undecoded

ROOT = Path(__file__).resolve().parents[3]
LISTED_ERRORS = 20
# limits of the child, which grow with the size of the file
MEMORY = 160_000_000  # bytes beyond what the interpreter itself takes; a small file never needs more
MEMORY_PER_BYTE = 12
SECONDS = 2.0  # of processor time
SECONDS_PER_MB = 0.8
TEXT = 5_000_000  # characters of tools beyond the size of the file
WAIT = 5  # on a busy machine a second of processor time may take so many
ROOM = 16_000_000  # bytes, to report in when the memory is used up
PASSED = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
# of files that are read line by line
MAX_BYTES = 100_000_000
MAX_ROW = 1_000_000  # characters of CSV
MAX_LINE = 1_000_000
MAX_LINES = 1_000_000
COLUMNS = ("name", "description", "permissions", "deprecated", "version", "source")
TRUTH = dict.fromkeys(["true", "yes", "y", "1", "x"], True)
TRUTH |= dict.fromkeys(["false", "no", "n", "0", ""], False)


def read_catalog(path: Path, *, shown: str = "", fmt: str = "auto", keep_going: bool = False) -> CatalogFile:
    """Read a file whole. Without `keep_going` reading stops at the first 20 bad rows."""
    shown = shown or str(path)
    if fmt not in ("auto", *FORMATS):
        hint = f"Use auto, {', '.join(FORMATS[:-1])} or {FORMATS[-1]}."
        raise TraceError(f"unknown format '{fmt}'.", code="bad_format", where=shown, hint=hint)
    if fmt == "auto":
        fmt = detect(path, shown)
    else:
        check_head(path, shown)
    max_errors = None if keep_going else LISTED_ERRORS
    if fmt in ("jsonl", "csv"):
        read = read_jsonl if fmt == "jsonl" else read_csv
        file = collect(fmt, read(path, shown), max_errors)
    else:
        file = read_limited(path, shown, fmt, max_errors)
    file.records, doubles = refuse_duplicates(file.records)
    file.errors += doubles
    return file


def read_whole(path: Path, shown: str, fmt: str, max_errors: int | None, max_text: int | None) -> CatalogFile:
    """Read a document in this process; `fmt` is a format or `document`. Callers set the limits: see `read_limited`."""
    if fmt == "odata":
        return collect("odata", odata.read(odata.read_edmx(path, shown), shown), max_errors, max_text)
    document = read_document(path, shown)
    kind = document_kind(document, shown)
    if fmt not in ("document", kind) and {fmt, kind} != {"openapi", "swagger"}:
        raise refusal(shown, f"this is an {kind} file, not {fmt}.", f"Choose the format auto or {kind}.")
    rows = tool_lists.read(document, shown) if kind == "mcp" else openapi.read(document, shown)
    return collect(kind, rows, max_errors, max_text)


def read_limited(path: Path, shown: str, fmt: str, max_errors: int | None) -> CatalogFile:
    """`fmt` is a format or `auto`; raises TraceError for what cannot be read within the limits."""
    order = make_order(path, shown, fmt, max_errors)
    slow = TraceError(
        f"reading it takes more than {order['seconds']} seconds of processor time.",
        code="too_large",
        where=shown,
        hint="Split the file by API, or take unusual nesting and repetition out of it.",
    )
    hint = "This is a fault of the importer, not of the file: please report it with the file."
    broken = TraceError("its reader broke off", code="reader_failed", where=shown, hint=hint)
    written = run_limited("catalog.core.importers.read", order, order["seconds"], slow, broken)
    head, *rows = [json.loads(line) for line in written.splitlines()]
    if "error" in head:
        raise TraceError(**head["error"])
    file = CatalogFile(head["format"])
    for kind, row in rows:
        if kind == "tool":
            file.records.append(ToolRecord(**{**row, "permissions": tuple(row["permissions"])}))
        else:
            (file.errors if kind == "error" else file.notes).append(RowError(**row))
    return file


def run_limited(module: str, order: Any, seconds: int, slow: TraceError, broken: TraceError) -> bytes:
    """What a module of ours writes that is given an order as JSON and limits itself (`limit_self`)."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env={key: os.environ[key] for key in PASSED if key in os.environ},
            input=json.dumps(order).encode(),
            capture_output=True,
            timeout=WAIT * (seconds + 1),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise slow from error
    if done.returncode == -signal.SIGXCPU:
        raise slow
    if done.returncode or not done.stdout:
        reason = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
        broken.message += f" ({reason.splitlines()[-1][:300]})."
        raise broken
    return done.stdout


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


def read_order(order: dict[str, Any]) -> None:
    """In the child: JSON lines, first {"format"} or {"error"}, then one line for each tool, error and note."""
    limit_self(order["memory"], order["seconds"])
    shown = order["shown"]
    try:
        file = read_whole(Path(order["path"]), shown, order["fmt"], order["max_errors"], order["max_text"])
    except TraceError as error:
        say({"error": {key: getattr(error, key) for key in ("message", "code", "hint", "where")}})
        return
    except MemoryError:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # room to say so
        message = f"reading it needs more than {order['memory'] / 1e6:,.0f} MB of memory."
        hint = "Split the file by API."
        say({"error": {"message": message, "code": "too_large", "hint": hint, "where": shown}})
        return
    say({"format": file.format})
    for kind, rows in (("tool", file.records), ("error", file.errors), ("note", file.notes)):
        for row in rows:
            say([kind, asdict(row)])


def limit_self(memory: int, seconds: int) -> None:
    """At most so many bytes beyond what is in use now, so much processor time, and no file may be written."""
    if (used := Path("/proc/self/statm")).exists():  # elsewhere than on Linux the system ignores this limit
        taken = int(used.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + memory, taken + memory + ROOM))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def say(value: Any) -> None:
    line = json.dumps(value, ensure_ascii=False) + "\n"
    sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace"))


def read_csv(path: Path, shown: str) -> Iterator[FileRow]:
    """Every row that is not blank, at the line where it begins; raises TraceError for an unusable header.

    Columns: name and description; permissions (separated by ;), deprecated, version, source when wanted; cells of
    others are noted.
    """
    check_size(path, shown, MAX_BYTES)
    with path.open("rb") as binary:
        lines = Lines(binary, shown, MAX_ROW, MAX_LINES)
        rows = sheet_rows(lines, COLUMNS)
        begins, cells = next(rows, None) or (lines.number, [])
        columns = header(cells, f"{shown}:{begins}", COLUMNS, COLUMNS[:2])
        try:
            for begins, cells in rows:
                yield _csv_row(f"{shown}:{begins}", cells, columns)
        except TraceError as error:  # what follows cannot be told apart
            yield FileRow(error.where, problem=error.message)


def _csv_row(where: str, cells: list[str], columns: list[str]) -> FileRow:
    fields: dict[str, Any] = {
        column: unguard(cell)
        for column, cell in zip(columns, cells, strict=False)
        if column in COLUMNS or cell.strip()
    }
    name = str(fields.get("name", "")).strip()
    if len(cells) > len(columns) and any(cell.strip() for cell in cells[len(columns) :]):
        problem = f"{len(cells)} cells under {len(columns)} columns; put quotes around a cell with a delimiter in it."
        return FileRow(where, problem=problem, name=name)
    if any(map(undecoded, cells)):
        return FileRow(where, problem="not UTF-8 text; save the sheet as CSV UTF-8.")
    parts = fields.get("permissions", "").split(";")
    fields["permissions"] = [part.strip() for part in parts if part.strip()]
    stated = fields.get("deprecated", "").strip()
    if stated.casefold() not in TRUTH:
        return FileRow(where, problem=f"'deprecated' must be true or false, not '{stated[:40]}'.", name=name)
    return FileRow(where, fields | {"deprecated": TRUTH[stated.casefold()]})


def read_jsonl(path: Path, shown: str) -> Iterator[FileRow]:
    """Every line that is not blank. `shown` names the file in messages."""
    check_size(path, shown, MAX_BYTES)
    for number, text in jsonl_lines(path, shown, MAX_LINE, MAX_LINES):
        where = f"{shown}:{number}"
        try:
            row = parse_jsonl_line(where, text, object_pairs_hook=keep_twice)
        except TraceError as error:
            yield FileRow(where, problem=error.message)
            continue
        twice = [key for key, _, _ in row.earlier if key in COLUMNS] if isinstance(row, Twice) else []
        problem = f"the key '{twice[0]}' is written twice." if twice else ""
        yield FileRow(where, row, problem=problem)


if __name__ == "__main__":
    read_order(json.load(sys.stdin))
