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


def assign_slots(ledger: Sequence[LedgerRow], names: Iterable[str]) -> list[LedgerRow]:
    """The ledger once the catalog holds exactly `names`: slots stay, new strings follow, the rest retire.

    Families that are not of tools stay as they are.
    """
    owners: dict[str, str] = {}
    parts: set[str] = set()
    for name in names:
        owner = owners.setdefault(flat_token(name), name)
        if owner != name:
            message = f"'{name}' and '{owner}' would share the token {flat_token(name)}."
            raise TraceError(message, code="token_collision", hint="Rename one of the two tools.")
        parts.update(part_token(part) for part in split_name(name))
    needed = {"flat": sorted(owners), "part": sorted(parts), "wrap": [WRAP_OPEN, WRAP_CLOSE]}
    result = [row for row in ledger if row.family not in needed]
    for family, strings in needed.items():
        rows = sorted((row for row in ledger if row.family == family), key=lambda row: row.slot)
        wanted, known = set(strings), {row.string for row in rows}
        result += [replace(row, state="active" if row.string in wanted else "retired") for row in rows]
        start = rows[-1].slot + 1 if rows else 0
        fresh = [string for string in strings if string not in known]
        result += [LedgerRow(family, slot, string) for slot, string in enumerate(fresh, start)]
    return result
