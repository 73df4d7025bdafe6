"""How many exchanges one endpoint gets at a time: as many as it takes without pushing back, up to a most.

The limit starts small and doubles every round trip. It shrinks with the share of refusals (429, 503, 529, silence)
among the recent outcomes, in proportion to it as DCTCP does (RFC 8257), so that a few refusals by chance cost nothing,
and never below what the endpoint is serving; then it grows slowly, and fast again when nothing speaks against it. When
everything is refused the gate is shut for a while, and then one exchange tries.

A call that waits to be sent again holds no slot: give a client more calls at a time than its endpoint has slots.
"""

import asyncio
import math
import random
import re
import weakref
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import count

# When a call that failed may be sent again.


SECONDS = re.compile(r"\d{1,300}(\.\d{0,300})?|\.\d{1,300}", re.ASCII)
LONGEST = 1e9  # seconds; a header may name any number


def retry_after(header: str | None, date: str | None = None) -> float | None:
    """Seconds from a Retry-After header, in seconds or as an HTTP date; None when absent or unreadable.

    date: the answer's Date header. A date counts from it or from our clock, whichever leaves more to wait.
    """
    header = (header or "").strip()
    if SECONDS.fullmatch(header):
        return min(float(header), LONGEST)
    at = _date(header)
    if at is None:
        return None
    return max(0.0, *((at - now).total_seconds() for now in (datetime.now(UTC), _date(date or "")) if now))


def told_to_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds the answer asks to wait, by Retry-After or by the finer retry-after-ms; None when it says nothing."""
    told = [retry_after(headers.get("retry-after"), headers.get("date"))]
    fine = retry_after(headers.get("retry-after-ms"))
    if fine is not None and SECONDS.fullmatch(headers.get("retry-after-ms", "").strip()):
        told.append(fine / 1000)
    return max((one for one in told if one is not None), default=None)


def backed_off(failures: int, *, base: float = 0.25, most: float = 8.0) -> float:
    """Seconds before the next attempt, after `failures` (1, 2, ...): doubling, half of it random."""
    full = min(most, base * math.pow(2, min(failures, 30)))
    return full * random.uniform(0.5, 1.0)


def _date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return at.replace(tzinfo=at.tzinfo or UTC)


START = 8
WINDOW = 64  # outcomes
TOLERATED = 0.05  # share of refusals that is taken for chance
EVIDENCE = 7  # refusals in the window before anything is concluded; half the limit where that is less
GROW_SECONDS = 2.0  # to grow by one
PROBE_AFTER = 5.0  # seconds without a cut until growth is fast again
GATE_REFUSALS = 4  # in a row, with nothing else under way, shut the gate; GATE_SURE do in any case
GATE_SURE = 64
GATE_SECONDS = 5.0  # at most, then one exchange tries
REOPENED = 4.0  # the limit after one that was taken


class Limiter:
    """Slots of one endpoint, for one event loop. Times are the loop's."""

    def __init__(self, most: int, start: int = START) -> None:
        self.most = most
        self.limit = float(min(start, most))
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._flying: dict[int, float] = {}  # slot: since when, the oldest first
        self._slots = count()
        self._recent: deque[bool] = deque(maxlen=WINDOW)  # True: refused
        self._in_a_row = 0
        self._row_since = 0.0
        self._shut_times = 0
        self.dead = False  # a tiny question got no answer either
        self._shut_until = 0.0
        self._fast_below = float("inf")
        self._cut_at = 0.0
        self._grown_at = 0.0

    @property
    def in_flight(self) -> int:
        return len(self._flying)

    @property
    def shut(self) -> bool:
        """Whether the endpoint refuses everything, as far as is known."""
        return self._shut_times > 0

    async def acquire(self, *, urgent: bool = False) -> int:
        """A slot, for `release`; urgent: before all who wait."""
        if not self._waiting and self._free():
            return self._take()
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if urgent else self._waiting.append)(turn)
        self._wake()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot came together with the cancellation
                self.release(turn.result(), refused=None)
            raise

    def release(self, slot: int, *, refused: bool | None, told: float | None = None) -> None:
        """Give a slot back. refused: how the endpoint took it, None if that says nothing; told: seconds to wait."""
        if refused is False:
            self._taken()
        since = self._flying.pop(slot)
        if refused:
            self._refused(since, told or 0.0)
        self._wake()

    def reopen(self) -> None:
        """The endpoint serves after all: what was refused in a row was not its doing."""
        self._taken()
        self._shut_until = 0.0
        self._wake()

    def _take(self) -> int:
        slot = next(self._slots)
        self._flying[slot] = self._now()
        return slot

    def _free(self) -> bool:
        return self.in_flight < int(self.limit) and self._now() >= self._shut_until

    def _wake(self) -> None:
        while self._waiting and self._free():
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(self._take())

    def _taken(self) -> None:
        now = self._now()
        self._recent.append(False)
        if self.shut:
            self.limit = min(REOPENED, self.most)
        self._in_a_row = self._shut_times = 0
        self.dead = False
        if now - self._cut_at > PROBE_AFTER:
            self._fast_below = float("inf")
        if self.in_flight >= int(self.limit):  # else nobody asked for more
            slow = min(1.0, (now - self._grown_at) / GROW_SECONDS)
            self.limit = min(self.most, self.limit + (1 if self.limit < self._fast_below else slow))
        self._grown_at = now

    def _refused(self, since: float, told: float) -> None:
        self._recent.append(True)
        if not self._in_a_row:
            self._row_since = since
        self._in_a_row += 1
        # what was sent before the first refusal may still be taken
        alone = next(iter(self._flying.values()), self._row_since) >= self._row_since
        if self._in_a_row >= (GATE_REFUSALS if alone else GATE_SURE):
            self._shut(told)
        elif since >= self._cut_at:  # older ones were sent under the limit that is already cut
            self._cut()

    def _cut(self) -> None:
        refused = sum(self._recent)
        excess = refused / len(self._recent) - TOLERATED
        if refused < min(EVIDENCE, 1 + self.limit / 2) or excess <= 0:
            return
        served = sum(since < self._row_since for since in self._flying.values())
        self.limit = max(1.0, served, self.limit * (1 - excess / 2))
        self._fast_below = self.limit
        self._cut_at = self._now()
        self._recent.clear()

    def _shut(self, told: float) -> None:
        """Nobody sends until then, and then one."""
        if self._now() < self._shut_until:
            return
        self._shut_times += 1
        pause = min(GATE_SECONDS, max(told, backed_off(self._shut_times)))
        self._shut_until = self._cut_at = self._now() + pause
        self.limit, self._fast_below = 1.0, float("inf")
        self._recent.clear()
        asyncio.get_running_loop().call_later(pause + 0.001, self._wake)  # timers may fire a hair early

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
