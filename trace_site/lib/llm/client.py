"""Asking one endpoint: until the total deadline, within the limiter and the budget, equal questions once.

Every exchange is told to the ledger before it is sent and before its answer is used. What fails for the moment
(timeouts, resets, 5xx, answers that are no completion) is sent again, a refusal (429) not before the endpoint allows;
what the model said wrongly is an error at once, for the caller to ask differently.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import httpx2 as httpx

from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from trace_site.lib.llm.dialects import PLAIN, learn, manner_of, worded
from trace_site.lib.llm.exchange import (
    FATAL,
    Endpoint,
    Exchange,
    Ledger,
    LlmError,
    Message,
    Reply,
    check_model,
    completion_of,
    object_of,
    status_error,
)
from trace_site.lib.llm.limiter import GATE_SECONDS, Budget, Limiter, backed_off, limiter_of
from trace_site.lib.outbound import Refused, client_of, literal, may_connect

# One HTTP exchange: a request's bytes out, the bytes of a 200 back, or an LlmError.


MOST_BYTES = 1_000_000  # of an answer
NOT_REACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol)
SHORTEST_KEY = 8  # characters; a shorter one may stand in an answer by chance


class Wire:
    def __init__(self, endpoint: Endpoint) -> None:
        import openai  # here and below: half a second of each process that never asks a model

        self._key = endpoint.api_key
        self._http = client_of(may_connect, endpoint.concurrency)
        self._http.event_hooks = {"response": [_cap]}
        # our own loop retries: it knows the budget, the total deadline and every form of Retry-After
        self._openai = openai.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key or "none",
            max_retries=0,
            http_client=self._http,
        )

    async def close(self) -> None:
        await self._openai.close()

    async def post(self, body: bytes, uid: UUID, seconds: float, path: str = "/chat/completions") -> bytes:
        """The body of the answer with status 200, within so many seconds."""
        headers = {"Content-Type": "application/json", "X-Client-Request-Id": str(uid)}
        asked = self._openai.post(path, cast_to=httpx.Response, content=body, options={"headers": headers})
        return await self._read(asked, seconds)

    async def get(self, path: str, seconds: float) -> bytes:
        """What stands at a path below the base address, or at a whole address."""
        return await self._read(self._openai.get(path, cast_to=httpx.Response), seconds)

    async def _read(self, asked: Awaitable[httpx.Response], seconds: float) -> bytes:
        with _told(self._key):
            async with asyncio.timeout(seconds):
                response = await asked
        self._check(response.content)
        return response.content

    async def stream(self, body: bytes, seconds: float, path: str, heard: Callable[[str], None]) -> None:
        """`heard` is told the data of every server-sent event as it comes; it may raise."""
        headers = {"Content-Type": "application/json", **self._openai.auth_headers}
        address = f"{self._openai.base_url}{path.lstrip('/')}"
        with _told(self._key):
            async with (
                asyncio.timeout(seconds),
                self._http.stream("POST", address, content=body, headers=headers) as response,
            ):
                if response.status_code != 200:
                    await response.aread()
                    raise _refusal(response, self._key)
                async for line in response.aiter_lines():
                    self._check(line.encode())
                    if line.startswith("data:"):
                        heard(line.removeprefix("data:").strip())

    def _check(self, content: bytes) -> None:
        if len(self._key) >= SHORTEST_KEY and self._key.encode() in content:
            raise LlmError("repeated the key in its answer", "llm_key_repeated")


def _refusal(response: httpx.Response, key: str) -> LlmError:
    text = response.content.decode("utf-8", "replace")
    return status_error(response.status_code, response.headers, text.replace(key, "…") if key else text)


@contextmanager
def _told(key: str) -> Iterator[None]:
    """What goes wrong in an exchange, as an LlmError."""
    import openai

    try:
        yield
    except TimeoutError:
        raise LlmError("did not answer in time", "llm_timeout", again=True, refused=True) from None
    except openai.APIStatusError as error:
        raise _refusal(error.response, key) from None
    except Refused:
        raise host_refused("leads to an address that no model is served from") from None
    except (openai.APIConnectionError, httpx.TransportError) as error:
        cause = error.__cause__ if isinstance(error, openai.APIConnectionError) else error
        if not isinstance(cause, NOT_REACHED):
            raise LlmError("broke off its answer", "llm_broken", again=True) from None
        hint = "Check LLM_BASE_URL and that the server is up, or use --writer offline."
        raise LlmError("cannot be reached", "llm_unreachable", hint=hint, again=True, free=True) from None


async def _cap(response: httpx.Response) -> None:
    """Before an answer is read: no more of it than MOST_BYTES, as it is sent."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise LlmError("compressed its answer, which was not asked for", "llm_not_json", again=True)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Capped(response.stream)


