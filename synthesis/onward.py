"""What was made of a snapshot by the apps to the right: runs, models, evaluations. They register a teller each."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Made:
    """`kind`: run, model or evaluation; `of`: the id of what it was made of, a snapshot, a run or a model."""

    kind: str
    id: int
    of: int
    label: str
    url: str
    state: str = ""
    about: str = ""
    aliases: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


Teller = Callable[[list[int]], Iterable[Made]]
_tellers: list[Teller] = []


def register(teller: Teller) -> None:
    """teller: takes ids of snapshots."""
    if teller not in _tellers:
        _tellers.append(teller)


def made_of(snapshots: Iterable[int]) -> list[Made]:
    """In the order of the apps."""
    ids = list(snapshots)
    return [made for teller in _tellers for made in teller(ids)] if ids else []
