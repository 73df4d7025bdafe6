"""What may leave the artefact store: folders that nothing needed lives in.

In: which model and stage lives in which folder (a store key), and what is needed. Out: the keys that may go. The unit
is the folder: rows that share one stay or go together.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """A row that has files. `why` says what needs them; empty: nothing does. `valid`: None while nobody has looked."""

    kind: str  # model or stage
    id: int
    store_key: str
    why: str = ""
    bytes: int = 0


def removable(held: Iterable[Held], last_valid: Collection[str] = ()) -> list[str]:
    """Store keys in which no needed row lives, in the order they were given; never one of `last_valid`."""
    rows = list(held)
    needed = {row.store_key for row in rows if row.why} | set(last_valid)
    return [key for key in dict.fromkeys(row.store_key for row in rows) if key and key not in needed]
