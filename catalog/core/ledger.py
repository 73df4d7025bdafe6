"""The token ledger: the place that every token string keeps for ever.

In: the ledger so far and the names of the catalog. Out: the next ledger, in which no slot has moved.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from catalog.core.tokens import WRAP_CLOSE, WRAP_OPEN, flat_token, part_token, split_name
from trace_site.lib.errors import TraceError


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
