"""What a file is, judged by its first bytes and, for a document, by its keys; and what to say about other files."""

import json
import re
from pathlib import Path
from typing import Any

from catalog.core.importers.documents import refusal
from catalog.core.importers.tool_lists import holds_tools
from trace_site.lib.errors import TraceError
from trace_site.lib.texts import encoding_of, is_json, is_sheet

FORMATS = ("jsonl", "csv", "openapi", "swagger", "odata", "mcp")
HEAD_BYTES = 1_000_000
LINES = 20  # that tell what a file is
HINT = (
    "Catalogs are JSON lines, CSV, OpenAPI or Swagger documents (JSON or YAML), OData $metadata, "
    "or the tool list of an MCP server."
)
ONE_A_LINE = "Write one tool a line (JSON lines)."
PACKED = {
    b"PK\x03\x04": "a zip file (an Excel workbook is one too)",
    b"PK\x05\x06": "an empty zip file",
    b"\x1f\x8b": "a gzip file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"7z\xbc\xaf\x27\x1c": "a 7z file",
    b"Rar!": "a rar file",
    b"%PDF": "a PDF file",
    b"\xd0\xcf\x11\xe0": "an old Office file",
    b"PAR1": "a Parquet file",
    b"SQLite format 3": "a database file",
}
# how a text that is nothing else begins, what it then is, and what to do about it
FOREIGN_TEXT = (
    (
        r"^(?:extend\s+)?(?:type|input|interface|schema)\b[^\n:]*\{",
        "a GraphQL schema",
        "List its operations as JSON lines, one tool a line.",
    ),
    (r"\A#%RAML", "a RAML document", "Convert it to OpenAPI 3."),
    (
        r"\A(?:event|data|id|retry):",
        "a stream of events",
        "Keep what stands behind 'data:', one message a line.",
    ),
    (r"\AFORMAT:\s*1A", "an API Blueprint", "Convert it to OpenAPI 3."),
    (r"^syntax\s*=\s*[\"']proto", "a protobuf file", "Export the service as OpenAPI 3."),
)
# a key that only documents of that kind have
FOREIGN_KEYS = (
    ("swaggerVersion", "a Swagger 1 document", "Convert it to OpenAPI 3 or Swagger 2.0."),
    ("asyncapi", "an AsyncAPI document, which describes messages", "List its operations as JSON lines."),
    ("openrpc", "an OpenRPC document", "List its methods as JSON lines, one tool a line."),
    ("arazzo", "an Arazzo document, which describes workflows", "Import the OpenAPI documents it names."),
    ("overlay", "an OpenAPI overlay", "Apply it, then import the result."),
    ("__schema", "a GraphQL schema", "GraphQL has one endpoint; list its operations as JSON lines."),
    ("discoveryVersion", "a Google API discovery document", "Convert it to OpenAPI 3."),
    ("$EntityContainer", "OData metadata as JSON", "Ask the server for $metadata as XML."),
    ("@odata.context", "an OData service document or answer", "Ask the server for $metadata."),
    ("_postman_id", "a Postman collection", "Export it as OpenAPI 3."),
    ("__export_format", "an Insomnia export", "Export it as OpenAPI 3."),
    ("shapes", "an AWS service model", "List its operations as JSON lines, one tool a line."),
    ("mcpServers", "the settings of an MCP client", "Ask each server for tools/list."),
    ("rule_text", "a list of rules", "Rules are imported with rules_import."),
    ("tool_name", "a rule", "Rules are imported with rules_import."),
    ("query", "a list of labelled queries", "Queries are imported with queries_import."),
)


def detect(path: Path, shown: str) -> str:
    """`jsonl`, `csv`, `document` (JSON or YAML) or `odata`; raises TraceError for anything else."""
    text = check_head(path, shown).lstrip("\ufeff \t\r\n")
    suffix = Path(shown).suffix.lower()
    if re.match(r"<!doctype html|<html", text, re.IGNORECASE):
        hint = "Download the raw file instead of the page that shows it."
        raise refusal(shown, "this is a web page.", hint)
    in_lines = suffix in {".jsonl", ".ndjson"}
    if text.startswith("<") and not in_lines:
        return "odata"
    if text.startswith("{") or in_lines:
        return _json_kind(text, in_lines)
    if text.startswith("[") or suffix in {".yaml", ".yml"}:
        return "document"
    if suffix in {".csv", ".tsv"} or is_sheet(text, ("name", "description"), 2):
        return "csv"
    if re.search(r"^['\"]?(openapi|swagger|paths|info|asyncapi)['\"]?\s*:", text, re.MULTILINE):
        return "document"
    for pattern, what, hint in FOREIGN_TEXT:
        if re.search(pattern, text, re.MULTILINE):
            raise refusal(shown, f"this is {what}.", hint)
    raise refusal(shown, "this is no catalog format.", HINT)


