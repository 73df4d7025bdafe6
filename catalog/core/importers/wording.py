"""Words of a vendor's file as the catalog keeps them: plain descriptions, API names from file names."""

import html
import re
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from catalog.core.tool import MAX_DESCRIPTION
from catalog.core.words import camel_case, name_words

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
    return " ".join(name_words(name)).capitalize()


def file_api_name(shown: str) -> str:
    """The API that a file is named after: `stripe-remote.docker-mcp-tools.json` -> `StripeRemote`.

    A file whose name says only its kind (`tools.json`) takes the name of its folder; without one it is empty.
    """
    path = PurePath(shown.replace("\\", "/"))
    parts = path.name.split(".")
    parts = parts[:-1] if len(parts) > 1 else parts
    named = [part for part in parts if not KIND.fullmatch(part)]
    if not named:
        named = [path.parent.name] if not KIND.fullmatch(path.parent.name or "-") else []
    return camel_case(" ".join(named))


def pointer_part(part: Any) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return str(part).replace("~", "~0").replace("/", "~1")
