"""Tool names and the virtual tokens that stand for them.

In: names `API/ENDPOINT` and a format a|b|c. Out: token strings, permanent token slots (the ledger), and
texts with every name replaced by its token units, or the other way round.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trace_site.lib.errors import TraceError

FORMATS = ("a", "b", "c")
WRAP_OPEN, WRAP_CLOSE = "<tid>", "</tid>"
# the ledger families whose tokens a format uses, in the order their rows are appended to a vocabulary
FAMILIES = {"a": ("flat",), "b": ("part",), "c": ("wrap", "part")}
# these continue a name only when a letter or digit follows: "get." ends a sentence, "get.v2" is another name
JOINERS = frozenset(".-/&:")


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
    return f"<<{api}&&{endpoint}>>"


def part_token(part: str) -> str:
    return f"<<{part}>>"


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


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One token string and the place it keeps for ever. A retired row is a tombstone: no slot is reused."""

    family: str
    slot: int
    string: str
    state: str = "active"


def needed_strings(names: Iterable[str]) -> dict[str, set[str]]:
    """The token strings of every family that a set of tools needs."""
    owners: dict[str, str] = {}
    parts: set[str] = set()
    for name in names:
        owner = owners.setdefault(flat_token(name), name)
        if owner != name:
            raise TraceError(
                f"'{name}' and '{owner}' would share the token {flat_token(name)}.",
                code="token_collision",
                hint="Rename one of the two tools.",
            )
        parts.update(part_token(part) for part in split_name(name))
    return {"flat": set(owners), "part": parts, "wrap": {WRAP_OPEN, WRAP_CLOSE}}


def assign_slots(ledger: Sequence[LedgerRow], names: Iterable[str]) -> list[LedgerRow]:
    """The ledger once the catalog holds exactly `names`: slots stay, new strings follow, the rest retire."""
    result: list[LedgerRow] = []
    for family, needed in needed_strings(names).items():
        rows = sorted((row for row in ledger if row.family == family), key=lambda row: row.slot)
        result += [replace(row, state="active" if row.string in needed else "retired") for row in rows]
        fresh = sorted(needed - {row.string for row in rows})
        if family == "wrap":
            fresh.sort(key=(WRAP_OPEN, WRAP_CLOSE).index)
        start = rows[-1].slot + 1 if rows else 0
        result += [LedgerRow(family, start + offset, string) for offset, string in enumerate(fresh)]
    return result


def _joined(text: str, joiner: int, beyond: int) -> bool:
    """Is the character at `joiner` part of a longer word that goes on at `beyond`?"""
    if not 0 <= joiner < len(text):
        return False
    if text[joiner].isalnum() or text[joiner] == "_":
        return True
    inside = 0 <= beyond < len(text) and (text[beyond].isalnum() or text[beyond] == "_")
    return text[joiner] in JOINERS and inside


class NameIndex:
    """Finds tool names and token strings in text; built once per catalog and format."""

    def __init__(self, names: Iterable[str], fmt: str) -> None:
        self.units = {name: tool_units(name, fmt) for name in names}
        self.tokens = {"".join(units): name for name, units in self.units.items()}
        endpoints: defaultdict[str, set[int]] = defaultdict(set)
        for name in self.units:
            api, endpoint = split_name(name)
            endpoints[api].add(len(endpoint))
        self._endpoint_lengths = {api: sorted(lengths, reverse=True) for api, lengths in endpoints.items()}
        self._api_lengths = sorted({len(api) for api in endpoints}, reverse=True)
        self._token_lengths = sorted({len(token) for token in self.tokens}, reverse=True)

    def names_in(self, text: str) -> list[tuple[int, int, str]]:
        """(start, end, name) of every name in the text, left to right, the longest at each place."""
        found: list[tuple[int, int, str]] = []
        end = 0
        slash = text.find("/")
        while slash != -1:
            match = self._name_at(text, slash, end)
            if match:
                found.append(match)
                end = match[1]
            slash = text.find("/", max(slash + 1, end))
        return found

    def _name_at(self, text: str, slash: int, floor: int) -> tuple[int, int, str] | None:
        best: tuple[int, int, str] | None = None
        for api_length in self._api_lengths:
            start = slash - api_length
            if start < floor or _joined(text, start - 1, start - 2):
                continue
            for length in self._endpoint_lengths.get(text[start:slash], ()):
                end = slash + 1 + length
                if text[start:end] in self.units and not _joined(text, end, end + 1):
                    if best is None or end - start > best[1] - best[0]:
                        best = (start, end, text[start:end])
                    break
        return best

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
        pieces: list[str] = []
        at = start = 0
        while (start := text.find("<", start)) != -1:
            lengths = (n for n in self._token_lengths if text[start : start + n] in self.tokens)
            length = next(lengths, 0)
            if length:
                pieces += [text[at:start], self.tokens[text[start : start + length]]]
                at = start + length
            start += length or 1
        return "".join([*pieces, text[at:]])
