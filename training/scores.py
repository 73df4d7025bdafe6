"""What models score, told by the app that evaluates; it registers a teller in its AppConfig.ready()."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """One figure of a model: its mean with the interval and n, what it measures, and the page behind it."""

    value: float | None
    low: float | None
    high: float | None
    n: int | None
    label: str
    url: str


Teller = Callable[[list[int]], dict[int, Score]]
_tellers: list[Teller] = []


def register(teller: Teller) -> None:
    if teller not in _tellers:
        _tellers.append(teller)


def scores_of(models: Iterable[int]) -> dict[int, Score]:
    """{model id: its score} of the models that have one."""
    wanted = list(models)
    found: dict[int, Score] = {}
    for teller in _tellers if wanted else ():
        found |= teller(wanted)
    return found
