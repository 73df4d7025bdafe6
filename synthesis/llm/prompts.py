"""The prompts as files: rendered in Jinja2's immutable sandbox, strict about fields, versioned by hash.

Everything filled in is data. It stands between marker lines that carry a code of their own prompt, made from the
prompt's content, so that no text can close the block it stands in; it is never read as a template.
"""

import hashlib
import re
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from synthesis.core.queries import ToolText
from trace_site.lib.errors import TraceError

FOLDER = Path(__file__).resolve().parent.parent / "prompts"
MAX_PROMPT = 200_000  # characters
PLACE = "\0code\0"  # where the code goes; no text of the data holds a NUL
# markers of prompts, ours and others', and the control tokens of chat models: a server may read them in plain text
MARKER = re.compile(r"\b(BEGIN|END|START)(?=[\s_:-]+[A-Z]{2,})")
CONTROL = re.compile(
    r"<(?=[|｜])|[|｜](?=>)|<(?=/?(?:s|bos|eos|pad|unk|mask|(?:start|end)_of_\w+)>)|\[(?=/?INST\])|<(?=</?SYS>>)"
)
BREAK = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
# control, format, surrogate and private characters: they hide text from the people who read the same rule. Tab, newline
# and the two joiners that some scripts are written with stay.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\ud800-\uf8ff\ufeff\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)


def one_line(text: object) -> str:
    return " ".join(str(text).split())


_environment = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=False
)


_environment.filters["line"] = one_line


@cache
def source(name: str) -> str:
    return (FOLDER / f"{name}.jinja").read_text("utf-8")


def prompt_hash(name: str) -> str:
    """The version of a prompt: the hash of its file."""
    return hashlib.sha256(source(name).encode()).hexdigest()[:16]


def render(name: str, **fields: Any) -> str:
    """The prompt with its fields filled in. Raises TraceError `bad_prompt` naming file and line, or
    `prompt_too_large`.
    """
    data = {key: _data(value) for key, value in fields.items()}
    try:
        text = _marked(_template(name, source(name), frozenset(fields)).render(mark=PLACE, **data))
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise _broken(name, f"cannot be filled in ({error})", _line_of(error, name)) from error
    if len(text) > MAX_PROMPT:
        raise TraceError(
            f"the prompt has {len(text):,} characters; the limit is {MAX_PROMPT:,}.",
            code="prompt_too_large",
            where=f"{name}.jinja",
            hint="Shorten the longest tool descriptions of this pool, or the rule.",
        )
    return text


@cache
def _template(name: str, text: str, fields: frozenset[str]) -> Template:
    """Compiled under its own file name, which errors tell. It may name nothing but its fields."""
    try:
        unknown = meta.find_undeclared_variables(_environment.parse(text)) - fields - {"mark"}
        if unknown:
            raise _broken(name, f"names what it is not given ({', '.join(sorted(unknown))})")
        code = _environment.compile(text, name, f"{name}.jinja")
    except TemplateSyntaxError as error:
        raise _broken(name, f"is not a template ({error.message})", error.lineno) from error
    return Template.from_code(_environment, code, _environment.make_globals(None))


def _marked(text: str) -> str:
    """With a code in the marker lines that the text does not hold; the same text gives the same code."""
    codes = (_code(text, number) for number in count())
    return text.replace(PLACE, next(code for code in codes if code not in text))


def _code(text: str, number: int) -> str:
    return hashlib.sha256(f"{number}|{text}".encode()).hexdigest()[:16]


@lru_cache(maxsize=50_000)  # the same tools stand in many prompts
def _tool(tool: ToolText) -> ToolText:
    """One line for each of its texts."""
    name, description, *permissions = (
        one_line(_harmless(text)) for text in (tool.name, tool.description, *tool.permissions)
    )
    return ToolText(name, description, tuple(permissions), tool.deprecated)


def _data(value: Any) -> Any:
    """Texts without what could be taken for a marker, a model's control token, or what nobody sees."""
    if isinstance(value, str):
        return _harmless(value)
    if isinstance(value, ToolText):
        return _tool(value)
    if isinstance(value, dict):
        return {key: _data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_data(item) for item in value]
    return value


def _harmless(text: str) -> str:
    visible = HIDDEN.sub("", BREAK.sub("\n", text))
    lowered = MARKER.sub(lambda match: match.group().lower(), visible)
    return CONTROL.sub(lambda match: f"{match.group()} ", lowered)


def _broken(name: str, problem: str, line: int | None = None) -> TraceError:
    where = f"synthesis/prompts/{name}.jinja" + (f":{line}" if line else "")
    return TraceError(f"the prompt {problem}.", code="bad_prompt", where=where, permanent=True)


def _line_of(error: BaseException, name: str) -> int | None:
    """The line of the template that was being rendered; Jinja puts it into the traceback."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == f"{name}.jinja":
            found = trace.tb_lineno
        trace = trace.tb_next
    return found
