"""What is asked of an endpoint, what comes back, and the ledger that hears of both."""

import uuid
from dataclasses import dataclass, field
from typing import Any, Protocol

from trace_site.lib.errors import TraceError
from trace_site.lib.llm.budget import Spent

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
