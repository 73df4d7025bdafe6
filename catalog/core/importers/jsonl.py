"""Catalog files with one tool a line, read line by line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catalog.core.importers.documents import check_size, encoding_of
from catalog.core.importers.rows import Row
from trace_site.lib.errors import TraceError
from trace_site.lib.files import parse_jsonl_line

MAX_BYTES = 100_000_000
MAX_LINE_BYTES = 1_000_000
MAX_LINES = 1_000_000
FIELDS = [json.dumps(key).encode() for key in ("name", "description", "permissions", "deprecated", "version")]


def read(path: Path, shown: str) -> Iterator[Row]:
    """Every line that is not blank. `shown` names the file in messages."""
    check_size(path, shown, MAX_BYTES)
    for number, raw in _lines(path, shown):
        where = f"{shown}:{number}"
        try:
            row = parse_jsonl_line(path, number, raw)
        except TraceError as error:
            yield Row(where, problem=error.message)
            continue
        if double := _double(raw):
            yield Row(where, problem=f"the key '{double}' is written twice.", name=str(row.get("name") or ""))
        else:
            yield Row(where, row)


def _lines(path: Path, shown: str) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as handle:
        if not encoding_of(handle.read(100)).startswith("utf-8"):
            hint = "Save the file as UTF-8."
            raise TraceError(
                "not UTF-8 text, but UTF-16 or UTF-32.", code="bad_encoding", where=shown, hint=hint
            )
        handle.seek(0)
        for number, raw in enumerate(iter(lambda: handle.readline(MAX_LINE_BYTES + 1), b""), start=1):
            if len(raw) > MAX_LINE_BYTES or number > MAX_LINES:
                what = (
                    f"line longer than {MAX_LINE_BYTES:,} bytes" if number <= MAX_LINES else "too many lines"
                )
                hint = "JSON lines hold one tool a line; is this a .jsonl file?"
                raise TraceError(f"{what}.", code="too_large", where=f"{shown}:{number}", hint=hint)
            if raw.strip():
                yield number, raw


def _double(raw: bytes) -> str:
    """A field of the tool that its line holds twice; JSON would keep the last in silence."""
    if all(raw.count(field) < 2 for field in FIELDS):
        return ""
    pairs: list[tuple[str, Any]] = json.loads(raw, object_pairs_hook=lambda found: found)
    keys = [json.dumps(key).encode() for key, _ in pairs]
    return next((json.loads(key) for key in FIELDS if keys.count(key) > 1), "")
