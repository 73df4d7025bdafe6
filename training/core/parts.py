"""What a training record is made of.

A `Record` is a prompt, an optional thinking part and an answer, each a tuple of parts. A `str` part is plain text that
must never turn into tool or control tokens; a `Units` part is real tool tokens.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass

from catalog.core.tokens import NameIndex


@dataclass(frozen=True, slots=True)
class Units:
    """Real tool tokens, in order."""

    strings: tuple[str, ...]


Part = str | Units
Parts = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One supervised exchange. `kind` names the instruction; without thinking the thinking part is empty."""

    kind: str
    prompt: Parts
    answer: Parts
    thinking: Parts = ()
    id: str = ""


def query_parts(query: str, permissions: Sequence[str] = ()) -> Parts:
    """What a retrieval prompt says: the request, and the permission targets if it carries any."""
    return (query, f"\nPermissions: {', '.join(permissions)}") if permissions else (query,)


def choice_parts(question: str, choices: Sequence[str], units: Sequence[str] = ()) -> Parts:
    """What a multiple-choice prompt says. `units` are the token of the tool it is about."""
    about: Parts = ("Tool: ", Units(tuple(units)), "\n") if units else ()
    lettered = zip(string.ascii_uppercase, choices, strict=False)
    return (*about, f"{question}\n", "".join(f"{letter}: {choice}\n" for letter, choice in lettered))


def list_parts(names: Sequence[str], index: NameIndex) -> Parts:
    """The JSON list of tool tokens that ends every retrieval answer."""
    parts: list[Part] = []
    for number, name in enumerate(names):
        parts += ['", "' if number else '["', Units(tuple(index.units[name]))]
    return (*parts, '"]')


def text_parts(text: str, index: NameIndex) -> Parts:
    """Prose over tool names, with every name turned into its tokens."""
    pieces = index.split(text)
    return tuple(Units(tuple(index.units[name])) if name else piece for piece, name in pieces)
