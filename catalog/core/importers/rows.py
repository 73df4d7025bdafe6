"""What the readers yield and what becomes of it: every row of a file ends as a tool, an error or a note.

Words of a vendor's file as the catalog keeps them: plain descriptions, API names from file names.
"""

import html.entities
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from catalog.core.tool import MAX_DESCRIPTION, RowError, ToolRecord, parse_tool
from catalog.core.words import camel_case, join_words, name_words
from trace_site.lib.errors import TraceError, printable
from trace_site.lib.letters import STOPS, entered, invisible

MAX_TOOLS = 200_000
MAX_ERRORS = 20_000
MAX_UNREAD = 20
FIELDS = {"name", "description", "permissions", "deprecated", "version", "source", "domain"}
MADE = "no description in the file; made from the name"  # the source of such a tool
# every repetition is bounded, so that no text takes more than linear time
SCRIPT = re.compile(
    r"<(script|style)\b[^<]{0,2000}(?:<(?!/\1)[^<]{0,2000}){0,20}</\1\s*>|<!--.{0,500}?-->",
    re.IGNORECASE | re.DOTALL,
)
# only elements of HTML are markup: `<employee_id>`, `List<Payslip>` and `grade<B2 and tenure>5` are words of the text
FLAGS = "async|checked|controls|defer|disabled|hidden|multiple|nowrap|open|readonly|required|selected"
ATTRIBUTE = rf"\s+(?:[\w:.-]+\s{{0,9}}=\s{{0,9}}(?:\"[^\"<]*\"|'[^'<]*'|[^\s\"'<>]+)|(?:{FLAGS})(?=[\s/>]))"
TAG = re.compile(rf"<(/?)([a-z][a-z0-9]{{0,9}})((?:{ATTRIBUTE}){{0,30}}\s*)(/?)>", re.IGNORECASE)
INLINE = re.compile("a|abbr|b|code|del|em|font|i|ins|kbd|mark|s|small|span|strong|sub|sup|tt|u|var")
# these may stand alone, and nobody names a placeholder so
UNCLOSED = re.compile("br|dd|dt|hr|img|li|p|td|th|tr|wbr")
EMPTY = re.compile("area|base|col|embed|input|link|meta|source|track")
ELEMENT = re.compile(
    f"{INLINE.pattern}|{UNCLOSED.pattern}|{EMPTY.pattern}|acronym|address|article|aside|audio|basefont|bdi|bdo|big|"
    "blockquote|body|button|canvas|caption|center|cite|colgroup|data|datalist|details|dfn|dialog|dir|div|dl|fieldset|"
    "figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hgroup|html|iframe|label|legend|main|map|menu|"
    "meter|nav|noscript|object|ol|optgroup|option|output|param|picture|pre|progress|q|rp|rt|ruby|samp|script|search|"
    "section|select|slot|strike|style|summary|svg|table|tbody|template|textarea|tfoot|thead|time|title|ul|video"
)
ENTITY = re.compile(r"&([a-z][a-z0-9]{1,31};)", re.IGNORECASE)
NUMBERED = re.compile(r"&#(?:[0-9]{1,7}|x[0-9a-f]{1,6});", re.IGNORECASE)
CODE = re.compile(
    r"^[ \t]*```[\w+-]*[ \t]*\n([^`]{1,20000})```|(`{1,3})(?!`)([^`]{1,2000})\2(?!`)", re.MULTILINE
)
HELD = "\ue000"  # stands for a piece of code while marks are taken off around it
LINE_MARKS = re.compile(
    r"^[ \t]*(?:>(?![ \t]*[\d=])[ \t]*)*(?:#{1,6}[ \t]+|[-*+][ \t]+|\d{1,2}\.[ \t]+|(?:[-*_][ \t]*){3,}$)?",
    re.MULTILINE,
)
# marks at the edges of words; inside `posted__gte`, `__init__` or `/files/**/x/**` they belong to the name
OPENING = r"(?=[^\s*_)\]}.,;:/|])"
INLINE_MARKS = (
    (re.compile(r"(?<!\w)!?\[([^\[\]]{0,200})\]\([^)\s\[]{0,500}(?:\s+\"[^\"]{0,200}\")?\)"), r"\1"),
    (re.compile(r"(?<![\w/*])\*\*(?=[^\s*)/])(.{1,150}?)(?<=[^\s*(\[/])\*\*"), r"\1"),
    (re.compile(rf"(?<![\w/])__(?![a-z0-9_]+__){OPENING}((?:(?!\s__).){{1,150}}?)(?<=\S)__(?!\w)"), r"\1"),
    (re.compile(rf"(?<![\w/*_])([*_]){OPENING}((?:(?!\1).){{1,150}}?)(?<=[^\s(\[/])\1(?!\w)"), r"\2"),
)
DEPRECATED = re.compile(
    r"\bthis (?:api )?(?:endpoint|operation|api|method|route|call|resource|function)"
    r" (?:is|has been) (?:now )?deprecated\b"
    r"|^\W*deprecated\b|^\W*deprecation notice\b|^[^.]{0,80}[(\[]deprecated[)\]]",
    re.IGNORECASE,
)
# parts of a file name that say what kind of file it is, not whose
KIND = re.compile(
    r"(?:docker|mcp|tools?|list|pages?|openapi|oas|swagger|odata|edmx?|csdl|metadata|spec|schema|public|api|json|ya?ml|xml"
    r"|copy|v(?=\d)|\d|[-_ $()])+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row or operation. `fields` make a tool; `problem` says why not; `note` tells what is no tool by design.

    `name` is the tool that a row with a problem stands for, as far as it is known. `endpoints` are what a tool may be
    called, best first: `named` chooses, and only then are its texts written out by `tell`. `left` counts the texts of
    its parameters, which a tool does not hold.
    """

    where: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    name: str = ""
    note: str = ""
    endpoints: Sequence[str] = ()
    tell: Callable[[], Mapping[str, Any]] = dict
    left: int = 0


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
    made: list[ToolRecord] = []
    left: list[FileRow] = []
    unread: dict[str, str] = {}  # a field that no tool has, and where it was met first
    for row in rows:
        where = printable(row.where)
        if row.note:
            file.notes.append(RowError(where, printable(row.note)))
            continue
        try:
            if row.problem:
                raise TraceError(row.problem, code="bad_tool")
            file.records.append(parse_tool(row.fields, where))
            left += [row] if row.left else []
            unread = {**dict.fromkeys(row.fields.keys() - FIELDS, where), **unread}
            if hidden := invisible({key: row.fields.get(key) for key in FIELDS}):
                what = f"{hidden} character{'s' * (hidden != 1)} that nobody sees"
                file.notes.append(RowError(where, f"{what}, in '{file.records[-1].name}'."))
            text += len(file.records[-1].description)
            made += file.records[-1:] if file.records[-1].source == MADE else []
        except TraceError as error:
            name = row.name or row.fields.get("name")
            name = entered(name).strip() if isinstance(name, str) else ""
            file.errors.append(RowError(where, error.message, printable(name)))
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
    if made:
        many = f"{len(made)} tools such as {made[0].name}" if len(made) > 1 else made[0].name
        note = f"{many}: no description in the file; one was made from the name. Write a better one there."
        file.notes.append(RowError(made[0].where, note))
    if left:
        total, name = sum(row.left for row in left), left[0].fields["name"]
        note = f"left out: {total:,} text{'s' * (total != 1)} of parameters, from {name} on. A tool holds its own"
        note += " description only; say there what tells it from its look-alikes."
        file.notes.append(RowError(printable(left[0].where), printable(note)))
    for key, where in sorted(unread.items())[:MAX_UNREAD]:
        file.notes.append(RowError(where, printable(f"left out: '{key[:60]}' is no field of a tool.")))
    return file


def named(api: str, rows: Iterable[FileRow]) -> Iterator[FileRow]:
    """The rows that make no tool, then the tools, each under its best endpoint that is free."""
    tools: list[FileRow] = []
    for row in rows:
        if row.endpoints:
            tools.append(row)
        else:
            yield row
    for row, endpoint in zip(tools, unique_names([row.endpoints for row in tools]), strict=True):
        yield FileRow(row.where, {"name": f"{api}/{endpoint}", **row.tell()}, left=row.left)


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
    """Text without HTML tags and markdown marks, on one line. Code between backticks stays as it is."""
    pieces: list[str] = []

    def hold(match: re.Match[str]) -> str:
        pieces.append(match[1] or match[3])
        return HELD

    text = CODE.sub(hold, text[: 2 * MAX_DESCRIPTION].replace(HELD, " "))
    text = SCRIPT.sub(" ", text)
    closed = {match[2].lower() for match in TAG.finditer(text) if match[1]}

    def untag(match: re.Match[str]) -> str:
        name = match[2].lower()
        stands = UNCLOSED.fullmatch(name) or (EMPTY.fullmatch(name) and (match[3].strip() or match[4]))
        if not ELEMENT.fullmatch(name) or not (stands or name in closed):
            return match[0]
        return "" if INLINE.fullmatch(name) else " "

    # `&region_id;` is no entity, though `&reg` is one
    text = ENTITY.sub(lambda found: html.entities.html5.get(found[1], found[0]), TAG.sub(untag, text))
    text = LINE_MARKS.sub("", NUMBERED.sub(lambda found: html.unescape(found[0]), text))
    for pattern, replacement in INLINE_MARKS:
        text = pattern.sub(replacement, text)
    held = iter(pieces)
    return " ".join(re.sub(HELD, lambda _: next(held, ""), text.replace("`", "")).split())


def describe(summary: Any, description: Any) -> str:
    """Summary and description as one plain text; a summary that the description repeats is left out."""
    first, second = (plain_text(value) if isinstance(value, str) else "" for value in (summary, description))
    if second.casefold().startswith(first.casefold().rstrip(".")):
        first = ""
    if first and second and first[-1] not in f".!?:{STOPS}":
        first += "."
    return f"{first} {second}".strip()[:MAX_DESCRIPTION]


def says_deprecated(*texts: Any) -> bool:
    """Whether a vendor who sets no flag says it in words: "This endpoint is deprecated"."""
    return any(isinstance(text, str) and DEPRECATED.search(plain_text(text[:2000])) for text in texts)


def sentence(name: str) -> str:
    """`createInvoice_v2` -> `Create invoice v2`."""
    return join_words(name_words(name)).capitalize()


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
