"""A file of rules as bytes in, JSON or CSV; checked entries and located problems out.

A file nobody can read whole (cut, wrong encoding, nested too deep) is refused with a TraceError naming line and column;
what is wrong in one rule is a problem of that rule.
"""

import codecs
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rules.core.exchange.entries import EntryProblems, RuleEntry, document_items, parse_entry
from rules.core.exchange.schema import keep_repeated
from rules.core.exchange.tables import Table, read_table
from trace_site.lib.errors import TraceError
from trace_site.lib.files import deeper_than

DEEPEST = 40
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
WORKBOOK = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class RulesFile:
    """`place` turns a problem's JSON pointer into what people look up: file#/0/code, or file:5, column code."""

    format: Literal["json", "csv"]
    entries: list[RuleEntry]
    problems: EntryProblems
    place: Callable[[str], str]


def read_rules(data: bytes, shown: str, most: int) -> RulesFile:
    """Read a file of at most `most` rules; `shown` is its name in messages. Raises TraceError."""
    text = _decoded(data, shown)
    if not text.strip():
        raise TraceError("the file is empty.", code="bad_rules", where=shown, hint="Choose a file of rules.")
    if text.lstrip()[0] in "[{":
        return _read_json(text, shown, most)
    return _read_csv(text, shown, most)


def _read_json(text: str, shown: str, most: int) -> RulesFile:
    document, problems = _parsed(text, shown), EntryProblems()
    items, prefix = document_items(document, problems)
    if len(items) > most:
        raise TraceError(f"{len(items):,} rules; the limit is {most:,}.", code="too_large", where=shown)
    entries = [parse_entry(item, f"{prefix}/{number}", problems) for number, item in enumerate(items)]
    kept = [entry for entry in entries if entry]
    return RulesFile("json", kept, problems, lambda pointer: f"{shown}#{pointer}")


def _read_csv(text: str, shown: str, most: int) -> RulesFile:
    table, problems = read_table(text, shown, most), EntryProblems()
    if not table.items:
        problems.add("", "holds no rules.")
    problems.ignored.update(dict.fromkeys(table.ignored, len(table.items)))
    for number, column, sentence in table.problems:
        problems.add(f"/{number}/{column}" if column else f"/{number}", sentence)
    broken = {number for number, _, _ in table.problems}
    entries = [
        parse_entry(item, f"/{number}", problems)
        for number, item in enumerate(table.items)
        if number not in broken
    ]
    return RulesFile("csv", [entry for entry in entries if entry], problems, _csv_place(shown, table))


def _csv_place(shown: str, table: Table) -> Callable[[str], str]:
    def place(pointer: str) -> str:
        number, column, *inner = [*pointer.split("/")[1:], "", ""][:4]
        if not number:
            return shown
        words = f"{shown}:{table.lines[int(number)]}"
        words += f", column {column}" if column else ""
        return words + (f", entry {int(inner[0]) + 1}" if inner[0].isdecimal() else "")

    return place


def _decoded(data: bytes, shown: str) -> str:
    """The text of a file in UTF-8 or UTF-16; Excel's `Unicode Text` is the latter."""
    if data.startswith(WORKBOOK):
        raise TraceError(
            "this is a workbook, not a CSV file.",
            code="bad_encoding",
            where=shown,
            hint="Save the sheet as 'CSV UTF-8' and choose that file.",
        )
    encoding = next((name for mark, name in MARKS if data.startswith(mark)), "") or _guessed(data)
    try:
        text = data.decode(encoding).lstrip("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(encoding, "replace")
        raise TraceError(
            f"not {encoding.upper()} text: the byte 0x{data[error.start]:02X} fits no character.",
            code="bad_encoding",
            where=f"{shown}:{_position(before)}",
            hint="Save it as UTF-8 ('CSV UTF-8' in a spreadsheet).",
        ) from error
    if "\0" in text:
        raise TraceError(
            "a NUL character, which no text of a rule can hold.",
            code="bad_text",
            where=f"{shown}:{_position(text[: text.index(chr(0))])}",
            hint="Save the file again as UTF-8 text.",
        )
    return text


def _guessed(data: bytes) -> str:
    """UTF-16 without its mark shows in the NULs of its first letters."""
    head = data[:100]
    if len(head) > 3 and not any(head[1::2]):
        return "utf-16-le"
    return "utf-16-be" if len(head) > 3 and not any(head[::2]) else "utf-8"


def _position(before: str) -> str:
    """line:column of what follows the text."""
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def _parsed(text: str, shown: str) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=keep_repeated)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip())
        raise TraceError(
            f"not valid JSON ({'it ends in the middle' if cut else error.msg}).",
            code="bad_json",
            where=f"{shown}:{error.lineno}:{error.colno}",
            hint="The file was cut; get it whole." if cut else "A file of rules is one JSON list.",
        ) from error
    except (RecursionError, ValueError) as error:
        deep = isinstance(error, RecursionError)
        raise (
            _too_deep(shown)
            if deep
            else TraceError(f"not valid JSON ({error}).", code="bad_json", where=shown)
        ) from error
    if deeper_than(DEEPEST, value):
        raise _too_deep(shown)
    return value


def _too_deep(shown: str) -> TraceError:
    return TraceError(
        f"nested deeper than {DEEPEST} levels.",
        code="bad_json",
        where=shown,
        hint="A file of rules is one list of rules.",
    )
