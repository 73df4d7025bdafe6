"""What the readers yield and what becomes of it: every row of a file ends as a tool, an error or a note.

Words of a vendor's file as the catalog keeps them: plain descriptions, API names from file names.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from catalog.core.tool import MAX_DESCRIPTION, RowError, ToolRecord, parse_tool
from catalog.core.words import camel_case, name_words, told
from trace_site.lib.errors import TraceError
from trace_site.lib.letters import invisible

MAX_TOOLS = 200_000
MAX_ERRORS = 20_000
# every repetition is bounded, so that no text takes more than linear time
INLINE_TAG = (
    r"</?(?:a|abbr|b|code|del|em|font|i|ins|kbd|mark|s|small|span|strong|sub|sup|tt|u|var)(?:\s[^<>]*)?/?>"
)
SCRIPT = r"<(script|style)\b[^<]{0,2000}(?:<(?!/\1)[^<]{0,2000}){0,20}</\1\s*>"
TAGS = (
    (re.compile(SCRIPT, re.IGNORECASE), " "),
    (re.compile(INLINE_TAG, re.IGNORECASE), ""),
    (re.compile(r"</?[A-Za-z][^<>]*>|<!--.{0,500}?-->", re.DOTALL), " "),
)
LINE_MARKS = re.compile(
    r"^[ \t]*(?:>[ \t]*)*(?:#{1,6}[ \t]+|[-*+][ \t]+|\d{1,4}\.[ \t]+|(?:[-*_][ \t]*){3,}$)?", re.MULTILINE
)
INLINE_MARKS = (
    (re.compile(r"```[^\n]*\n?|`+"), ""),
    (re.compile(r"!?\[([^\[\]]{0,200})\]\([^)\s\[]{0,500}(?:\s+\"[^\"]{0,200}\")?\)"), r"\1"),
    (re.compile(r"(\*\*|__)(?=\S)(.{1,150}?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<!\w)([*_])(?=\S)(.{1,150}?)(?<=\S)\1(?!\w)"), r"\2"),
)
DEPRECATED = re.compile(
    r"\bthis (?:api )?(?:endpoint|operation|api|method|route|call|resource|function)"
    r" (?:is|has been) (?:now )?deprecated\b"
    r"|^\W*deprecated\b|^\W*deprecation notice\b|^[^.]{0,80}[(\[]deprecated[)\]]",
    re.IGNORECASE,
)
# parts of a file name that say what kind of file it is, not whose
KIND = re.compile(
    r"(?:docker|mcp|tools?|list|openapi|oas|swagger|odata|edmx?|csdl|metadata|spec|schema|public|api|json|ya?ml|xml"
    r"|copy|v(?=\d)|\d|[-_ $()])+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row or operation. `fields` make a tool; `problem` says why not; `note` tells what is no tool by design.

    `name` is the tool that a row with a problem stands for, as far as it is known. `endpoints` are what a tool may be
    called, best first: `named` chooses, and only then are its texts written out by `tell`.
    """

    where: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    name: str = ""
    note: str = ""
    endpoints: Sequence[str] = ()
    tell: Callable[[], Mapping[str, Any]] = dict


@dataclass(slots=True)
class CatalogFile:
    """A file as read: its format, checked tools, rows that made none, and what was left out on purpose."""

    format: str
    records: list[ToolRecord] = field(default_factory=list)
    errors: list[RowError] = field(default_factory=list)
    notes: list[RowError] = field(default_factory=list)


