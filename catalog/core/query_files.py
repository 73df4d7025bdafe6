"""Real queries out of a text, a CSV or JSON lines: one query a row.

In: the text and its file name. Out: rows in order. Errors name the row and never repeat what it says.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import PurePath

from trace_site.lib.errors import TraceError

MOST_ROWS = 2000
MOST_BYTES = 1_000_000
COLUMNS = ("query", "text", "question", "utterance", "request", "message")


@dataclass(frozen=True, slots=True)
class GivenQuery:
    """`number`: the line it stands on (of a CSV: the row, the heading is 1)."""

    number: int
    text: str


def read_queries(content: bytes | str, filename: str = "") -> list[GivenQuery]:
    """Rows that say something. Raises TraceError for what is no such file, or too much of one."""
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    if len(raw) > MOST_BYTES:
        raise _refused(f"has {len(raw):,} bytes; the limit is {MOST_BYTES:,}", "too_large", hint="Split it.")
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _refused("is not UTF-8 text", "bad_encoding", hint="Save it as UTF-8.") from None
    if "\0" in text:
        raise _refused("is not text: it holds NUL characters", "bad_text")
    suffix = PurePath(filename).suffix.lower()
    if suffix in (".jsonl", ".ndjson", ".json") or (not suffix and text.lstrip()[:1] == "{"):
        found = _json_lines(text)
    elif suffix in (".csv", ".tsv"):
        found = _csv_rows(text, suffix)
    else:
        found = (GivenQuery(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1))
    rows = [row for row in found if row.text.strip()]
    if not rows:
        raise _refused("holds no query", "empty", hint="Write one query a line.")
    if len(rows) > MOST_ROWS:
        problem = f"holds {len(rows):,} queries; the limit is {MOST_ROWS:,}"
        raise _refused(problem, "too_many", hint="Split it.")
    return rows


def _json_lines(text: str) -> Iterator[GivenQuery]:
    hint = 'Each line is {"query": "..."}.'
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise _refused("is not valid JSON", "bad_json", number, hint) from None
        said = next((row[name] for name in COLUMNS if name in row), None) if isinstance(row, dict) else row
        if not isinstance(said, str):
            raise _refused('has no text under "query"', "bad_row", number, hint)
        yield GivenQuery(number, said)


def _csv_rows(text: str, suffix: str) -> Iterator[GivenQuery]:
    first = text.partition("\n")[0]
    mark = "\t" if suffix == ".tsv" else ";" if first.count(";") > first.count(",") else ","
    try:
        rows = list(csv.reader(StringIO(text, newline=""), delimiter=mark, strict=True))
    except csv.Error:
        hint = "Quote texts that hold commas."
        raise _refused("is not a CSV that can be read", "bad_csv", hint=hint) from None
    heading = [cell.strip().casefold() for cell in rows[0]] if rows else []
    column = next((heading.index(name) for name in COLUMNS if name in heading), None)
    if column is None and len(heading) > 1:
        raise _refused("names no column of queries", "bad_csv", 1, f"Call it one of: {', '.join(COLUMNS)}.")
    for number, row in enumerate(rows, start=1):
        if column is None or number > 1:
            yield GivenQuery(number, row[column or 0] if len(row) > (column or 0) else "")


def _refused(problem: str, code: str, number: int = 0, hint: str = "") -> TraceError:
    where = f"row {number}" if number else ""
    return TraceError(f"{'this row' if number else 'the file'} {problem}.", code=code, where=where, hint=hint)
