"""Tool names and the virtual tokens that stand for them.

In: names `API/ENDPOINT` and a format a|b|c. Out: token strings, permanent token slots (the ledger), and
texts with every name replaced by its token units, or the other way round.
"""

import json
from collections.abc import Iterable
from functools import cached_property

from ahocorasick_rs import MATCHKIND_LEFTMOST_LONGEST, AhoCorasick

from catalog.core.mentions import Mention, NameFinder
from trace_site.lib.errors import TraceError

FORMATS = ("a", "b", "c")
WRAP_OPEN, WRAP_CLOSE = "<tid>", "</tid>"
# the ledger families whose tokens a format uses, in the order their rows are appended to a vocabulary
FAMILIES = {"a": ("flat",), "b": ("part",), "c": ("wrap", "part")}
CLAUSES = "clause"  # the ledger family of the clauses of rules, whatever the format


def split_name(name: str) -> tuple[str, str]:
    """`API/ENDPOINT` split at the first slash (an endpoint may hold more of them)."""
    api, slash, endpoint = name.partition("/")
    if not (api and slash and endpoint):
        raise TraceError(
            f"'{name}' is not a tool name.", code="bad_tool_name", hint="Tool names are written API/ENDPOINT."
        )
    return api, endpoint


def flat_token(name: str) -> str:
    api, endpoint = split_name(name)
    return f"<<{_in_json(api)}&&{_in_json(endpoint)}>>"


def part_token(part: str) -> str:
    return f"<<{_in_json(part)}>>"


def _in_json(part: str) -> str:
    """As JSON writes it within quotes, so that a list of tokens is JSON whatever stands in a name."""
    return json.dumps(part, ensure_ascii=False)[1:-1]


def clause_token(domain: str, code: str, number: int) -> str:
    """Of a rule's clause; codes are unique within a domain only."""
    return f"<<{domain}/{code}#{number}>>"


def tool_units(name: str, fmt: str) -> list[str]:
    """The token strings that name a tool: [flat], [api, endpoint] or [<tid>, api, endpoint, </tid>]."""
    if fmt == "a":
        return [flat_token(name)]
    parts = [part_token(part) for part in split_name(name)]
    if fmt == "b":
        return parts
    if fmt == "c":
        return [WRAP_OPEN, *parts, WRAP_CLOSE]
    raise TraceError(f"unknown token format '{fmt}'.", code="bad_format", hint="Use a, b or c.")


def telling_units(name: str, fmt: str) -> list[str]:
    """Those that tell a tool from others: the wrapping tokens stand for every one."""
    return [text for text in tool_units(name, fmt) if text not in (WRAP_OPEN, WRAP_CLOSE)]


class NameIndex:
    """Finds tool names and token strings in text; built once per catalog and format. In formats b and c an endpoint's
    token is shared: only the whole sequence, API and endpoint, is a name's.
    """

    def __init__(self, names: Iterable[str], fmt: str) -> None:
        self.units = {name: tool_units(name, fmt) for name in names}
        self.tokens = {"".join(units): name for name, units in self.units.items()}

    @cached_property
    def _names(self) -> NameFinder:
        return NameFinder(self.units)

    @cached_property
    def _sequences(self) -> AhoCorasick:
        return AhoCorasick(list(self.tokens), MATCHKIND_LEFTMOST_LONGEST)

    def names_in(self, text: str) -> list[Mention]:
        """(start, end, name) of every name in the text, left to right, the longest at each place."""
        return self._names.find(text)

    def split(self, text: str) -> list[tuple[str, str | None]]:
        """The text as pieces: (plain text, None) or (name, name)."""
        pieces: list[tuple[str, str | None]] = []
        at = 0
        for start, end, name in self.names_in(text):
            if start > at:
                pieces.append((text[at:start], None))
            pieces.append((name, name))
            at = end
        if at < len(text):
            pieces.append((text[at:], None))
        return pieces

    def to_names(self, text: str) -> str:
        """Every whole token sequence replaced by its tool name; anything else stays as it is."""
        if "<" not in text or not self.tokens:
            return text
        pieces: list[str] = []
        at = 0
        for _, start, end in self._sequences.find_matches_as_indexes(text):
            pieces += [text[at:start], self.tokens[text[start:end]]]
            at = end
        return "".join([*pieces, text[at:]])

    def named(self, text: str) -> list[str]:
        """The tools whose whole token sequences stand in a text, in reading order, as often as they do."""
        if "<" not in text or not self.tokens:
            return []
        found = self._sequences.find_matches_as_indexes(text)
        return [self.tokens[text[start:end]] for _, start, end in found]
