"""What a change would touch, told by the apps that know. Each app registers a teller in its AppConfig.ready().

A teller gets ids of tools, or of rules, and answers with counted lines; nothing imports to its right for it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Subject = Literal["tools", "rules"]


@dataclass(frozen=True, slots=True)
class Impact:
    """`name` is a stable key such as `samples`; `label` is read after the count; `blocks` is why undoing is refused."""

    name: str
    count: int
    label: str
    url: str = ""
    blocks: str = ""

    def as_dict(self) -> dict[str, object]:
        return {"name": self.name, "count": self.count, "label": self.label}


Teller = Callable[[list[int]], Iterable[Impact]]
_tellers: dict[Subject, list[Teller]] = {"tools": [], "rules": []}


def register(subject: Subject, teller: Teller) -> None:
    if teller not in _tellers[subject]:
        _tellers[subject].append(teller)


def impact_of(subject: Subject, ids: Iterable[int]) -> list[Impact]:
    """Every teller's lines in the order of the apps; for rules: what publishing another version makes stale."""
    wanted = list(ids)
    return [line for teller in _tellers[subject] for line in teller(wanted)] if wanted else []
