"""A client for any OpenAI-compatible chat endpoint that answers in JSON.

In: messages, a JSON schema, a model. Out: a validated object, or a TraceError whose code says what went wrong:
llm_timeout, llm_unreachable, llm_rate_limited, llm_server_error, llm_unauthorized, llm_bad_request, llm_not_json,
llm_truncated, llm_refused, llm_empty, llm_bad_schema, llm_too_large. A truncated answer is a failed attempt, it is
never repaired. Calls are bounded in number and in total time, 429 honours Retry-After. A ledger hears of every
exchange before it is sent and before its answer is used; what it keeps by content key is not paid twice.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

import httpx2 as httpx
import jsonschema
import openai

from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, storable

MAX_ANSWER_CHARS = 200_000
# failures of the endpoint or its settings: going on with the next sample would fail the same way
FATAL = frozenset({"llm_unreachable", "llm_unauthorized", "llm_bad_request", "llm_not_configured"})

COMPLETION = {
    "type": "object",
    "properties": {
        "choices": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"message": {"type": "object"}},
                "required": ["message"],
            },
        },
        "usage": {
            "type": ["object", "null"],
            "properties": dict.fromkeys(
                ("prompt_tokens", "completion_tokens"), {"type": ["integer", "null"], "minimum": 0}
            ),
        },
    },
    "required": ["choices"],
}

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one role's model is served, and what it may take.

    timeout: seconds of one call in all, waiting and retries included; attempt_timeout: of one HTTP exchange.
    concurrency: most exchanges in flight. Prices are per million tokens.
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


@dataclass(frozen=True, slots=True)
class Reply:
    """A validated answer and what it cost; `cached` ones, and those `shared` with an equal request, cost nothing now."""

    data: dict[str, Any]
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    cached: bool = False
    shared: bool = False


@dataclass(slots=True)
class Exchange:
    """One HTTP request and how it ended: a row of the ledger."""

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


class Client:
    """One endpoint, for one event loop."""

    def __init__(self, endpoint: Endpoint, *, ledger: Ledger | None = None) -> None:
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
        self.ledger = ledger or NoLedger()
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._not_before = 0.0
        # our own loop retries: it knows the total deadline and every form of Retry-After
        self._client = openai.AsyncOpenAI(
            base_url=endpoint.base_url, api_key=endpoint.api_key or "none", max_retries=0
        )

    async def close(self) -> None:
        await self._client.close()

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
        """The answer to one prompt, from the ledger when the same was asked before."""
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
        key = content_hash(request)
        if (kept := await self.ledger.kept(key)) is not None:
            return Reply(kept, self.endpoint.model, cached=True)
        async with self._slots:
            return await self._until_deadline(
                request, schema, Exchange(key, purpose, self.base_url, self.endpoint.model, prompt_hash)
            )

    async def probe(self) -> None:
        """One tiny call before work starts; raises TraceError when the endpoint cannot serve."""
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
        request = [{"role": "user", "content": 'Answer with {"ok": true}.'}]
        kept, self.ledger = self.ledger, NoLedger()
        try:
            await self.ask(request, schema=schema, purpose="probe", max_tokens=200)
        except TraceError as error:
            if error.code in FATAL | {"llm_timeout"}:
                raise
        finally:
            self.ledger = kept

    async def _until_deadline(
        self, request: dict[str, Any], schema: dict[str, Any], first: Exchange
    ) -> Reply:
        deadline = time.monotonic() + self.endpoint.timeout
        for attempt in range(self.endpoint.retries + 1):
            wait = min(self._not_before, deadline) - time.monotonic()
            if wait > 0:  # a 429 seen by one call makes all calls wait
                await asyncio.sleep(wait)
            try:
                return await self._once(request, schema, replace(first, uid=uuid.uuid4()), deadline)
            except TraceError as error:
                pause = error.extra.get("retry_after")
                if pause is None or attempt == self.endpoint.retries:
                    raise
                await self._back_off(
                    error, min(pause * 2**attempt, 30.0) if error.extra["guess"] else pause, deadline
                )
        raise AssertionError("the loop returns or raises")

    async def _back_off(self, error: TraceError, pause: float, deadline: float) -> None:
        if time.monotonic() + pause >= deadline:
            raise error
        if error.code == "llm_rate_limited":
            self._not_before = max(self._not_before, time.monotonic() + pause)
        else:
            await asyncio.sleep(pause)

    async def _once(
        self, request: dict[str, Any], schema: dict[str, Any], exchange: Exchange, deadline: float
    ) -> Reply:
        await self.ledger.sent(exchange)
        started = time.monotonic()
        reply = None
        try:
            reply = await self._exchanged(
                request, schema, exchange, min(self.endpoint.attempt_timeout, deadline - started)
            )
            return reply
        except TraceError as error:
            exchange.error_code = error.code
            raise
        finally:
            exchange.seconds = round(time.monotonic() - started, 3)
            await self.ledger.ended(exchange, reply)

    async def _exchanged(
        self, request: dict[str, Any], schema: dict[str, Any], exchange: Exchange, left: float
    ) -> Reply:
        try:
            async with asyncio.timeout(max(0.1, left)):
                text = await self._body(request, exchange.uid)
        except (TimeoutError, openai.APITimeoutError, httpx.TimeoutException) as error:
            raise self._error("did not answer in time", "llm_timeout") from error
        except openai.APIConnectionError as error:
            raise self._error("cannot be reached", "llm_unreachable", retry=0.5) from error
        except openai.APIStatusError as error:
            raise self._status_error(error) from error
        except (openai.APIError, httpx.HTTPError) as error:
            raise self._error("broke off its answer", "llm_server_error", retry=0.5) from error
        data, usage = self._parse(text, schema)
        exchange.prompt_tokens = int(usage.get("prompt_tokens") or 0)
        exchange.completion_tokens = int(usage.get("completion_tokens") or 0)
        price = self.endpoint
        exchange.cost = (
            exchange.prompt_tokens * price.price_in + exchange.completion_tokens * price.price_out
        ) / 1e6
        return Reply(data, request["model"], exchange.prompt_tokens, exchange.completion_tokens)

    async def _body(self, request: dict[str, Any], uid: uuid.UUID) -> str:
        """The raw body, read piece by piece: floods meet the cap."""
        create = self._client.chat.completions.with_streaming_response.create
        pieces: list[bytes] = []
        size = 0
        sent = {key: value for key, value in request.items() if value is not None}
        async with create(**sent, extra_headers={"X-Client-Request-Id": str(uid)}) as response:
            async for piece in response.iter_bytes():
                pieces.append(piece)
                size += len(piece)
                if size > MAX_ANSWER_CHARS:
                    raise self._error(f"sent more than {MAX_ANSWER_CHARS:,} bytes", "llm_too_large")
        return b"".join(pieces).decode("utf-8", "replace")

    def _parse(self, text: str, schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            body = json.loads(text)
            jsonschema.validate(body, COMPLETION)
        except (ValueError, RecursionError, jsonschema.ValidationError) as error:
            found = "an HTML page" if text.lstrip()[:1] == "<" else "no chat completion"
            raise self._error(f"answered with {found}", "llm_not_json", retry=0.5) from error
        choice = body["choices"][0]
        message = choice["message"]
        if message.get("refusal"):
            raise self._error(f"refused ({str(message['refusal'])[:80]})", "llm_refused")
        if choice.get("finish_reason") == "length":
            raise self._error("stopped at its length limit", "llm_truncated")
        content = message.get("content")
        if not isinstance(content, str) or not content.strip():
            raise self._error("gave an empty answer", "llm_empty")
        try:
            data = json.loads(content, object_pairs_hook=_no_duplicates)
            jsonschema.validate(data, schema)
        except (ValueError, RecursionError) as error:
            raise self._error(f"did not answer in valid JSON ({str(error)[:60]})", "llm_not_json") from error
        except jsonschema.ValidationError as error:
            raise self._error(
                f"answered outside the schema ({error.message[:80]})", "llm_bad_schema"
            ) from error
        if not storable(data):
            raise self._error("put characters no database stores into its answer", "llm_not_json")
        return data, body.get("usage") or {}

    def _status_error(self, error: openai.APIStatusError) -> TraceError:
        status = error.status_code
        if status == 429:
            stated = retry_after(error.response.headers.get("retry-after"))
            pause = 1.0 if stated is None else stated
            return self._error(
                "asks to slow down (429)", "llm_rate_limited", retry=pause, guess=stated is None
            )
        if status in (401, 403):
            return self._error(f"refused the key ({status})", "llm_unauthorized", hint="Check LLM_API_KEY.")
        if status >= 500 or status == 408:
            return self._error(f"failed ({status})", "llm_server_error", retry=0.5)
        hint = "Check the model's name and LLM_BASE_URL."
        return self._error(f"refused the request ({status})", "llm_bad_request", hint=hint)

    def _error(
        self, what: str, code: str, *, hint: str = "", retry: float | None = None, guess: bool = True
    ) -> TraceError:
        if code == "llm_unreachable":
            hint = "Check LLM_BASE_URL and that the server is up, or use --writer offline."
        extra = {} if retry is None else {"retry_after": retry, "guess": guess}
        message = f"the language-model endpoint {what}."
        return TraceError(message, code=code, where=self.base_url, hint=hint, extra=extra)


def retry_after(header: str | None) -> float | None:
    """Seconds from a Retry-After header, in seconds or as an HTTP date; None when absent or unreadable."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice")
    return found
