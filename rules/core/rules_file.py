"""A file of rules as bytes in, JSON or CSV; checked entries and located problems out.

A file nobody can read whole (cut, wrong encoding, nested too deep) is refused with a TraceError naming line and column;
what is wrong in one rule is a problem of that rule.
"""

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from catalog.core.tokens import split_name
from catalog.core.words import name_words
from rules.core.rule import (
    RuleContent,
    keep_repeated,
    make_content,
    pointed_row,
    schema_problems,
    unknown_fields,
)
from rules.core.tables import read_table
from trace_site.lib.errors import TraceError
from trace_site.lib.files import deeper_than

DEEPEST = 40
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
WORKBOOK = b"PK\x03\x04"
LONGEST_MADE_CODE = 75


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """One rule of a file. `pointer` is its place; an empty code or domain was not given."""

    content: RuleContent
    code: str
    domain: str
    pointer: str


@dataclass(slots=True)
class EntryProblems:
    """What is wrong in a file: (JSON pointer, sentence). `ignored` counts the rules that hold an unknown field."""

    items: list[tuple[str, str]] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)

    def add(self, pointer: str, sentence: str) -> None:
        self.items.append((pointer, sentence))


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
    if text.lstrip()[0] not in "[{":
        return _read_csv(text, shown, most)
    document = _parsed(text, shown)
    items = document.get("rules") if isinstance(document, dict) else document
    if isinstance(items, list) and len(items) > most:
        raise TraceError(f"{len(items):,} rules; the limit is {most:,}.", code="too_large", where=shown)
    entries, problems = parse_document(document)
    return RulesFile("json", entries, problems, lambda pointer: f"{shown}#{pointer}")


def parse_document(document: Any) -> tuple[list[RuleEntry], EntryProblems]:
    """Read a list of rules, or an object whose `rules` is that list, or one rule."""
    problems, prefix = EntryProblems(), ""
    if isinstance(document, dict) and isinstance(document.get("rules"), list):
        document, prefix = document["rules"], "/rules"
    elif isinstance(document, dict) and "tool_name" in document:
        document = [document]
    if not isinstance(document, list):
        problems.add("", 'must be a list of rules, or an object {"rules": [...]}.')
        return [], problems
    if not document:
        problems.add("", "holds no rules.")
    found = (parse_entry(item, f"{prefix}/{number}", problems) for number, item in enumerate(document))
    return [entry for entry in found if entry], problems


def parse_entry(item: Any, pointer: str, problems: EntryProblems) -> RuleEntry | None:
    if found := list(schema_problems(item)):
        problems.items += [(pointer + inner, sentence) for inner, sentence in found]
        return None
    problems.ignored.update(unknown_fields(item))
    content = make_content(
        target=item["tool_name"],
        confusables=item["confusables"],
        text=item["rule_text"],
        clauses=item.get("clauses", []),
        tests=item.get("tests", []),
    )
    if content.target in content.confusables:
        place = content.confusables.index(content.target)
        problems.add(f"{pointer}/confusables/{place}", "the target is listed among its own confusables.")
        return None
    return RuleEntry(content, item.get("code", "").strip(), item.get("domain", "").strip(), pointer)


def _read_csv(text: str, shown: str, most: int) -> RulesFile:
    table, problems = read_table(text, shown, most), EntryProblems()
    if not table.items:
        problems.add("", "holds no rules.")
    problems.ignored.update(dict.fromkeys(table.ignored, len(table.items)))
    problems.items += [
        (f"/{number}/{column}" if column else f"/{number}", sentence)
        for number, column, sentence in table.problems
    ]
    broken = {number for number, _, _ in table.problems}
    whole = ((number, item) for number, item in enumerate(table.items) if number not in broken)
    entries = [parse_entry(item, f"/{number}", problems) for number, item in whole]

    def place(pointer: str) -> str:
        number, _, inside = pointer.removeprefix("/").partition("/")
        column, entry = pointed_row(inside)
        line = f":{table.lines[int(number)]}" if number else ""
        return (
            f"{shown}{line}{f', column {column}' if column else ''}"
            f"{f', entry {entry + 1}' if entry is not None else ''}"
        )

    return RulesFile("csv", [entry for entry in entries if entry], problems, place)


def _decoded(data: bytes, shown: str) -> str:
    """The text of a file in UTF-8 or UTF-16; Excel's `Unicode Text` is the latter."""
    if data.startswith(WORKBOOK):
        hint = "Save the sheet as 'CSV UTF-8' and choose that file."
        raise TraceError("this is a workbook, not a CSV file.", code="bad_encoding", where=shown, hint=hint)
    head = data[:100]
    encoding = next((name for mark, name in MARKS if data.startswith(mark)), "utf-8")
    if (
        encoding == "utf-8" and len(head) > 3
    ):  # UTF-16 without its mark shows in the NULs of its first letters
        if not any(head[1::2]):
            encoding = "utf-16-le"
        elif not any(head[::2]):
            encoding = "utf-16-be"
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


def _position(before: str) -> str:
    """line:column of what follows the text."""
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def _parsed(text: str, shown: str) -> Any:
    too_deep = TraceError(
        f"nested deeper than {DEEPEST} levels.",
        code="bad_json",
        where=shown,
        hint="A file of rules is one list of rules.",
    )
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
    except RecursionError as error:
        raise too_deep from error
    except ValueError as error:
        raise TraceError(f"not valid JSON ({error}).", code="bad_json", where=shown) from error
    if deeper_than(DEEPEST, value):
        raise too_deep
    return value


# How rules without a code get one.


@dataclass(frozen=True, slots=True)
class KnownRule:
    """A rule already there, as far as finding it again needs."""

    code: str
    target: str
    confusables: frozenset[str]


def base_code(target: str) -> str:
    """The code a rule gets from its target's endpoint: `Payroll/get-payslip.v2` -> GET_PAYSLIP_V2."""
    try:
        endpoint = split_name(target)[1]
    except TraceError:
        endpoint = target
    words = [word for word in name_words(endpoint) if word.isascii()]
    code = "_".join(words).upper()[:LONGEST_MADE_CODE].strip("_") or "RULE"
    return code if code[0].isalpha() else f"RULE_{code}"


def new_code(target: str, used: set[str]) -> str:
    """The first of BASE, BASE_2, BASE_3, ... that is not used."""
    base = code = base_code(target)
    number = 2
    while code in used:
        code, number = f"{base}_{number}", number + 1
    return code


def find_codes(entries: Sequence[RuleEntry], known: Sequence[KnownRule]) -> list[str]:
    """One code per entry of one domain: its own, that of the rule it repeats, or a new one.

    An entry without a code repeats the known rule with a generated code and the same target and confusables,
    else the first one left with the same target. New codes are numbered in file order.
    """
    codes = [entry.code for entry in entries]
    used = set(filter(None, codes))
    for exact in (True, False):
        for place, entry in enumerate(entries):
            if not codes[place]:
                codes[place] = _repeated(entry.content, known, used, exact)
                used.add(codes[place])
    used.update(rule.code for rule in known)
    for place, entry in enumerate(entries):
        if not codes[place]:
            codes[place] = new_code(entry.content.target, used)
            used.add(codes[place])
    return codes


def _repeated(content: RuleContent, known: Sequence[KnownRule], used: set[str], exact: bool) -> str:
    pattern = re.compile(rf"{re.escape(base_code(content.target))}(_\d+)?")
    for rule in known:
        same = not exact or rule.confusables == frozenset(content.confusables)
        if rule.target == content.target and same and rule.code not in used and pattern.fullmatch(rule.code):
            return rule.code
    return ""
