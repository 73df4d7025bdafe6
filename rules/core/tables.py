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


class CellProblem(Exception):
    """A sentence about one cell."""


def cell_of(column: str, value: Any) -> str:
    match column:
        case "confusables":
            return "\n".join(_line(name, also=";") for name in value)
        case "clauses":
            lines = []
            for clause in value:
                lines += [f"{name}: {_line(clause[name])}" for name in ("when", "route_to")]
                lines += ["exception: yes"] if clause["exception"] else []
                lines += [f"signal: {_line(signal)}" for signal in clause["signals"]]
            return "\n".join(lines)
        case "tests":
            lines = []
            for test in value:
                lines += [
                    f"query: {_line(test['query'])}",
                    *(f"tool: {_line(name)}" for name in test["tools"]),
                ]
            return "\n".join(lines)
    return str(value)


def _line(text: str, also: str = "\n") -> str:
    plain = not text.startswith('"') and not any(letter in text for letter in ("\n", "\r", also))
    return text if plain else json.dumps(text, ensure_ascii=False)


def value_of(column: str, cell: str) -> Any:
    match column:
        case "confusables":
            return list(_names(cell))
        case "clauses":
            return _clauses(cell)
        case "tests":
            return _tests(cell)
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


def _labelled(cell: str, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for line in _lines(cell):
        match = LABEL.fullmatch(line)
        label = match[1].lower() if match else ""
        if match is None or label not in labels:
            words = ", ".join(f"{word}:" for word in labels)
            raise CellProblem(f"holds the line '{line[:60]}'; every line begins with one of {words}")
        yield label, _unquoted(match[2])


def _clauses(cell: str) -> list[dict[str, Any]]:
    clauses: list[dict[str, Any]] = []
    labels = {"when": "when", "route_to": "route_to", "exception": "exception", "signal": "signals"}
    for label, text in _labelled(cell, labels):
        if label == "when":
            clauses.append({"when": text})
        elif not clauses:
            raise CellProblem(f"begins with {label}:; a clause begins with when:")
        elif label == "signal":
            clauses[-1].setdefault("signals", []).append(text)
        elif label in clauses[-1]:
            raise CellProblem(f"gives {label}: twice for the clause '{clauses[-1]['when'][:60]}'.")
        else:
            if label == "exception" and text.lower() not in YES | NO:
                raise CellProblem(f"says exception: {text[:40]}; write yes or no.")
            clauses[-1][label] = text.lower() in YES if label == "exception" else text
    return clauses


def _tests(cell: str) -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = []
    for label, text in _labelled(cell, {"query": "query", "tool": "tools"}):
        if label == "query":
            tests.append({"query": text, "tools": []})
        elif not tests:
            raise CellProblem("begins with tool:; a test begins with query:")
        else:
            tests[-1]["tools"].append(text)
    return tests


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
