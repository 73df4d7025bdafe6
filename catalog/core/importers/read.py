"""Any catalog file in, checked tools and row errors out."""

from pathlib import Path

from catalog.core.importers import csv_rows, jsonl, mcp, odata, openapi
from catalog.core.importers.detect import FORMATS, check_head, detect, document_kind, refusal
from catalog.core.importers.documents import read_document
from catalog.core.importers.edmx import read_edmx
from catalog.core.importers.limited import read_limited
from catalog.core.importers.rows import CatalogFile, collect
from catalog.core.tool import refuse_duplicates
from trace_site.lib.errors import TraceError

LISTED_ERRORS = 20
ROWS = {"jsonl": jsonl.read, "csv": csv_rows.read}  # read line by line here; others whole, in a limited child
DOCUMENTS = {"openapi": openapi.read, "swagger": openapi.read, "mcp": mcp.read}

__all__ = ["LISTED_ERRORS", "CatalogFile", "read_catalog", "read_whole"]


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
    if fmt in ROWS:
        file = collect(fmt, ROWS[fmt](path, shown), max_errors)
    else:
        file = read_limited(path, shown, fmt, max_errors)
    file.records, doubles = refuse_duplicates(file.records)
    file.errors += doubles
    return file


def read_whole(path: Path, shown: str, fmt: str, max_errors: int | None, max_text: int | None) -> CatalogFile:
    """Read a document in this process; `fmt` is a format or `document`. Callers set the limits: see `limited`."""
    if fmt == "odata":
        return collect("odata", odata.read(read_edmx(path, shown), shown), max_errors, max_text)
    document = read_document(path, shown)
    kind = document_kind(document, shown)
    if fmt not in ("document", kind) and {fmt, kind} != {"openapi", "swagger"}:
        raise refusal(shown, f"this is an {kind} file, not {fmt}.", f"Choose the format auto or {kind}.")
    return collect(kind, DOCUMENTS[kind](document, shown), max_errors, max_text)
