"""How much is asked of an endpoint: what a run may spend, and how many exchanges it gets at a time.

The second is as many as it takes without pushing back, up to a most: a semaphore whose limit moves. Each answer adds
one to it, or a fifth for a while after a refusal (429, 503, 529, silence); each refusal takes one away, so that a few
by chance cost nothing. When everything is refused the gate is shut for a while, and then one exchange tries.

A call that waits to be sent again holds no slot: give a client more calls at a time than its endpoint has slots.
"""

import asyncio
import math
import random
import re
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from trace_site.lib.errors import TraceError

# What a run may spend on model calls: reserved before an exchange is sent, settled when its answer is read.
#
# Invariant: settled + reserved never exceeds a limit, whatever runs at once. It holds at the endpoint too, as long as
# no exchange costs more than was reserved for it; one that does is counted in full and nothing more is sent.


@dataclass(frozen=True, slots=True)
class Spent:
    """calls: HTTP exchanges; tokens: prompt and completion; money: in the currency of the endpoint's prices."""

    calls: int = 0
    tokens: int = 0
    money: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.calls + other.calls, self.tokens + other.tokens, self.money + other.money)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.calls - other.calls, self.tokens - other.tokens, self.money - other.money)


class Budget:
    """Limits of one run, for one event loop; None: no limit. `spent` is what was settled, here and before."""

    def __init__(
        self,
        calls: int | None = None,
        tokens: int | None = None,
        money: float | None = None,
        spent: Spent | None = None,
    ) -> None:
        self.limits = {"calls": calls, "tokens": tokens, "money": money}
        self.spent = spent or Spent()
        self.reserved = Spent()
        self._settled = asyncio.Event()

    async def reserve(self, most: Spent) -> Spent:
        """Room for an exchange that costs `most` at most; waits for what exchanges under way give back.

        Raises TraceError `llm_budget` when they could not give back enough.
        """
        while not (over := self._over(self.spent + most)):
            if not self._over(self.spent + self.reserved + most):
                self.reserved += most
                return most
            await self._settled.wait()
        spent, limit = getattr(self.spent, over), self.limits[over]
        raise TraceError(
            f"the budget of {limit:,} {'in money' if over == 'money' else over} is used up ({spent:,} spent).",
            code="llm_budget",
            where=f"budget.{over}",
            hint="Start the run again with a larger budget; what is paid for is kept.",
            extra={"limit": limit, "spent": spent},
        )

    def settle(self, reserved: Spent, actual: Spent) -> None:
        """Give back what was reserved and count what it cost."""
        self.reserved -= reserved
        self.spent += actual
        self._settled.set()
        self._settled = asyncio.Event()

    def _over(self, total: Spent) -> str:
        """The name of a limit that a total exceeds. Sums of money are compared up to rounding."""
        for name, limit in self.limits.items():
            if limit is not None and getattr(total, name) > limit + (1e-9 if name == "money" else 0):
                return name
        return ""


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
CAREFUL_SECONDS = 5.0  # after a refusal the limit grows slowly
CAREFUL_STEP = 0.2
GATE_REFUSALS = 4  # in a row, with nothing else under way, shut the gate; GATE_SURE do in any case
GATE_SURE = 64
GATE_SECONDS = 5.0  # at most, then one exchange tries
REOPENED = 4.0  # the limit after one that was taken


class Limiter:
    """Slots of one endpoint, for one event loop. Times are the loop's."""

    def __init__(self, most: int, start: int = START) -> None:
        self.most = most
        self.limit = float(min(start, most))
        self.in_flight = 0
        self.dead = False  # a tiny question got no answer either
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._in_a_row = 0
        self._refused_at = -CAREFUL_SECONDS
        self._shut_times = 0
        self._shut_until = 0.0

    @property
    def shut(self) -> bool:
        """Whether the endpoint refuses everything, as far as is known."""
        return self._shut_times > 0

    async def acquire(self, *, urgent: bool = False) -> None:
        """Wait for a slot, until `release`; urgent: before all who wait."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if urgent else self._waiting.append)(turn)
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot came together with the cancellation
                self.release(refused=None)
            raise

    def release(self, *, refused: bool | None, told: float | None = None) -> None:
        """Give a slot back. refused: how the endpoint took it, None if that says nothing; told: seconds to wait."""
        full = self.in_flight >= int(self.limit)  # else nobody asked for more
        self.in_flight -= 1
        now = asyncio.get_running_loop().time()
        if refused is False:
            if full and not self.shut:
                careful = now - self._refused_at < CAREFUL_SECONDS
                self.limit = min(self.most, self.limit + (CAREFUL_STEP if careful else 1))
            self._taken()
        elif refused:
            self._in_a_row += 1
            self._refused_at = now
            self.limit = max(1.0, self.limit - 1)
            if self._in_a_row >= (GATE_SURE if self.in_flight else GATE_REFUSALS) and now >= self._shut_until:
                self._shut(told or 0.0)
        self._wake()

    def reopen(self) -> None:
        """The endpoint serves after all: what was refused in a row was not its doing."""
        self._taken()
        self._shut_until = 0.0
        self._wake()

    def _taken(self) -> None:
        if self.shut:
            self.limit = min(REOPENED, self.most)
        self._in_a_row = self._shut_times = 0
        self.dead = False

    def _shut(self, told: float) -> None:
        """Nobody sends until then, and then one."""
        loop = asyncio.get_running_loop()
        self._shut_times += 1
        pause = min(GATE_SECONDS, max(told, backed_off(self._shut_times)))
        self._shut_until, self.limit = loop.time() + pause, 1.0
        loop.call_later(pause + 0.001, self._wake)  # timers may fire a hair early

    def _wake(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._waiting and self.in_flight < int(self.limit) and now >= self._shut_until:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)


_shared: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Limiter]]" = (
    weakref.WeakKeyDictionary()
)


def limiter_of(base_url: str, most: int) -> Limiter:
    """The one limiter of an endpoint in the running event loop; the largest `most` counts."""
    limiters = _shared.setdefault(asyncio.get_running_loop(), {})
    limiter = limiters.setdefault(base_url.rstrip("/"), Limiter(most))
    limiter.most = max(limiter.most, most)
    return limiter
