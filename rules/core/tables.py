"""Rules as a table for spreadsheets, one rule a row: CSV out, CSV in, nothing lost on the way.

In: entries of the exchange format, or the text of a file. A cell that a spreadsheet would run as a formula gets an
apostrophe, which reading takes away again: OWASP, CSV injection.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rules.core.rule import FIELDS, REQUIRED
from trace_site.lib.cells import csv_lines, unguard
from trace_site.lib.errors import TraceError
from trace_site.lib.texts import Lines, header, sheet_rows

# What one cell of the table of rules says: fields with several parts hold one part a line.
#
#     confusables   Pay/getOld                clauses   when: before 2024       tests   query: march slip
#                   Pay/third                           route_to: Pay/getOld            tool: Pay/get
#                                                       exception: yes
#                                                       signal: 2023
#
# A part that a line cannot hold (line breaks, an opening quotation mark) is written as a JSON string.


LABEL = re.compile(r"\s*(\w+)\s*:(.*)", re.DOTALL)
YES, NO = frozenset({"yes", "true"}), frozenset({"no", "false"})
# column -> label -> field of a part; the first label begins a part
PARTS = {
    "clauses": {"when": "when", "route_to": "route_to", "exception": "exception", "signal": "signals"},
    "tests": {"query": "query", "tool": "tools"},
}
SEVERAL = frozenset({"signals", "tools"})  # fields that a label may give again and again


class CellProblem(Exception):
    """A sentence about one cell."""


def cell_of(column: str, value: Any) -> str:
    if column == "confusables":
        return "\n".join(_line(name, also=";") for name in value)
    if column in PARTS:
        return "\n".join(line for part in value for line in _labels(part, PARTS[column]))
    return str(value)


def _labels(part: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[str]:
    for label, name in labels.items():
        if name == "exception":
            yield from [f"{label}: yes"] if part[name] else []
        else:
            yield from (
                f"{label}: {_line(text)}" for text in (part[name] if name in SEVERAL else [part[name]])
            )


def _line(text: str, also: str = "\n") -> str:
    plain = not text.startswith('"') and not any(letter in text for letter in ("\n", "\r", also))
    return text if plain else json.dumps(text, ensure_ascii=False)


def value_of(column: str, cell: str) -> Any:
    if column == "confusables":
        return list(_names(cell))
    if column in PARTS:
        return _parts(column, cell)
    return cell.strip() if column == "code" else cell


def _lines(cell: str) -> list[str]:
    return [line for line in cell.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.strip()]


def _names(cell: str) -> Iterator[str]:
    """Names a line, or separated by semicolons."""
    for line in _lines(cell):
        if line.lstrip().startswith('"'):
            yield _unquoted(line)
        else:
            yield from (name.strip() for name in line.split(";") if name.strip())


def _unquoted(text: str) -> str:
    """A part as `_line` wrote it."""
    text = text.strip()
    if not text.startswith('"'):
        return text
    try:
        value: str = json.loads(text)
    except ValueError as error:
        raise CellProblem(f"holds {text[:60]}, which is not one whole JSON string.") from error
    return value


def _parts(column: str, cell: str) -> list[dict[str, Any]]:
    labels, noun = PARTS[column], column.removesuffix("s")
    first = next(iter(labels))
    parts: list[dict[str, Any]] = []
    for label, text in _labelled(cell, labels):
        name = labels[label]
        if label == first:
            parts.append({name: text} | {name: [] for name in labels.values() if name in SEVERAL})
        elif not parts:
            raise CellProblem(f"begins with {label}:; a {noun} begins with {first}:")
        elif name in SEVERAL:
            parts[-1][name].append(text)
        elif name in parts[-1]:
            raise CellProblem(f"gives {label}: twice for the {noun} '{parts[-1][first][:60]}'.")
        elif name == "exception" and text.lower() not in YES | NO:
            raise CellProblem(f"says exception: {text[:40]}; write yes or no.")
        else:
            parts[-1][name] = text.lower() in YES if name == "exception" else text
    return parts


def _labelled(cell: str, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for line in _lines(cell):
        match = LABEL.fullmatch(line)
        label = match[1].lower() if match else ""
        if match is None or label not in labels:
            words = ", ".join(f"{word}:" for word in labels)
            raise CellProblem(f"holds the line '{line[:60]}'; every line begins with one of {words}")
        yield label, _unquoted(match[2])


COLUMNS = ("code", "domain", *(one.key for one in FIELDS.values()))
NEEDED = [FIELDS[name].key for name in REQUIRED]
SPREADSHEET_CUT = 32_767  # characters a cell of a spreadsheet can hold; what is longer was cut there


def write_table(items: Iterable[Mapping[str, Any]]) -> str:
    """Rules in the exchange format as CSV: all cells quoted, CRLF, a byte order mark for spreadsheets."""
    rows = ([cell_of(column, item[column]) for column in COLUMNS] for item in items)
    return "".join(csv_lines(COLUMNS, rows))


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
    lines = Lines(text, shown)
    records = sheet_rows(lines, COLUMNS)
    line, cells = next(records, None) or (lines.number, [])
    columns = header(cells, f"{shown}:{line}", COLUMNS, NEEDED)
    table = Table(ignored=[name for name in columns if name and name not in COLUMNS])
    for line, cells in records:
        if len(table.items) == most:
            raise TraceError(f"more than {most:,} rules.", code="too_large", where=f"{shown}:{line}")
        _add(table, line, columns, cells)
    return table


def _add(table: Table, line: int, columns: list[str], cells: list[str]) -> None:
    place = len(table.items)
    item: dict[str, Any] = {}
    table.items.append(item)
    table.lines.append(line)
    if extra := [cell for cell in cells[len(columns) :] if cell.strip()]:
        sentence = f"has more than {len(columns)} cells; the first one too many is '{extra[0][:40]}'. "
        table.problems.append((place, "", f"{sentence}Quote cells that hold separators."))
        return
    for column, cell in zip(columns, cells, strict=False):
        if column not in COLUMNS or (not cell.strip() and column not in NEEDED):
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
