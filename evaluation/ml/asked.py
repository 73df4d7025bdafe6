"""Requests on their way through an engine, and what answers several of them together."""

import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trace_site.lib.departure import Departed, Departure
from trace_site.lib.turns import Turns

FAST, BEAM, TRACE, TRACE_FREE, LETTERS, BOTH = "fast", "beam", "trace", "trace-free", "letters", "both"
AT_ONCE = 32  # requests that share a forward
OF_ONE = 2  # of one caller that join at once, while others ask too: theirs wait for a short forward
LATEST = 64  # requests whose callers count as asking
Item = dict[str, Any]
OnEvent = Callable[[str, Any], None]  # ("fast", prediction) and ("text", more of the trace)


@dataclass(eq=False)
class Asked:
    """One request on its way through the engine."""

    item: Item
    decode: str
    k: int
    ids: list[int]
    on_event: OnEvent | None = None
    caller: str = ""  # whose turn it takes
    clients: list[Departure] = field(default_factory=list)  # of whoever waits for it
    row: Item | None = None
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def answer(self, row: Item) -> None:
        self.row = row
        self.done.set()

    def fail(self, error: Exception) -> None:
        self.error = error
        self.done.set()

    @property
    def left(self) -> bool:
        """Does nobody wait for it any more?"""
        return bool(self.clients) and all(one.happened for one in self.clients)


class Batch(ABC):
    """What is being answered together: requests join before each step, in fair turns of their callers."""

    def __init__(self) -> None:
        self.waiting: Turns[Asked] = Turns()
        self.latest: deque[str] = deque(maxlen=LATEST)  # callers of those that were taken
        self.taken: list[Asked] = []  # whoever is not answered yet, but for those who wait

    @property
    def busy(self) -> bool:
        return bool(self.waiting)

    def run(self, asked: Sequence[Asked]) -> None:
        """Answer all of them."""
        for one in asked:
            self.waiting.put("", one)
        while self.busy:
            self.step()

    def let_go(self) -> None:
        """End what nobody waits for any more; the next step forgets it."""
        for one in (*self.waiting, *self.taken):
            if one.left and not one.done.is_set():
                one.fail(Departed())

    def take(self, room: int, fits: Callable[[Asked, int], bool] = lambda one, taken: True) -> list[Asked]:
        """Up to `room` of those who wait and fit beside the number that was taken before them."""
        fresh: list[Asked] = []
        places: Counter[str] = Counter()
        others_ask = len({*self.latest, *self.waiting.callers}) > 1
        most = OF_ONE if others_ask else room

        def may(one: Asked) -> bool:
            return places[one.caller] < most and fits(one, len(fresh))

        while len(fresh) < room and (one := self.waiting.take(may)):
            if not one.done.is_set():
                fresh.append(one)
                places[one.caller] += 1
        self.latest.extend(one.caller for one in fresh)
        self.taken = [one for one in self.taken if not one.done.is_set()] + fresh
        return fresh

    @abstractmethod
    def step(self) -> None:
        """Take in who waits, and one forward for all."""
