"""Who waits, in fair turns: one of each caller after the other, however many of one wait.

One thread may take while others put.
"""

from collections import deque
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}  # by caller, whose turn comes first stands first
        self._changing = Lock()

    def put(self, caller: str, one: T) -> None:
        with self._changing:
            self._waiting.setdefault(caller, deque()).append(one)

    def has_room(self, caller: str, most: int) -> bool:
        """Whether one more of the caller may wait where `most` may: nobody's own are more than three quarters."""
        with self._changing:
            own = len(self._waiting.get(caller, ()))
            return own < most * 3 // 4 and sum(map(len, self._waiting.values())) < most

    def take(self, fits: Callable[[T], bool] = lambda one: True) -> T | None:
        """The first of the caller whose turn it is and whose first one fits; None where none does."""
        with self._changing:
            for caller, own in self._waiting.items():
                if fits(own[0]):
                    one = own.popleft()
                    del self._waiting[caller]
                    if own:
                        self._waiting[caller] = own
                    return one
        return None

    @property
    def callers(self) -> list[str]:
        with self._changing:
            return list(self._waiting)

    def __len__(self) -> int:
        with self._changing:
            return sum(map(len, self._waiting.values()))

    def __iter__(self) -> Iterator[T]:
        with self._changing:
            return iter([one for own in self._waiting.values() for one in own])
