"""Rules as a table for spreadsheets, one rule a row: CSV out, CSV in, nothing lost on the way.

In: entries of the exchange format, or the text of a file. A cell that a spreadsheet would run as a formula gets an
apostrophe, which reading takes away again: OWASP, CSV injection.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from trace_site.lib.cells import csv_lines, unguard
from trace_site.lib.errors import TraceError

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


COLUMNS = ("code", "domain", "tool_name", "confusables", "rule_text", "clauses", "tests")
REQUIRED = ("tool_name", "confusables", "rule_text")
DELIMITERS = (",", ";", "\t")
SPREADSHEET_CUT = 32_767  # characters a cell of a spreadsheet can hold; what is longer was cut there
LARGEST_CELL = 25_000_000


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
        sentence = f"has more than {len(columns)} cells; the first one too many is '{extra[0][:40]}'. "
        table.problems.append((place, "", f"{sentence}Quote cells that hold separators."))
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
