"""How much of a snapshot a domain may be: at most so many samples of a branch, or a share of it.

In: entries in the order in which they are wanted. Out: those that fit. A share is of what is taken in the end, so the
largest number is sought at which no domain is above its own.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar


class Placed(Protocol):
    @property
    def domain(self) -> str: ...


E = TypeVar("E", bound=Placed)


@dataclass(frozen=True, slots=True)
class Budget:
    """Of one domain; None does not limit. `share`: percent, of each branch."""

    rule: int | None = None
    rrb: int | None = None
    share: int | None = None


Budgets = Mapping[str, Budget]


def within(
    entries: Sequence[E], budgets: Budgets, branch: str, most: int | None = None
) -> tuple[list[E], list[E], list[E]]:
    """(kept, over their domain's budget, over `most`), each in the order given."""
    found = Counter(entry.domain for entry in entries)
    own = {domain: budgets.get(domain, Budget()) for domain in found}
    fit = {domain: _least(count, getattr(own[domain], branch, None)) for domain, count in found.items()}
    total = _least(sum(fit.values()), most)
    while True:
        room = {
            domain: count if (share := own[domain].share) is None else min(count, total * share // 100)
            for domain, count in fit.items()
        }
        if sum(room.values()) >= total:
            break
        total = sum(room.values())
    kept: list[E] = []
    over_budget: list[E] = []
    over_most: list[E] = []
    for entry in entries:
        if not room[entry.domain]:
            over_budget.append(entry)
        elif len(kept) == total:
            over_most.append(entry)
        else:
            room[entry.domain] -= 1
            kept.append(entry)
    return kept, over_budget, over_most


def _least(count: int, most: int | None) -> int:
    return count if most is None else min(count, most)


def read_budgets(texts: Iterable[str]) -> dict[str, dict[str, int]]:
    """`hr:rule=100,rrb=50` or `hr:share=40` as {"hr": {"rule": 100, "rrb": 50}}. Raises ValueError naming the text."""
    found: dict[str, dict[str, int]] = {}
    for text in texts:
        domain, _, limits = text.partition(":")
        for limit in limits.split(","):
            name, _, number = limit.partition("=")
            if not (domain and name in ("rule", "rrb", "share") and number.isascii() and number.isdecimal()):
                raise ValueError(text)
            found.setdefault(domain, {})[name] = int(number)
    return found
