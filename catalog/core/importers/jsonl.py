"""Catalog files with one tool a line. Read line by line, so the size of the file is no limit."""

from pathlib import Path

from catalog.core.tool import RowError, ToolRecord, parse_tool
from trace_site.lib.errors import TraceError
from trace_site.lib.files import jsonl_lines, parse_jsonl_line

MAX_TOOLS = 200_000


def read(path: Path, shown: str, max_errors: int | None) -> tuple[list[ToolRecord], list[RowError]]:
    """Every good row and every bad one; stops at `max_errors` bad rows. `shown` names the file in messages."""
    records: list[ToolRecord] = []
    errors: list[RowError] = []
    for number, raw in jsonl_lines(path):
        where = f"{shown}:{number}"
        name: object = ""
        try:
            row = parse_jsonl_line(path, number, raw)
            name = row.get("name")
            records.append(parse_tool(row, where))
        except TraceError as error:
            errors.append(RowError(where, error.message, name.strip() if isinstance(name, str) else ""))
            if max_errors is not None and len(errors) >= max_errors:
                break
        if len(records) > MAX_TOOLS:
            hint = "Split the catalog by API."
            raise TraceError(f"more than {MAX_TOOLS:,} tools.", code="too_large", where=where, hint=hint)
    return records, errors