def check_head(path: Path, shown: str) -> str:
    """The first megabyte as text; raises TraceError for what is no text."""
    if not path.is_file():
        kind = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise TraceError(f"{kind}.", code="no_such_file", where=shown, hint="Check the path.")
    with path.open("rb") as handle:
        head = handle.read(HEAD_BYTES)
    for magic, what in PACKED.items():
        if head.startswith(magic):
            hint = "Unpack it first, or save it as CSV (UTF-8), and import the file inside."
            raise refusal(shown, f"this is {what}.", hint)
    encoding = encoding_of(head)
    if encoding == "utf-8" and b"\0" in head:
        raise refusal(shown, "this is a binary file, not UTF-8 text.", HINT, "bad_encoding")
    text = head.decode(encoding, errors="replace")
    if not text.strip("\ufeff \t\r\n"):
        raise refusal(shown, "the file is empty.", HINT)
    return text


def _json_kind(text: str, in_lines: bool) -> str:
    """One JSON document or one tool a line? Where the first value ends tells; else what most of the lines are. Pages of
    a tool list, one a line, are a document."""
    try:
        row, end = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode(text)
    except (ValueError, RecursionError):
        lines = [line for line in text.splitlines() if line.strip()][:LINES]
        return "jsonl" if in_lines or 2 * sum(map(is_json, lines)) >= len(lines) > 1 else "document"
    rest = text[end:].lstrip()
    is_spread = re.search(r"[\r\n]", text[:end].strip()) or (isinstance(row, list) and not rest)
    if is_spread or holds_tools([row]) or re.match(r"[ \t]*\{", text[end:]):
        return "document"
    if in_lines or rest:
        return "jsonl" if in_lines or rest.startswith("{") else "document"
    return "jsonl" if row.keys() & {"name", "query", "rule_text"} else "document"


def document_kind(document: Any, shown: str) -> str:
    """`openapi`, `swagger` or `mcp` for a parsed document; raises TraceError that says what it is instead."""
    if not document:
        hint = "An MCP server tells its tools when asked for tools/list."
        raise refusal(shown, "the document is empty.", hint)
    if holds_tools(document):
        return "mcp"
    if isinstance(document, dict):
        for kind in ("openapi", "swagger"):
            if kind in document:
                return kind
        _refuse_foreign(document, shown)
        if "name" in document:
            raise refusal(shown, "this is one tool over several lines.", ONE_A_LINE)
    elif isinstance(document, list) and document and isinstance(document[0], dict):
        first = document[0]
        if first.keys() & {"inputSchema", "input_schema", "arguments"}:
            return "mcp"
        _refuse_foreign(first, shown)
        if "/" in str(first.get("name", "")):
            raise refusal(shown, "this is one JSON list of tools.", ONE_A_LINE)
        if "name" in first:
            return "mcp"
    raise refusal(shown, "this document holds no tools that are known here.", HINT)


def _refuse_foreign(document: dict[str, Any], shown: str) -> None:
    if isinstance(answer := document.get("error"), dict) and "jsonrpc" in document:
        message = f"the server answered with an error ({str(answer.get('message', ''))[:200]})."
        raise refusal(shown, message, "Ask it for tools/list again.")
    layers = [value for key in ("info", "data", "log") if isinstance(value := document.get(key), dict)]
    keys = set(document).union(*layers)
    for key, what, hint in FOREIGN_KEYS:
        if key in keys:
            raise refusal(shown, f"this is {what}.", hint)
    if "entries" in keys and "log" in document:
        raise refusal(shown, "this is a recording of web traffic (HAR).", HINT)
    if "item" in document and "info" in document:
        raise refusal(shown, "this is a Postman collection.", "Export it as OpenAPI 3.")
