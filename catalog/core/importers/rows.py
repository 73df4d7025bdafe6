"""What the readers yield and what becomes of it: every row of a file ends as a tool, an error or a note."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.core.tool import RowError, ToolRecord, parse_tool
from trace_site.lib.errors import TraceError

MAX_TOOLS = 200_000
MAX_ERRORS = 20_000


@dataclass(frozen=True, slots=True)
class Row:
    """One row or operation. `fields` make a tool; `problem` says why not; `note` tells what is no tool by design.

    `name` is the tool that a row with a problem stands for, as far as it is known.
    """

    where: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    name: str = ""
    note: str = ""


@dataclass(slots=True)
class CatalogFile:
    """A file as read: its format, checked tools, rows that made none, and what was left out on purpose."""

    format: str
    records: list[ToolRecord] = field(default_factory=list)
    errors: list[RowError] = field(default_factory=list)
    notes: list[RowError] = field(default_factory=list)


def collect(
    fmt: str, rows: Iterable[Row], max_errors: int | None, max_text: int | None = None
) -> CatalogFile:
    """Check every row; stops at `max_errors` bad ones. `max_text` (characters) stops a file that repeats itself."""
    file = CatalogFile(fmt)
    text = 0
    for row in rows:
        if row.note:
            file.notes.append(RowError(printable(row.where), printable(row.note)))
            continue
        try:
            if row.problem:
                raise TraceError(row.problem, code="bad_tool")
            file.records.append(parse_tool(row.fields, printable(row.where)))
            text += len(file.records[-1].description)
        except TraceError as error:
            name = row.name or row.fields.get("name")
            name = name.strip() if isinstance(name, str) else ""
            file.errors.append(RowError(printable(row.where), printable(error.message), name))
        if max_errors is not None and len(file.errors) >= max_errors:
            break
        _check_size(file, row.where, text, max_text)
    return file


def _check_size(file: CatalogFile, where: str, text: int, max_text: int | None) -> None:
    if len(file.records) > MAX_TOOLS:
        message, hint = f"more than {MAX_TOOLS:,} tools.", "Split the catalog by API."
    elif len(file.errors) > MAX_ERRORS:
        message, hint = f"more than {MAX_ERRORS:,} bad rows.", "Is this a catalog? Choose its format by hand."
    elif max_text is not None and text > max_text:
        message = f"the tools repeat their texts beyond {max_text:,} characters."
        hint = "Write each path out, without aliases or references to one shared path."
    else:
        return
    raise TraceError(message, code="too_large", where=printable(where), hint=hint)


def printable(text: str) -> str:
    """A place or message that can be stored: NUL and halves of surrogate pairs are written as escapes."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def unique_names(candidates: Sequence[Sequence[str]]) -> list[str]:
    """One name for each row out of its candidates, best first: who comes first keeps the name.

    A row all of whose candidates are taken gets its last one, and is then refused as a double.
    """
    owner: dict[str, int] = {}
    for number, names in enumerate(candidates):
        owner.setdefault(names[0], number)
    for number, names in enumerate(candidates):
        if owner[names[0]] != number:
            for name in names[1:]:
                if owner.setdefault(name, number) == number:
                    break
    chosen = {number: name for name, number in owner.items()}
    return [chosen.get(number, names[-1]) for number, names in enumerate(candidates)]