class _Capped(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > MOST_BYTES:
                raise LlmError(f"sent more than {MOST_BYTES:,} bytes", "llm_too_large")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def check_url(url: str, allowed: Collection[str] = ()) -> None:
    """Raise LlmError `llm_host_refused` unless `url` is http(s) to an allowed host ("name" or "name:port").

    allowed: () for whatever host the address names.
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise host_refused("is no web address") from None
    if parts.scheme not in ("http", "https") or not host:
        raise host_refused("must begin with https:// or http:// and name a host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise host_refused("holds more than a host and a path; keys belong into LLM_API_KEY")
    if allowed and not {host, f"{host}:{port}"} & {one.strip().lower() for one in allowed}:
        raise host_refused(f"is at {host[:100]}, which is not in LLM_ALLOWED_HOSTS")
    if literal(host) is not None and not may_connect(host):
        raise host_refused("is an address that no model is served from")


def host_refused(why: str) -> LlmError:
    error = LlmError(why, "llm_host_refused", hint="Check it and LLM_ALLOWED_HOSTS.", free=True)
    error.where = "LLM_BASE_URL"
    return error


# Equal work under way at once is done once.

T = TypeVar("T")


class Flights(Generic[T]):
    """For one event loop. The first to ask works; who asks for the same key meanwhile waits for its outcome."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Future[T]] = {}

    async def join(self, key: str, work: Callable[[], Awaitable[T]], shared: Callable[[T], T]) -> T:
        """What `work` gives or raises; `shared` makes of it what those who waited get.

        When the one that works is cancelled or breaks down, one of those who waited works instead.
        """
        while (flight := self._under_way.get(key)) is not None:
            try:
                return shared(await asyncio.shield(flight))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not flight.cancelled() or (task and task.cancelling()):
                    raise
        flight = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            flight.set_result(await work())
        except TraceError as error:
            flight.set_exception(error)
            flight.exception()  # nobody else may be waiting for it
            raise
        finally:
            del self._under_way[key]
            flight.cancel()  # does nothing unless the work ended in another way
        return flight.result()


# What fails for the moment is sent again, in a slot of the endpoint's limiter, until the total deadline.

Final = Callable[[LlmError | None, Limiter, int], Awaitable[LlmError]]


async def until_deadline(
    endpoint: Endpoint,
    once: Callable[[float], Awaitable[T]],
    final: Final,
    learnt: Callable[[LlmError], bool] = lambda error: False,
) -> T:
    """What `once` gives, an exchange that is told by when it must end; repeated at once where `learnt` says so.

    Raises `final` of the last failure (None: there was no slot for the first) and of how often was asked.
    """
    limiter, now = limiter_of(endpoint.base_url, endpoint.concurrency), asyncio.get_running_loop().time
    deadline, failures, refusals = float("inf"), 0, 0
    last: LlmError | None = None
    while True:
        await _slot(endpoint, limiter, deadline, last, final)
        deadline = min(deadline, now() + endpoint.timeout)
        refused: bool | None = None
        told = None
        try:
            answer = await once(deadline)
            refused = False
            return answer
        except LlmError as error:
            last, told = error, error.told
            refused = error.refused or (None if error.again else False)
        finally:
            limiter.release(refused=refused, told=told)
        if learnt(last):
            continue
        refusals += last.code == "llm_rate_limited"
        failures += last.code != "llm_rate_limited"
        pause = max(last.told or 0.0, backed_off(failures + refusals))
        over = now() + pause >= deadline
        if not last.again or not endpoint.retries or failures > endpoint.retries or over:
            raise await final(last, limiter, failures + refusals) from None
        await asyncio.sleep(pause)


async def _slot(
    endpoint: Endpoint, limiter: Limiter, deadline: float, last: LlmError | None, final: Final
) -> None:
    """Behind calls of our own it waits as long as they take: then the endpoint is well."""
    urgent, now = last is not None, asyncio.get_running_loop().time
    while True:
        try:
            async with asyncio.timeout_at(min(deadline, now() + endpoint.timeout)):
                return await limiter.acquire(urgent=urgent)
        except TimeoutError:
            if last is not None or limiter.shut:
                raise await final(last, limiter, 2) from None
        urgent = True


def seconds_left(endpoint: Endpoint, deadline: float) -> float:
    """How long an exchange may take that begins now."""
    return max(0.05, min(endpoint.attempt_timeout, deadline - asyncio.get_running_loop().time()))


TINY = [{"role": "user", "content": 'Answer with {"ok": true}.'}]
PROBE = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
HINTS = {
    "llm_rate_limited": "It refuses every request; retry the job when it takes some again.",
    "llm_timeout": "It answers nothing; retry the job when it answers again.",
}
FAILS = dict.fromkeys(
    ("llm_server_error", "llm_broken", "llm_not_json"),
    "It fails whatever is asked; retry the job when it answers again.",
)
AGAIN = 2  # times that a refusal without a clear cause is sent again
MOST_DOUBTS = 5  # calls in a row that may end so before it is the endpoint's fault
AHEAD_SECONDS = 3.0  # a refusal takes less; what was not refused by then is being answered
FRAME_TOKENS = 100  # most that an endpoint adds around the messages; a token is never shorter than a byte


@dataclass(slots=True)
class _Call:
    request: dict[str, Any]
    schema: str
    first: Exchange  # the one that each attempt's exchange is a copy of
    body: bytes = b""
    sent: dict[str, Any] = field(default_factory=dict)  # what the body says
    doubts: int = 0  # refusals without a clear cause


class Client:
    """One endpoint, for one event loop. Clients of one base_url share its limiter."""

    def __init__(
        self, endpoint: Endpoint, *, ledger: Ledger | None = None, budget: Budget | None = None
    ) -> None:
        if not endpoint.base_url:
            raise TraceError(
                "no language-model endpoint is configured.",
                code="llm_not_configured",
                where="LLM_BASE_URL",
                hint="Set LLM_BASE_URL (and LLM_API_KEY, LLM_GENERATOR_MODEL), or use --writer offline.",
                permanent=True,
            )
        self.endpoint = endpoint
        self.base_url = endpoint.base_url
        self.ledger = ledger or Ledger()
        self.budget = budget or Budget()
        self._flights: Flights[Reply] = Flights()
        self._alive: Flights[bool] = Flights()
        self.manner = manner_of(endpoint.base_url, endpoint.model, endpoint.options)
        self._options: dict[str, Any] = json.loads(endpoint.options or "{}")
        # calls without a clear end since the last answer; None before the first
        self._doubts: int | None = None
        self._ahead: dict[str, asyncio.Event] = {}  # by purpose: its first request was taken
        try:
            check_url(endpoint.base_url, endpoint.allowed_hosts)
        except LlmError as error:
            error.where = self.base_url
            raise
        self._wire = Wire(endpoint)

    async def close(self) -> None:
        await self._wire.close()

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any],
        purpose: str,
        temperature: float = 0.0,
        max_tokens: int = 2000,
        seed: int | None = None,
        prompt_hash: str = "",
    ) -> Reply:
        """The answer to one prompt: from the ledger or from a call under way when the same was asked before."""
        call = self._call(messages, schema, purpose, max_tokens, temperature, seed, prompt_hash)

        async def answer() -> Reply:
            if (kept := await self.ledger.kept(call.first.key)) is not None:
                return Reply(kept, cached=True)
            return await self._until_answered(call)

        return await self._flights.join(call.first.key, answer, lambda reply: replace(reply, shared=True))

    def _call(
        self,
        messages: Sequence[Message],
        schema: dict[str, Any],
        purpose: str,
        max_tokens: int,
        temperature: float = 0.0,
        seed: int | None = None,
        prompt_hash: str = "",
    ) -> _Call:
        request = {
            "model": self.endpoint.model,
            "messages": list(messages),
            "temperature": temperature,
            "max_tokens": max_tokens,
            "seed": seed,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": purpose, "schema": schema, "strict": True},
            },
        }
        key = content_hash([request, self.endpoint.options] if self.endpoint.options else request)
        first = Exchange(key, purpose, self.base_url, self.endpoint.model, prompt_hash)
        return _Call(request, json.dumps(schema), first)

    async def probe(self) -> None:
        """One tiny call before work starts, outside of ledger and budget; raises TraceError when it cannot serve.

        `manner` holds then which fields the server refuses.
        """
        prober = Client(self.endpoint)
        prober._doubts = 0
        ask = partial(prober.ask, TINY, schema=PROBE, purpose="probe", max_tokens=200)
        try:
            await ask(seed=1)
        except TraceError as error:
            if getattr(error, "unclear", False) and not self.manner:  # perhaps a field that it does not name
                self.manner.update(PLAIN)
                with suppress(TraceError):
                    await ask(seed=2)
                    return
                self.manner.clear()
            if error.code in FATAL | {"llm_timeout"}:
                raise
        finally:
            await prober.close()

    def _word(self, call: _Call) -> None:
        """The body of a call as the server is known to take it."""
        fields = worded(self.manner, call.request, call.schema) | self._options
        call.sent = {name: value for name, value in fields.items() if value is not None}
        call.body = json.dumps(call.sent, ensure_ascii=False, separators=(",", ":")).encode()
        most = call.sent.get("max_completion_tokens") or call.sent.get("max_tokens")
        call.first.prompt_tokens = len(call.body) + FRAME_TOKENS
        call.first.completion_tokens = most if isinstance(most, int) else call.request["max_tokens"]
        call.first.cost = self.endpoint.cost(call.first.prompt_tokens, call.first.completion_tokens)

    def _learnt(self, call: _Call, error: LlmError) -> bool:
        """Whether what was refused is sent differently from now on, so that it may be sent again at once."""
        groups = tuple(group for group in error.fields if not {*group} & {*self._options})
        before = call.body
        self._word(call)
        if call.body == before:  # else another call has learnt it meanwhile
            learn(self.manner, call.sent, groups, error.starved)
            self._word(call)
        if (groups or error.starved) and call.body != before:
            return True
        self._ahead[call.first.purpose].set()
        return False

    async def _attribute(self, call: _Call, error: LlmError) -> None:
        """A refusal without a clear cause is a prompt's if it comes again and the endpoint answers others."""
        probing = call.first.purpose == "probe"
        if not error.unclear or probing or {name for group in error.fields for name in group} & {*call.sent}:
            return
        if self._doubts is None:
            with suppress(TraceError):
                await self.probe()
                self._doubts = 0
        if self._doubts is not None and self._doubts < MOST_DOUBTS:
            error.again = call.doubts < min(AGAIN, self.endpoint.retries)
            self._doubts += not error.again
            call.doubts += 1
            error.code, error.permanent, error.hint = "llm_prompt_refused", True, ""

    async def _until_answered(self, call: _Call) -> Reply:
        """The first call of a purpose goes ahead of the others until it is taken, so that each refusal comes once."""
        first = call.first.purpose not in self._ahead
        taken = self._ahead.setdefault(call.first.purpose, asyncio.Event())
        if not first:
            with suppress(TimeoutError):
                async with asyncio.timeout(AHEAD_SECONDS):
                    await taken.wait()
        self._word(call)
        try:
            once, learnt = partial(self._once, call), partial(self._learnt, call)
            return await until_deadline(self.endpoint, once, self._final, learnt)
        finally:
            taken.set()

    async def _once(self, call: _Call, deadline: float) -> Reply:
        """One exchange within the budget."""
        exchange = replace(call.first, uid=uuid4())
        reserved = await self.budget.reserve(exchange.spent)
        try:
            return await self._booked(call, exchange, deadline)
        finally:
            self.budget.settle(reserved, exchange.spent)

    async def _booked(self, call: _Call, exchange: Exchange, deadline: float) -> Reply:
        """One exchange and its two entries in the ledger."""
        await self.ledger.sent(exchange)
        now = asyncio.get_running_loop().time
        started, reply = now(), None
        try:
            left = seconds_left(self.endpoint, deadline)
            choice, model, usage = completion_of(await self._wire.post(call.body, exchange.uid, left))
            if usage:
                self._bill(exchange, *usage)
            check_model(exchange.model, model, self.endpoint.answers_as)
            data, exchange.unwrapped = object_of(choice, call.schema)
            reply = Reply(data)
            self._doubts = 0
            return reply
        except LlmError as error:
            await self._attribute(call, error)
            exchange.error_code, exchange.error_text = error.code, error.server_text or error.message
            if error.free:
                self._bill(exchange, 0, 0)
            raise
        except asyncio.CancelledError:
            exchange.error_code = "llm_cancelled"
            raise
        finally:
            exchange.seconds = round(now() - started, 3)
            await asyncio.shield(self.ledger.ended(exchange, reply))

    def _bill(self, exchange: Exchange, prompt_tokens: int, completion_tokens: int) -> None:
        exchange.prompt_tokens, exchange.completion_tokens = prompt_tokens, completion_tokens
        exchange.cost = self.endpoint.cost(prompt_tokens, completion_tokens)

    async def _final(self, last: LlmError | None, limiter: Limiter, asked: int) -> LlmError:
        """The error a call ends with. An endpoint that serves nothing stops the run; a prompt that hangs fails alone.

        While everything is refused or silent, a tiny question tells which of the two it is; not so for a call that was
        asked once and told to wait too long.
        """
        error = last or LlmError("asks to slow down (429)", "llm_rate_limited", free=True)
        error.where = self.base_url
        failing = error.code in FAILS and asked > 1
        if not (failing and (self._doubts is None or self._doubts >= MOST_DOUBTS)):
            self._doubts = self._doubts and self._doubts + failing
            if not limiter.shut or error.code not in HINTS:
                return error
        if asked > 1 and not limiter.dead and await self._alive.join("alive", self._lives, bool):
            limiter.reopen()
        elif asked > 1 or error.code == "llm_rate_limited":
            limiter.dead = asked > 1
            error.code, error.hint = "llm_unavailable", (HINTS | FAILS)[error.code]
        return error

    async def _lives(self) -> bool:
        """Whether the endpoint answers a tiny question in three tries. Past the limiter, whose gate is shut."""
        call, now = self._call(TINY, PROBE, "probe", 200), asyncio.get_running_loop().time
        self._word(call)
        for _ in range(3):
            exchange = replace(call.first, uid=uuid4())
            reserved = await self.budget.reserve(exchange.spent)
            try:
                await self._booked(call, exchange, now() + self.endpoint.attempt_timeout)
                return True
            except LlmError as error:
                if not error.again:
                    return True
                await asyncio.sleep(min(error.told or 1.0, GATE_SECONDS))
            finally:
                self.budget.settle(reserved, exchange.spent)
        return False
