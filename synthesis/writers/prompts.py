"""The prompts as files: rendered in Jinja2's immutable sandbox, strict about missing fields, versioned by hash.

Rule and tool texts are data: delimited in the prompts, never executed, with the delimiters taken out of them.
"""

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from trace_site.lib.errors import TraceError

FOLDER = Path(__file__).resolve().parent.parent / "prompts"
MARKER = re.compile(r"\b(BEGIN|END)(?=\s+[A-Z]{2,})")
_environment = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=False
)


@cache
def source(name: str) -> str:
    return (FOLDER / f"{name}.jinja").read_text("utf-8")


def prompt_hash(name: str) -> str:
    """The version of a prompt: the hash of its file."""
    return hashlib.sha256(source(name).encode()).hexdigest()[:16]


def render(name: str, **fields: Any) -> str:
    """The prompt with its fields filled in; a missing field is an error, not an empty place."""
    try:
        return _environment.from_string(source(name)).render(
            **{key: _data(value) for key, value in fields.items()}
        )
    except TemplateError as error:
        raise TraceError(
            f"the prompt cannot be filled in ({error}).",
            code="bad_prompt",
            where=f"{name}.jinja",
            permanent=True,
        ) from error


def _data(value: Any) -> Any:
    """Texts from outside cannot close their own delimiters."""
    if isinstance(value, str):
        return MARKER.sub(lambda match: match.group().lower(), value)
    if isinstance(value, dict):
        return {key: _data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_data(item) for item in value]
    return value
