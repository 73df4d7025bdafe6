"""How many exchanges one endpoint gets at a time: as many as it takes without pushing back, up to a most.

The limit starts small and doubles every round trip, then grows by one. It shrinks with the share of refusals (429,
503, 529, silence) among the recent outcomes, in proportion to it as DCTCP does (RFC 8257), so that a few refusals by
chance cost nothing. When everything is refused the gate is shut for a while and one exchange tries it again.

A call that waits to be sent again holds no slot: give a client more calls at a time than its endpoint has slots.
"""

import asyncio
import weakref
from collections import deque

from trace_site.lib.llm.retry import backed_off

START = 8
WINDOW = 64  # outcomes
TOLERATED = 0.05  # share of refusals that is taken for chance
EVIDENCE = 7  # refusals in the window before anything is concluded
GATE = (4, 10.0)  # at least so many refusals in a row shut it; for at most so many seconds
PROBE_AFTER = 5.0  # seconds without a cut until growth is fast again


class Limiter:
    """Slots of one endpoint, for one event loop. Times are the loop's."""

    def __init__(self, most: int, start: int = START) -> None:
        self.most = most
        self.limit = float(min(start, most))
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._recent: deque[bool] = deque(maxlen=WINDOW)  # True: refused
        self._in_a_row = 0
        self._shut_times = 0
        self._shut_until = 0.0
        self._fast_below = float("inf")
        self._cut_at = 0.0

    async def acquire(self, *, urgent: bool = False) -> float:
        """A slot, for `release`; urgent: before all who wait."""
        if self._waiting or not self._free():
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            (self._waiting.appendleft if urgent else self._waiting.append)(turn)
            self._wake()
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # the slot came together with the cancellation
                    self._give_back()
                raise
        else:
            self.in_flight += 1
        return self._now()

    def release(self, since: float, *, refused: bool | None, told: float | None = None) -> None:
        """Give a slot back. refused: how the endpoint took it, None if that says nothing; told: seconds to wait."""
        if refused:
            self._refused(since, told)
        elif refused is False:
            self._taken()
        self._give_back()

    @property
    def shut(self) -> bool:
        """Whether the endpoint refuses everything, as far as is known."""
        return self._shut_times > 0

    def _give_back(self) -> None:
        self.in_flight -= 1
        self._wake()

    def _free(self) -> bool:
        return self.in_flight < int(self.limit) and self._now() >= self._shut_until

    def _wake(self) -> None:
        while self._waiting and self._free():
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)

    def _taken(self) -> None:
        self._recent.append(False)
        self._in_a_row = self._shut_times = 0
        if self.in_flight < int(self.limit):  # nobody asked for more
            return
        if self._now() - self._cut_at > PROBE_AFTER:
            self._fast_below = float("inf")
        self.limit = min(self.most, self.limit + (1 if self.limit < self._fast_below else 1 / self.limit))

    def _refused(self, since: float, told: float | None) -> None:
        self._recent.append(True)
        self._in_a_row += 1
        if self._in_a_row >= max(GATE[0], int(self.limit)):
            self._shut(told or 0.0)
        elif since >= self._cut_at:  # older ones were sent under the limit that is already cut
            self._cut()

    def _cut(self) -> None:
        refused = sum(self._recent)
        excess = refused / len(self._recent) - TOLERATED
        if refused < min(EVIDENCE, int(self.limit) + 1) or excess <= 0:
            return
        self.limit = max(1.0, self.limit * (1 - excess / 2))
        self._fast_below = self.limit
        self._cut_at = self._now()
        self._recent.clear()

    def _shut(self, told: float) -> None:
        """Nobody sends until then, and then one."""
        if self._now() < self._shut_until:
            return
        self._shut_times += 1
        pause = min(GATE[1], max(told, backed_off(self._shut_times)))
        self._shut_until = self._cut_at = self._now() + pause
        self.limit, self._fast_below = 1.0, float("inf")
        self._recent.clear()
        asyncio.get_running_loop().call_later(pause, self._wake)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


_shared: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Limiter]]" = (
    weakref.WeakKeyDictionary()
)


def limiter_of(base_url: str, most: int) -> Limiter:
    """The one limiter of an endpoint in the running event loop; the largest `most` counts."""
    limiters = _shared.setdefault(asyncio.get_running_loop(), {})
    limiter = limiters.setdefault(base_url.rstrip("/"), Limiter(most))
    limiter.most = max(limiter.most, most)
    return limiter
