"""Which importer reads a file, judged by its first bytes; and what to say about files nothing reads."""

import json
import re
from pathlib import Path

from trace_site.lib.errors import TraceError

FORMATS = ("jsonl", "openapi")
HEAD_BYTES = 1_000_000
HINT = "Catalogs are JSON lines (one tool a line) or OpenAPI 3 documents (JSON or YAML)."


def detect(path: Path, shown: str) -> str:
    """`jsonl` or `openapi`; raises TraceError (code bad_format) for anything else."""
    head = _head(path, shown)
    if not head.strip():
        raise _refusal(shown, "the file is empty.", HINT)
    text = head.lstrip("\ufeff \t\r\n")
    if text.startswith("{"):
        return _detect_json(text, path)
    if text.startswith("["):
        raise _refusal(shown, "it is one JSON list.", f"{HINT} Rules are imported with rules_import.")
    if text.startswith("<"):
        raise _refusal(shown, "it is an XML or HTML file.", HINT)
    if re.search(r"^['\"]?(openapi|swagger)['\"]?\s*:", text, re.MULTILINE):
        return "openapi"
    raise _refusal(shown, "it is neither JSON lines nor an OpenAPI document.", HINT)


def _detect_json(text: str, path: Path) -> str:
    first = text.split("\n", 1)[0]
    try:
        row = json.loads(first)
    except (json.JSONDecodeError, RecursionError):
        if path.suffix in {".jsonl", ".ndjson"} or not re.search(r'"(openapi|swagger)"\s*:', text):
            return "jsonl"
        return "openapi"
    return "openapi" if isinstance(row, dict) and ("openapi" in row or "swagger" in row) else "jsonl"


def _head(path: Path, shown: str) -> str:
    if not path.is_file():
        kind = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise TraceError(f"{kind}.", code="no_such_file", where=shown, hint="Check the path.")
    with path.open("rb") as handle:
        head = handle.read(HEAD_BYTES)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:
        raise _refusal(
            shown, "not UTF-8 text (a binary or UTF-16 file).", "Save the file as UTF-8.", "bad_encoding"
        )
    return head.decode("utf-8", errors="replace")


def _refusal(shown: str, message: str, hint: str, code: str = "bad_format") -> TraceError:
    return TraceError(message, code=code, where=shown, hint=hint)
