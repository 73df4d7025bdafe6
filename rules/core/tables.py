"""Rules as a table for spreadsheets, one rule a row: CSV out, CSV in, nothing lost on the way.

In: entries of the exchange format, or the text of a file. A cell that a spreadsheet would run as a formula gets an
apostrophe, which reading takes away again: OWASP, CSV injection.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from rules.core.cells import CellProblem, cell_of, value_of
from trace_site.lib.cells import guard, unguard
from trace_site.lib.errors import TraceError

COLUMNS = ("code", "domain", "tool_name", "confusables", "rule_text", "clauses", "tests")
REQUIRED = ("tool_name", "confusables", "rule_text")
DELIMITERS = (",", ";", "\t")
SPREADSHEET_CUT = 32_767  # characters a cell of a spreadsheet can hold; what is longer was cut there
LARGEST_CELL = 25_000_000


def write_table(items: Iterable[Mapping[str, Any]]) -> str:
    """Rules in the exchange format as CSV: all cells quoted, CRLF, a byte order mark for spreadsheets."""
    out = StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for item in items:
        writer.writerow([guard(cell_of(column, item[column])) for column in COLUMNS])
    return "\ufeff" + out.getvalue()


@dataclass(slots=True)
class Table:
    """A table as read. `items` are entries of the exchange format, `lines` where each begins; `problems` are
    (place in items, column, sentence)."""

    items: list[dict[str, Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    problems: list[tuple[int, str, str]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def read_table(text: str, shown: str, most: int) -> Table:
    """Read at most `most` rules. Raises TraceError `bad_csv` where no reader can know what was meant."""
    csv.field_size_limit(LARGEST_CELL)
    delimiter, start, text = _sniff(text, shown)
    records = _records(text, delimiter, start, shown)
    _, header = next(records, (start, []))
    columns = _columns(header, shown, start)
    table = Table(ignored=[name for name in columns if name and name not in COLUMNS])
    for line, cells in records:
        if not any(cell.strip() for cell in cells):
            continue
        if len(table.items) == most:
            raise TraceError(f"more than {most:,} rules.", code="too_large", where=f"{shown}:{line}")
        _add(table, line, columns, cells)
    return table


def _records(text: str, delimiter: str, start: int, shown: str) -> Iterator[tuple[int, list[str]]]:
    """(line the record begins on, its cells)."""
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = start + reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _unreadable(str(error), f"{shown}:{line}") from error
        yield line, cells


def _unreadable(reason: str, where: str) -> TraceError:
    if "unexpected end" in reason:
        return TraceError(
            "a quotation mark is opened here and never closed.",
            code="bad_csv",
            where=where,
            hint="The file was cut, or a quotation mark inside a cell is not doubled.",
        )
    return TraceError(
        f"not valid CSV ({reason}).",
        code="bad_csv",
        where=where,
        hint="Quote cells that hold separators, double quotation marks inside them, or save the sheet again as CSV.",
    )


def _sniff(text: str, shown: str) -> tuple[str, int, str]:
    """(delimiter, number of the header's line, text from there on): the one that shows the most known columns."""
    first, _, rest = text.partition("\n")
    start = 1
    if re.fullmatch(r"sep=.\r?", first):
        text, start = rest, 2
    best, found = ",", -1
    for delimiter in DELIMITERS:
        try:
            header = next(csv.reader(StringIO(text, newline=""), delimiter=delimiter), [])
        except csv.Error:
            continue
        known = len({_column(cell) for cell in header} & set(COLUMNS))
        if known > found:
            best, found = delimiter, known
    return best, start, text


def _column(cell: str) -> str:
    return re.sub(r"[\s-]+", "_", cell.strip().lower())


def _columns(header: list[str], shown: str, line: int) -> list[str]:
    columns = [_column(cell) for cell in header]
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        seen = ", ".join(name[:40] for name in columns[:12]) or "nothing"
        raise TraceError(
            f"the header names no column {' and no '.join(missing)}; it holds: {seen}.",
            code="bad_csv",
            where=f"{shown}:{line}",
            hint=f"The first line names the columns: {', '.join(COLUMNS)}.",
        )
    twice = next((name for name in COLUMNS if columns.count(name) > 1), "")
    if twice:
        raise TraceError(
            f"the header names the column {twice} twice.", code="bad_csv", where=f"{shown}:{line}"
        )
    return columns


def _add(table: Table, line: int, columns: list[str], cells: list[str]) -> None:
    place = len(table.items)
    item: dict[str, Any] = {}
    table.items.append(item)
    table.lines.append(line)
    if extra := [cell for cell in cells[len(columns) :] if cell.strip()]:
        table.problems.append((place, "", _too_many(len(columns), extra[0])))
        return
    for column, cell in zip(columns, cells, strict=False):
        if column not in COLUMNS or (not cell.strip() and column not in REQUIRED):
            continue
        if len(cell) == SPREADSHEET_CUT:
            sentence = (
                f"has exactly {SPREADSHEET_CUT:,} characters, where spreadsheets cut; use JSON for this rule."
            )
            table.problems.append((place, column, sentence))
        try:
            item[column] = value_of(column, unguard(cell))
        except CellProblem as problem:
            table.problems.append((place, column, str(problem)))


def _too_many(columns: int, first: str) -> str:
    return (
        f"has more than {columns} cells; the first one too many is '{first[:40]}'. "
        "Quote cells that hold separators."
    )
