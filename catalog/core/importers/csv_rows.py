"""Catalogs as spreadsheets save them: a header row, then one tool a row.

Columns: name and description; permissions (separated by ;), deprecated, version, source when wanted; others are
ignored. The delimiter is the comma, semicolon or tab that splits the header best. An apostrophe that guards a cell
against being taken for a formula (`'=SUM`) is removed.
"""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catalog.core.importers.detect import refusal
from catalog.core.importers.documents import check_size, encoding_of
from catalog.core.importers.rows import Row

MAX_BYTES = 100_000_000
MAX_ROW = 1_000_000
MAX_LINES = 1_000_000
COLUMNS = ("name", "description", "permissions", "deprecated", "version", "source")
GUARDED = re.compile(r"'+[=+\-@\t\r]")
TRUTH = dict.fromkeys(["true", "yes", "y", "1", "x"], True) | dict.fromkeys(
    ["false", "no", "n", "0", ""], False
)


def read(path: Path, shown: str) -> Iterator[Row]:
    """Every row that is not blank, at the line where it begins; raises TraceError for an unusable header."""
    check_size(path, shown, MAX_BYTES)
    csv.field_size_limit(MAX_ROW)
    with path.open("rb") as binary:
        encoding = encoding_of(binary.read(100))
        binary.seek(0)
        lines = io.TextIOWrapper(binary, encoding, errors="surrogateescape", newline="")
        yield from _read(lines, shown)


class Lines:
    """The lines of a sheet for the CSV reader; a row, over however many lines, holds at most MAX_ROW characters."""

    def __init__(self, text: io.TextIOBase) -> None:
        self.text = text
        self.number = 0  # of the last line that was read
        self.row = 0

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        line = self.text.readline(MAX_ROW + 1)
        self.number += 1
        self.row += len(line)
        if self.row > MAX_ROW or self.number > MAX_LINES:
            raise csv.Error(f"more than {MAX_ROW:,} characters" if self.row > MAX_ROW else "too many lines")
        if not line:
            raise StopIteration
        return line


def _read(text: io.TextIOBase, shown: str) -> Iterator[Row]:
    lines = Lines(text)
    begins = 1
    try:
        first = next(lines, "")
        if first.removeprefix("\ufeff").casefold().startswith("sep="):  # a note of Excel to itself
            first = next(lines, "")
        columns, delimiter = _header(first.removeprefix("\ufeff"), f"{shown}:{lines.number}")
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        while True:
            begins, lines.row = lines.number + 1, 0
            cells = next(reader, None)
            if cells is None:
                return
            if any(cell.strip() for cell in cells):
                yield _row(f"{shown}:{begins}", cells, columns)
    except csv.Error as error:  # what follows cannot be told apart
        problem = f"not valid CSV ({error}); is a quote in this row never closed?"
        yield Row(f"{shown}:{begins}", problem=problem)


def _header(line: str, where: str) -> tuple[list[str], str]:
    """Column names and delimiter."""
    choices = {mark: _names(line, mark) for mark in ",;\t"}
    delimiter = max(choices, key=lambda mark: (len(set(COLUMNS) & set(choices[mark])), len(choices[mark])))
    columns = choices[delimiter]
    if missing := [column for column in COLUMNS[:2] if column not in columns]:
        found = ", ".join(column[:40] for column in columns[:10] if column) or "nothing"
        hint = "Name the columns in the first row: name, description, permissions, deprecated, version."
        raise refusal(where, f"the header has no column '{missing[0]}' (found: {found}).", hint)
    if double := next((column for column in COLUMNS if columns.count(column) > 1), ""):
        raise refusal(where, f"the header has the column '{double}' twice.", "Leave one of them.")
    return columns, delimiter


def _names(line: str, delimiter: str) -> list[str]:
    return [cell.strip().casefold() for cell in next(csv.reader([line], delimiter=delimiter), [])]


def _row(where: str, cells: list[str], columns: list[str]) -> Row:
    fields: dict[str, Any] = {
        column: unguard(cell) for column, cell in zip(columns, cells, strict=False) if column in COLUMNS
    }
    name = str(fields.get("name", "")).strip()
    if len(cells) > len(columns) and any(cell.strip() for cell in cells[len(columns) :]):
        problem = f"{len(cells)} cells under {len(columns)} columns; put quotes around a cell with a delimiter in it."
        return Row(where, problem=problem, name=name)
    if any("\udc80" <= letter <= "\udcff" for cell in cells for letter in cell if letter > "\ud7ff"):
        return Row(where, problem="not UTF-8 text; save the sheet as CSV UTF-8.")
    fields["permissions"] = [
        part.strip() for part in fields.get("permissions", "").split(";") if part.strip()
    ]
    stated = fields.get("deprecated", "").strip()
    if stated.casefold() not in TRUTH:
        return Row(where, problem=f"'deprecated' must be true or false, not '{stated[:40]}'.", name=name)
    fields["deprecated"] = TRUTH[stated.casefold()]
    return Row(where, fields)


def unguard(cell: str) -> str:
    """A cell without the apostrophe that keeps a spreadsheet from reading it as a formula."""
    return cell[1:] if GUARDED.match(cell) else cell
