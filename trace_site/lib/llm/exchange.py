"""What is asked of an endpoint, what comes back, and the ledger that hears of both."""

import asyncio
import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

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


Message = dict[str, str]

# failures of the endpoint, its settings or the budget: going on with the next sample would fail the same way
FATAL = frozenset(
    {
        "llm_not_configured",
        "llm_host_refused",
        "llm_unreachable",
        "llm_unauthorized",
        "llm_bad_request",
        "llm_quota",
        "llm_unavailable",
        "llm_wrong_model",
        "llm_budget",
    }
)
# how an exchange ended whose price nobody told: its tokens and cost stay at their upper bounds
UNKNOWN_USAGE = frozenset(
    {"llm_timeout", "llm_broken", "llm_too_large", "llm_not_json", "llm_key_repeated", "llm_cancelled"}
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one role's model is served, and what it may take.

    timeout: seconds of one call from its first exchange on, waiting and retries included; attempt_timeout: of one
    HTTP exchange. concurrency: most exchanges in flight. retries: exchanges that failed and are sent again; those
    answered 429 are sent again until the deadline and do not count (0: nothing is sent again). Prices are per million
    tokens. answers_as: names the model may give itself besides its own and its dated forms, "*" for any.
    allowed_hosts: where the endpoint may be; () for the host of base_url alone.
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    timeout: float = 120.0
    attempt_timeout: float = 60.0
    concurrency: int = 64
    retries: int = 4
    price_in: float = 0.0
    price_out: float = 0.0
    answers_as: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (prompt_tokens * self.price_in + completion_tokens * self.price_out) / 1e6


@dataclass(frozen=True, slots=True)
class Reply:
    """A validated answer and what it cost.

    What is `cached` was kept in the ledger, what is `shared` is paid for by another call: both cost nothing here.
    """

    data: dict[str, Any]
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    cached: bool = False
    shared: bool = False


@dataclass(slots=True)
class Exchange:
    """One HTTP request and how it ended: a row of the ledger.

    Tokens and cost are upper bounds until the endpoint tells them: what was lost on the way counts as if it had been
    paid in full (see UNKNOWN_USAGE), what the endpoint refused counts nothing.
    """

    key: str
    purpose: str
    endpoint: str
    model: str
    prompt_hash: str
    uid: uuid.UUID = field(default_factory=uuid.uuid4)
    error_code: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    @property
    def spent(self) -> Spent:
        return Spent(1, self.prompt_tokens + self.completion_tokens, self.cost)


class Ledger(Protocol):
    """The books of what was asked and paid; its replies by content key are the cache."""

    async def kept(self, key: str) -> dict[str, Any] | None:
        """The answer to an equal request, if it was ever paid for."""

    async def sent(self, exchange: Exchange) -> None:
        """Called before the request leaves; returns once the row is committed."""

    async def ended(self, exchange: Exchange, reply: Reply | None) -> None:
        """Called before the answer is used (None: it failed); returns once row and reply are committed."""


class NoLedger:
    async def kept(self, key: str) -> dict[str, Any] | None:
        return None

    async def sent(self, exchange: Exchange) -> None:
        return None

    async def ended(self, exchange: Exchange, reply: Reply | None) -> None:
        return None


class LlmError(TraceError):
    """An exchange that gave no answer.

    again: another exchange may go better. refused: the endpoint takes no more just now. told: seconds it asks to wait.
    free: it surely was not billed. permanent: the same prompt will fail again, others need not.
    """

    def __init__(
        self,
        what: str,
        code: str,
        *,
        hint: str = "",
        again: bool = False,
        refused: bool = False,
        told: float | None = None,
        free: bool = False,
        permanent: bool = False,
    ) -> None:
        extra = {} if told is None else {"retry_after": told}
        message = f"the language-model endpoint {what}."
        super().__init__(message, code=code, hint=hint, extra=extra, permanent=permanent)
        self.again = again
        self.refused = refused
        self.told = told
        self.free = free
