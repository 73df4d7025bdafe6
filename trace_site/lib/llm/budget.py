"""What a run may spend on model calls: reserved before an exchange is sent, settled when its answer is read.

Invariant: settled + reserved never exceeds a limit, whatever runs at once. It holds at the endpoint too, as long as no
exchange costs more than was reserved for it; one that does is counted in full and nothing more is sent.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from trace_site.lib.errors import TraceError


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
        self._waiting: deque[tuple[Spent, asyncio.Future[None]]] = deque()

    async def reserve(self, most: Spent) -> Spent:
        """Room for an exchange that costs `most` at most; waits, in turn, for what exchanges under way give back.

        Raises TraceError `llm_budget` when they could not give back enough.
        """
        if self._waiting or self._over(self.spent + self.reserved + most):
            if over := self._over(self.spent + most):
                raise self._ended(over)
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((most, turn))
            self._wake()
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled() and turn.exception() is None:
                    self.settle(most, Spent())
                raise
        else:
            self.reserved += most
        return most

    def settle(self, reserved: Spent, actual: Spent) -> None:
        """Give back what was reserved and count what it cost."""
        self.reserved -= reserved
        self.spent += actual
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            most, turn = self._waiting[0]
            if turn.done():
                pass
            elif over := self._over(self.spent + most):
                turn.set_exception(self._ended(over))
            elif self._over(self.spent + self.reserved + most):
                return
            else:
                self.reserved += most
                turn.set_result(None)
            self._waiting.popleft()

    def _over(self, total: Spent) -> str:
        """The name of a limit that a total exceeds. Sums of money are compared up to rounding."""
        for name, limit in self.limits.items():
            if limit is not None and getattr(total, name) > limit + (1e-9 if name == "money" else 0):
                return name
        return ""

    def _ended(self, name: str) -> TraceError:
        spent, limit = getattr(self.spent, name), self.limits[name]
        return TraceError(
            f"the budget of {limit:,} {'in money' if name == 'money' else name} is used up ({spent:,} spent).",
            code="llm_budget",
            where=f"budget.{name}",
            hint="Start the run again with a larger budget; what is paid for is kept.",
            extra={"limit": limit, "spent": spent},
        )
