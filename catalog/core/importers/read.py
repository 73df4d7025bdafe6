"""Any catalog file in, checked tools and row errors out."""

from dataclasses import dataclass
from pathlib import Path

from catalog.core.importers import jsonl, openapi
from catalog.core.importers.detect import FORMATS, detect
from catalog.core.tool import RowError, ToolRecord, refuse_duplicates
from trace_site.lib.errors import TraceError

READERS = {"jsonl": jsonl.read, "openapi": openapi.read}
LISTED_ERRORS = 20


@dataclass(frozen=True, slots=True)
class CatalogFile:
    format: str
    records: list[ToolRecord]
    errors: list[RowError]


def read_catalog(path: Path, *, shown: str = "", fmt: str = "auto", keep_going: bool = False) -> CatalogFile:
    """Read a file whole. Without `keep_going` reading stops at the first 20 bad rows."""
    shown = shown or str(path)
    if fmt not in ("auto", *FORMATS):
        raise TraceError(
            f"unknown format '{fmt}'.",
            code="bad_format",
            where=shown,
            hint=f"Use auto, {' or '.join(FORMATS)}.",
        )
    detected = detect(path, shown)
    if fmt == "auto":
        fmt = detected
    records, errors = READERS[fmt](path, shown, None if keep_going else LISTED_ERRORS)
    unique, doubles = refuse_duplicates(records)
    return CatalogFile(fmt, unique, errors + doubles)
