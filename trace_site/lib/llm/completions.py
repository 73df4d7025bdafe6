"""Token ids in, token ids out: what a model writes greedily, from any server with vLLM's `/completions`.

In: a prompt as token ids, what may stop it, or the tokens of which the next one is chosen. Out: the tokens, with their
log-probabilities over the whole vocabulary. What an answer lacks of that is an LlmError `llm_bad_answer`; what fails
for the moment is asked again, as in client. The server must take `return_token_ids`, `allowed_token_ids`,
`stop_token_ids` and `logprobs`, and count these before anything is masked.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from trace_site.lib.errors import cut
from trace_site.lib.files import strict_json
from trace_site.lib.llm.client import Wire, check_url, seconds_left, until_deadline
from trace_site.lib.llm.exchange import Endpoint, LlmError, check_model, error_body
from trace_site.lib.llm.limiter import Limiter

MOST_ALLOWED = 1000  # tokens that one question may name: vLLM's runner for GPUs dies of more than 1,024
LIKELIEST = 20  # tokens told of each place: as many as every server allows
NOWHERE = -9999.0  # how a server writes the logarithm of nothing
# a server may have other defaults for these, from the model's generation_config.json
GREEDY = {"temperature": 0, "repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0}
WHOLE = {"skip_special_tokens": False, "include_stop_str_in_output": True, "add_special_tokens": False}
NAMED = {"return_token_ids": True, "return_tokens_as_token_ids": True}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Served:
    """A model that a server offers."""

    name: str
    engine: str  # who says so: vllm, or another word of the server's
    version: str  # empty where it does not tell
    longest: int | None  # tokens of prompt and answer together


@dataclass(slots=True)
class Written:
    """scores: the log-probability of each token. stopped: by a token that stops; else by the number asked for."""

    tokens: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """The likeliest of the allowed tokens. likely: the LIKELIEST of the whole vocabulary with their log-probabilities;
    empty where the server told fewer."""

    token: int
    score: float
    likely: Mapping[int, float]

    @property
    def bound(self) -> float:
        """No allowed token is likelier, of those that are not named here."""
        return min([self.score, *self.likely.values()])


class Completions:
    """One endpoint, for one event loop. hints: what to do, by error code, in place of the words about LLM_BASE_URL."""

    def __init__(self, endpoint: Endpoint, hints: Mapping[str, str] | None = None) -> None:
        self.endpoint = endpoint
        self.hints = hints or {}
        try:
            check_url(endpoint.base_url, endpoint.allowed_hosts)
        except LlmError as error:
            raise self._placed(error) from None
        self._wire = Wire(endpoint)

    async def close(self) -> None:
        await self._wire.close()

    async def served(self) -> list[Served]:
        """What the server offers."""

        async def ask(seconds: float) -> list[Served]:
            rows = _object(await self._wire.get("/models", seconds)).get("data")
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise _lacks("a list of its models")
            version = await self._version(seconds)
            return [_served(row, version) for row in rows]

        return await self._until_deadline(ask)

    async def _version(self, seconds: float) -> str:
        parts = urlsplit(self.endpoint.base_url)
        address = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/').removesuffix('/v1')}/version"))
        try:
            return cut(str(_object(await self._wire.get(address, seconds)).get("version") or ""), 40)
        except LlmError:  # only vLLM and its like have the address
            return ""

    async def write(
        self,
        prompt: Sequence[int],
        most: int,
        stop: Sequence[int],
        heard: Callable[[list[int]], None] | None = None,
    ) -> Written:
        """Up to `most` tokens that the model writes by itself, the one that stops it included. `heard` is told new ones
        as they come; a stream that breaks off is continued where it did."""
        written = Written()

        async def ask(seconds: float) -> Written:
            if written.stopped or len(written.tokens) >= most:
                return written  # it broke off when all was said
            body = self._body([*prompt, *written.tokens], most - len(written.tokens))
            body |= {"stop_token_ids": list(stop), "ignore_eos": True, "logprobs": 0}
            if heard is None:
                return self._read(await self._post(body, seconds))
            await self._wire.stream(_bytes({**body, "stream": True}), seconds, "/completions", listen)
            if not written.stopped and len(written.tokens) < most:
                raise LlmError("cut its stream off", "llm_broken", again=True)
            return written

        def listen(data: str) -> None:
            if data == "[DONE]":
                return
            piece = self._read(_object(data.encode()), ends=False)
            written.tokens += piece.tokens
            written.scores += piece.scores
            written.stopped = written.stopped or piece.stopped
            if piece.tokens and heard is not None:
                heard(piece.tokens)

        answer = await self._until_deadline(ask)
        if not answer.tokens or len(answer.tokens) > most:
            raise self._placed(_lacks(f"1 to {most} tokens"))
        return answer

    async def choose(self, prompt: Sequence[int], allowed: Sequence[int] = ()) -> Chosen:
        """The likeliest token to follow the prompt, of at most MOST_ALLOWED; empty: of all."""
        assert len(allowed) <= MOST_ALLOWED
        body = {**self._body(prompt, 1), "ignore_eos": True, "logprobs": LIKELIEST}
        if allowed:
            body["allowed_token_ids"] = list(allowed)

        async def ask(seconds: float) -> Chosen:
            answer = await self._post(body, seconds)
            found = self._read(answer)
            if len(found.tokens) != 1 or (allowed and found.tokens[0] not in allowed):
                raise _lacks("one of the allowed tokens (allowed_token_ids)")
            return Chosen(found.tokens[0], found.scores[0], _likely(answer))

        return await self._until_deadline(ask)

    def _body(self, prompt: Sequence[int], most: int) -> dict[str, Any]:
        asked = {"model": self.endpoint.model, "prompt": list(prompt), "max_tokens": most}
        return {**asked, **GREEDY, **WHOLE, **NAMED}

    async def _post(self, body: dict[str, Any], seconds: float) -> dict[str, Any]:
        return _object(await self._wire.post(_bytes(body), uuid4(), seconds, "/completions"))

    def _read(self, answer: dict[str, Any], ends: bool = True) -> Written:
        """The tokens of an answer, or of one event of a stream (ends: False)."""
        if isinstance(answer.get("model"), str):
            check_model(self.endpoint.model, answer["model"])
        choices = answer.get("choices")
        if not isinstance(choices, list):
            raise _lacks("a completion")
        if not choices and not ends:
            return Written()  # an event about usage
        choice = choices[0] if choices and isinstance(choices[0], dict) else {}
        tokens: Any = choice.get("token_ids")
        scores: Any = (choice.get("logprobs") or {}).get("token_logprobs")
        reason = choice.get("finish_reason")
        if tokens is None and not ends and reason:
            return Written(stopped=reason == "stop")
        if not _are((int,), tokens):
            raise _lacks("token ids (return_token_ids)")
        if not tokens and not ends:
            return Written(stopped=reason == "stop")
        if not _are((int, float), scores) or len(scores) != len(tokens):
            raise _lacks("the log-probability of each token (logprobs)")
        if ends and reason not in ("stop", "length"):
            raise LlmError(f"ended its answer as {cut(str(reason), 40)!r}", "llm_broken", again=True)
        return Written(tokens, [float(score) for score in scores], reason == "stop")

    async def _until_deadline(self, ask: Callable[[float], Awaitable[T]]) -> T:
        """`ask` is told how many seconds one exchange may take."""
        endpoint = self.endpoint
        return await until_deadline(
            endpoint, lambda deadline: ask(seconds_left(endpoint, deadline)), self._final
        )

    async def _final(self, last: LlmError | None, limiter: Limiter, asked: int) -> LlmError:
        return self._placed(last or LlmError("takes nothing more", "llm_timeout", free=True))

    def _placed(self, error: LlmError) -> LlmError:
        error.where, error.hint = self.endpoint.base_url, self.hints.get(error.code, error.hint)
        return error


def _bytes(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _object(body: bytes) -> dict[str, Any]:
    text = body.decode("utf-8", "replace")
    try:
        found = strict_json(text)
    except (ValueError, RecursionError):
        raise LlmError("did not answer in whole JSON", "llm_not_json", again=True) from None
    if not isinstance(found, dict):
        raise LlmError("did not answer with an object", "llm_not_json", again=True)
    if found.get("error") and not found.get("choices"):
        raise error_body(found["error"])
    return found


def _served(row: dict[str, Any], version: str) -> Served:
    longest = row.get("max_model_len")
    engine = cut(str(row.get("owned_by") or ""), 40)
    return Served(str(row.get("id")), engine, version, longest if isinstance(longest, int) else None)


def _likely(answer: dict[str, Any]) -> dict[int, float]:
    """All or none: a server that tells fewer has mixed them up with those of another request."""
    places = answer["choices"][0]["logprobs"].get("top_logprobs")
    told = places[0] if isinstance(places, list) and places and isinstance(places[0], dict) else {}
    found = {
        int(name.removeprefix("token_id:")): float(score)
        for name, score in told.items()
        if name.removeprefix("token_id:").isdecimal() and isinstance(score, (int, float)) and score > NOWHERE
    }
    best = sorted(found.items(), key=lambda pair: -pair[1])[:LIKELIEST]
    return dict(best) if len(best) == LIKELIEST else {}


def _are(kinds: tuple[type, ...], values: Any) -> bool:
    return isinstance(values, list) and all(type(one) in kinds for one in values)


def _lacks(what: str) -> LlmError:
    return LlmError(f"did not answer with {what}", "llm_bad_answer")