def collect(
    fmt: str, rows: Iterable[FileRow], max_errors: int | None, max_text: int | None = None
) -> CatalogFile:
    """Check every row; stops at `max_errors` bad ones. `max_text` (characters) stops a file that repeats itself."""
    file = CatalogFile(fmt)
    text = 0
    for row in rows:
        where = printable(row.where)
        if row.note:
            file.notes.append(RowError(where, printable(row.note)))
            continue
        try:
            if row.problem:
                raise TraceError(row.problem, code="bad_tool")
            file.records.append(parse_tool(row.fields, where))
            if hidden := invisible(dict(row.fields)):
                what = f"{hidden} character{'s' * (hidden != 1)} that nobody sees"
                file.notes.append(RowError(where, f"{what}, in '{file.records[-1].name}'."))
            text += len(file.records[-1].description)
        except TraceError as error:
            name = row.name or row.fields.get("name")
            name = name.strip() if isinstance(name, str) else ""
            file.errors.append(RowError(where, printable(error.message), name))
        if max_errors is not None and len(file.errors) >= max_errors:
            break
        if len(file.records) > MAX_TOOLS:
            message, hint = f"more than {MAX_TOOLS:,} tools.", "Split the catalog by API."
        elif len(file.errors) > MAX_ERRORS:
            message = f"more than {MAX_ERRORS:,} bad rows."
            hint = "Is this a catalog? Choose its format by hand."
        elif max_text is not None and text > max_text:
            message = f"the tools repeat their texts beyond {max_text:,} characters."
            hint = "Write each path out, without aliases or references to one shared path."
        else:
            continue
        raise TraceError(message, code="too_large", where=where, hint=hint)
    return file


def printable(text: str) -> str:
    """A place or message that can be stored: NUL and halves of surrogate pairs are written as escapes."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def named(api: str, rows: Iterable[FileRow]) -> Iterator[FileRow]:
    """The rows that make no tool, then the tools, each under its best endpoint that is free."""
    tools: list[FileRow] = []
    for row in rows:
        if row.endpoints:
            tools.append(row)
        else:
            yield row
    for row, endpoint in zip(tools, unique_names([row.endpoints for row in tools]), strict=True):
        yield FileRow(row.where, {"name": f"{api}/{endpoint}", **row.tell()})


def unique_names(candidates: Sequence[Sequence[str]]) -> list[str]:
    """One name for each row out of its candidates, best first: who comes first keeps the name. A row all of whose
    candidates are taken gets its last one, and is then refused as a double.
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


@lru_cache(maxsize=512)
def plain_text(text: str) -> str:
    """Text without HTML tags and markdown marks, on one line."""
    text = text[: 2 * MAX_DESCRIPTION]
    for pattern, replacement in TAGS:
        text = pattern.sub(replacement, text)
    text = LINE_MARKS.sub("", html.unescape(text))
    for pattern, replacement in INLINE_MARKS:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def describe(summary: Any, description: Any) -> str:
    """Summary and description as one plain text; a summary that the description repeats is left out."""
    first, second = (plain_text(value) if isinstance(value, str) else "" for value in (summary, description))
    if second.casefold().startswith(first.casefold().rstrip(".")):
        first = ""
    if first and second and first[-1] not in ".!?:":
        first += "."
    return f"{first} {second}".strip()[:MAX_DESCRIPTION]


def says_deprecated(*texts: Any) -> bool:
    """Whether a vendor who sets no flag says it in words: "This endpoint is deprecated"."""
    return any(isinstance(text, str) and DEPRECATED.search(plain_text(text[:2000])) for text in texts)


def sentence(name: str) -> str:
    """`createInvoice_v2` -> `Create invoice v2`."""
    return told(name_words(name)).capitalize()


def file_api_name(shown: str) -> str:
    """The API that a file is named after: `stripe-remote.docker-mcp-tools.json` -> `StripeRemote`. A file whose name
    says only its kind (`tools.json`) takes the name of its folder; without one it is empty.
    """
    path = PurePath(shown.replace("\\", "/"))
    parts = path.name.split(".")
    parts = parts[:-1] if len(parts) > 1 else parts
    telling = [part for part in parts if not KIND.fullmatch(part)]
    if not telling:
        telling = [path.parent.name] if not KIND.fullmatch(path.parent.name or "-") else []
    return camel_case(" ".join(telling))
