"""Texts as people save them, read in one place each: encodings, lines, JSON, and sheets.

What a parser objects to becomes a TraceError with file:line, and the column where it is known.
"""

import codecs
import csv
import io
import json
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO

from trace_site.lib.errors import TraceError
from trace_site.lib.letters import folded

BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
WORKBOOK = b"PK\x03\x04"
LONGEST = 25_000_000  # characters of one line or row
MARKS = ",;\t|，；"
ONE_COLUMN = "\x1f"  # what separates the cells of a sheet that has one column
HEAD_LINES, TITLES = 50, 5  # lines of a header, and above it
LINE_END = re.compile(r"\r\n?|\n")
VALUE = re.compile(r"[\s,]*(?=[\[{\"])")  # what stands before a JSON value that follows another
SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # a note of spreadsheets to themselves


def encoding_of(data: bytes) -> str:
    """The encoding that the first bytes tell: by byte order mark, by the NUL beside ASCII, else UTF-8."""
    for mark, encoding in BOMS:
        if data.startswith(mark):
            return encoding
    odd, even = data[1:1000:2], data[0:1000:2]
    for high, low, encoding in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if high.count(0) > max(1, len(high) // 20, 2 * low.count(0)):
            return encoding
    return "utf-8"


def decode(data: bytes, shown: str) -> str:
    """Bytes as text; raises TraceError with line and column of the first byte that is none."""
    if data.startswith(WORKBOOK):
        hint = "Save the sheet as 'CSV UTF-8' and choose that file."
        raise TraceError("this is a workbook, not a text file.", code="bad_encoding", where=shown, hint=hint)
    encoding = encoding_of(data)
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode(encoding, "replace").removeprefix("\ufeff")
        message = (
            f"not {encoding.upper().removesuffix('-SIG')} text (byte 0x{error.object[error.start]:02X})."
        )
        hint = "Save the file as UTF-8."
        where = f"{shown}:{_position(before)}"
        raise TraceError(message, code="bad_encoding", where=where, hint=hint) from error
    if "\0" in text:
        where = f"{shown}:{_position(text[: text.index(chr(0))])}"
        hint = "Save it again as UTF-8 text."
        raise TraceError("a NUL character, which no text can hold.", code="bad_text", where=where, hint=hint)
    return text


def _position(before: str) -> str:
    """line:column of what follows the text."""
    lines = LINE_END.split(before)
    return f"{len(lines)}:{len(lines[-1]) + 1}"


def undecoded(text: str) -> bool:
    """Whether `Lines` kept a byte that fits no character of the encoding."""
    return not text.isascii() and any("\udc80" <= letter <= "\udcff" for letter in text)


class Lines:
    """Lines with their ends, however those are written. A row, which is whatever is read before `length` is set to 0
    again, holds at most `longest` characters. Bytes that are no text are kept for `undecoded`."""

    def __init__(
        self, text: str | BinaryIO, shown: str, longest: int = LONGEST, most: int | None = None
    ) -> None:
        if isinstance(text, str):
            self.text: io.TextIOBase = io.StringIO(text, newline="")
        else:
            encoding = encoding_of(text.read(1000))
            text.seek(0)
            self.text = io.TextIOWrapper(text, encoding, errors="surrogateescape", newline="")
        self.shown, self.longest, self.most = shown, longest, most
        self.number = self.length = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            line = self.text.readline(self.longest + 1)
        except UnicodeError as error:  # half a character of UTF-16
            where, hint = f"{self.shown}:{self.number + 1}", "Save the file as UTF-8."
            what = "not UTF-8 or UTF-16 text."
            raise TraceError(what, code="bad_encoding", where=where, hint=hint) from error
        self.number += bool(line)
        self.length += len(line)
        if self.length > self.longest or (self.most and self.number > self.most):
            message = "too many lines."
            if self.length > self.longest:
                message = f"more than {self.longest:,} characters in one line or row."
            where, hint = f"{self.shown}:{self.number}", "Is a quotation mark never closed?"
            raise TraceError(message, code="too_large", where=where, hint=hint)
        if not line:
            raise StopIteration
        return line


def text_lines(lines: Lines) -> Iterator[tuple[int, str]]:
    """(number, text) of every line that is not blank."""
    for line in lines:
        lines.length = 0
        if line.strip("\ufeff \t\r\n"):
            yield lines.number, line.removeprefix("\ufeff")


def parse_json(text: str, where: str, hint: str, *, lines: bool = True, **hooks: Any) -> Any:
    """What a JSON text holds; `hooks` are those of `json.loads`. lines: a mistake is told with line and column."""
    try:
        return json.loads(text, **hooks)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        if isinstance(error, json.JSONDecodeError):
            reason = "it ends in the middle" if error.pos >= len(text.rstrip()) else error.msg
            where = f"{where}:{error.lineno}:{error.colno}" if lines else where
        message = f"not valid JSON ({reason})."
        raise TraceError(message, code="bad_json", where=where, hint=hint) from error


class Twice(dict[str, Any]):
    """An object in which a key was written more than once: the last value counts, the earlier ones are here."""

    __slots__ = ("earlier",)

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.earlier: list[tuple[str, Any, int]] = []  # key, lost value, line of the later one (0 unknown)


def keep_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook`: JSON alone would drop the earlier values in silence."""
    values = dict(pairs)
    if len(values) == len(pairs):
        return values
    found = Twice(values)
    last = {key: number for number, (key, _) in enumerate(pairs)}
    found.earlier = [(key, value, 0) for number, (key, value) in enumerate(pairs) if last[key] != number]
    return found


def json_rows(text: str, where: str, hint: str) -> Iterator[tuple[int, Any]]:
    """(line or place, value): of JSON lines, or of one document that is a list, holds one, or is the only row."""
    try:
        document = parse_json(text, where, hint)
    except TraceError:
        if not (lines := json_lines(text)):
            raise
        for number, line in lines:
            yield number, parse_json(line, f"{where}:{number}", hint, lines=False)
        return
    if isinstance(document, dict) and len(document) == 1:
        (inner,) = document.values()
        document = inner if isinstance(inner, list) else document
    yield from enumerate(document if isinstance(document, list) else [document], start=1)


def json_lines(text: str) -> list[tuple[int, str]]:
    """(line, text) of each of several JSON values, on lines of their own or not; none where there is one. One that is
    cut or wrong is the last."""
    values: list[tuple[int, str]] = []
    line, done = 1, 0
    while done < len(text) and (begins := VALUE.match(text, done)):
        line += len(LINE_END.findall(text, done, begins.end()))
        try:
            _, done = json.JSONDecoder().raw_decode(text, begins.end())
        except (ValueError, RecursionError):
            done = len(text)
        values.append((line, text[begins.end() : done]))
        line += len(LINE_END.findall(values[-1][1]))
    return values if len(values) > 1 and not text[done:].strip(" ,\t\r\n") else []


def mapping(value: Any) -> dict[str, Any]:
    """A value that is an object; an empty one in the place of any other."""
    return value if isinstance(value, dict) else {}


def pointer_step(part: str) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return part.replace("~", "~0").replace("/", "~1")


def is_json(line: str) -> bool:
    """Whether a line is a JSON value that is not only a part of one, as brackets and commas are."""
    try:
        return bool(json.loads(line))
    except (ValueError, RecursionError):
        return False


def column_name(cell: str) -> str:
    """`Rule text ` -> `rule_text`."""
    return re.sub(r"[\s-]+", "_", folded(cell).strip())


def sheet_rows(lines: Lines, known: Collection[str]) -> Iterator[tuple[int, list[str]]]:
    """(line where it begins, cells) of every row that is not blank, the header first. The cells are separated by
    what `sep=` names, or by the mark that shows the most `known` columns in the header; titles above it are left out.
    """
    csv.field_size_limit(LONGEST)
    head, mark = _head(lines, known)
    rows = csv.reader(chain(head, lines), delimiter=mark, strict=True)
    begins = lines.number - len(head) + 1
    while True:
        lines.length = 0
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise _bad_sheet(str(error), f"{lines.shown}:{begins}") from error
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield begins, cells
        begins = lines.number + 1


def is_sheet(text: str, known: Collection[str], least: int = 1) -> bool:
    """Whether the first row names at least so many of the known columns, beside others or not."""
    try:
        _, cells = next(sheet_rows(Lines(text[:10_000], ""), known), (0, []))
    except TraceError:
        return False
    return len({column_name(cell) for cell in cells} & set(known)) >= least


def _head(lines: Lines, known: Collection[str]) -> tuple[list[str], str]:
    """The lines of the header, which are several where a quoted cell breaks, and what separates its cells."""
    noted, head = "", _next_line(lines)
    if head and (found := SEPARATOR.fullmatch(head[0])):
        noted, head = found[1], _next_line(lines)
    seen, count, mark = _mark(head, noted, known)
    while not count and len(head) < HEAD_LINES and (line := next(lines, "")):
        head.append(line)
        seen, count, mark = _mark(head, noted, known)
    for line in islice(lines, TITLES if not seen else 0):
        head.append(line)
        below, cells, other = _mark([line], noted, known)
        if below and cells > 1:
            return [line], other
    return head, mark if count > 1 or noted else ONE_COLUMN


def _mark(head: list[str], noted: str, known: Collection[str]) -> tuple[int, int, str]:
    """What separates the cells of a header, how many known columns it shows so, and how many cells; those are 0 where
    none is known and a cell may go on in the next line."""
    rows = {mark: _cells(head, mark) for mark in noted + MARKS}
    seen = {mark: len(set(map(column_name, cells or ())) & set(known)) for mark, cells in rows.items()}
    usual = {mark: len(rows[mark] or ()) * (seen[mark] > 0 or mark in f"{noted},;\t") for mark in rows}
    best = max(rows, key=lambda mark: (seen[mark], usual[mark]))
    return seen[best], usual[best] * (seen[best] > 0 or None not in rows.values()), best


def _next_line(lines: Lines) -> list[str]:
    """The next line that is not blank, if there is one."""
    return [line for _, line in islice(text_lines(lines), 1)]


def _cells(head: list[str], mark: str) -> list[str] | None:
    """The first row of a sheet; None where it goes on in the next line."""
    try:
        return next(csv.reader(head, delimiter=mark, strict=True), [])
    except csv.Error as error:
        return None if "unexpected end" in str(error) else []


def header(cells: Sequence[str], where: str, known: Collection[str], required: Collection[str]) -> list[str]:
    """The names of the columns; raises TraceError where one is missing or stands there twice."""
    columns = [column_name(cell) for cell in cells]
    hint = f"The first row names the columns: {', '.join(known)}."
    if missing := [f"'{name}'" for name in required if name not in columns]:
        found = ", ".join(name[:40] for name in columns[:12] if name) or "nothing"
        message = f"the header has no column {' and no '.join(missing)} (found: {found})."
        raise TraceError(message, code="bad_csv", where=where, hint=hint)
    if twice := next((name for name in known if columns.count(name) > 1), ""):
        message = f"the header has the column '{twice}' twice."
        raise TraceError(message, code="bad_csv", where=where, hint="Leave one of them.")
    return columns


def _bad_sheet(reason: str, where: str) -> TraceError:
    message = f"not valid CSV ({reason})."
    hint = "Quote cells that hold separators, double quotation marks inside them, or save the sheet again as CSV."
    if "unexpected end" in reason:
        message = "not valid CSV: a quotation mark is opened here and never closed."
        hint = "The file was cut, or a quotation mark inside a cell is not doubled."
    return TraceError(message, code="bad_csv", where=where, hint=hint)
