"""What is asked of an endpoint, what comes back, and the ledger that hears of both.

An answer is read into a validated object, or into an LlmError that says what it was instead, in the server's own words
where it has some. Wrapping is taken off (see dialects); nothing else is repaired.
Codes of the envelope: llm_not_json (HTML, an event stream, anything but a completion), llm_broken, llm_wrong_model.
Of what the model wrote: llm_truncated, llm_refused, llm_content_filter, llm_empty, llm_bad_json (doubled keys and NaN
among it), llm_bad_schema. By status: llm_rate_limited, llm_quota, llm_unauthorized, llm_server_error, llm_too_long,
llm_prompt_refused, llm_bad_request.
"""

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jsonschema

from trace_site.lib.errors import TraceError
from trace_site.lib.files import storable_json, strict_json
from trace_site.lib.letters import entered_all
from trace_site.lib.llm.dialects import (
    BUSY,
    QUOTA,
    WRONG_KEY,
    Groups,
    is_prompt_refused,
    is_too_long,
    numbers_of,
    refused_fields,
    server_text,
    text_of,
    unwrapped,
    without_thinking,
)
from trace_site.lib.llm.limiter import Spent, told_to_wait

Message = dict[str, str]

# failures of the endpoint, its settings or the budget: going on with the next sample would fail the same way
FATAL = frozenset(
    {"llm_not_configured", "llm_host_refused", "llm_unreachable", "llm_unauthorized", "llm_bad_request"}
    | {"llm_quota", "llm_unavailable", "llm_wrong_model", "llm_budget", "llm_all_alike"}
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
    allowed_hosts: where the endpoint may be; () for the host of base_url alone. options: JSON of an object whose fields
    replace those of every request, null leaves one out.
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
    options: str = ""

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (prompt_tokens * self.price_in + completion_tokens * self.price_out) / 1e6


@dataclass(frozen=True, slots=True)
class Reply:
    """A validated answer. One `cached` was kept in the ledger, one `shared` is paid for by another call."""

    data: dict[str, Any]
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
    error_text: str = ""  # the server's own sentence, or what its answer was instead
    unwrapped: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    @property
    def spent(self) -> Spent:
        return Spent(1, self.prompt_tokens + self.completion_tokens, self.cost)


class Ledger:
    """The books of what was asked and paid; its replies by content key are the cache. This one keeps nothing."""

    async def kept(self, key: str) -> dict[str, Any] | None:
        """The answer to an equal request, if it was ever paid for."""
        return None

    async def sent(self, exchange: Exchange) -> None:
        """Called before the request leaves; returns once the row is committed."""

    async def ended(self, exchange: Exchange, reply: Reply | None) -> None:
        """Called before the answer is used (None: it failed); returns once row and reply are committed."""


class LlmError(TraceError):
    """An exchange that gave no answer.

    again: another exchange may go better. refused: the endpoint takes no more just now. told: seconds it asks to wait.
    free: it surely was not billed. permanent: the same prompt will fail again, others need not. server_text: what the
    server says of it. fields: the fields of the request that it names. starved: the length limit cut the
    answer or its thinking. unclear: unless such a field was sent, it may be the prompt's fault or the endpoint's.
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
        server_text: str = "",
        fields: Groups = (),
        starved: bool = False,
        unclear: bool = False,
    ) -> None:
        extra = {} if told is None else {"retry_after": told}
        message = f"the language-model endpoint {what}{f': “{server_text}”' if server_text else '.'}"
        super().__init__(message, code=code, hint=hint, extra=extra, permanent=permanent)
        self.again = again
        self.refused = refused
        self.told = told
        self.free = free
        self.server_text = server_text
        self.fields = fields
        self.starved = starved
        self.unclear = unclear


# Reading what came back.

# how a choice ends that the server broke off, and one that it kept back
BROKEN_OFF = ("error", "abort", "insufficient_system_resource", "network_error")
KEPT_BACK = ("content_filter", "safety", "sensitive", "prohibited_content", "blocklist", "recitation")
MOST_TOKENS = 2**31 - 1
CHOICE = {"type": "object", "properties": {"message": {"type": "object"}}, "required": ["message"]}
FIELDS = {
    "model": {"type": ["string", "null"]},
    "choices": {"type": "array", "minItems": 1, "items": CHOICE},
}
COUNT = {"type": "integer", "minimum": 0, "maximum": MOST_TOKENS}
COUNTS = {"prompt_tokens": COUNT, "completion_tokens": COUNT}
USAGE = json.dumps({"type": "object", "properties": COUNTS, "required": list(COUNTS)})
COMPLETION = json.dumps({"type": "object", "properties": FIELDS, "required": ["choices"]})
# what may follow a model's name when the same model tells its version: -2026-01, -20260131, @001, :latest, -v2, ...
VERSION = re.compile(r"([-@:_.](\d{3,8}|20\d\d-\d\d(-\d\d)?|v\d+(\.\d+)*|latest|preview))+")
OVERLOADED = frozenset({429, 503, 529})


Check = Callable[[Any], jsonschema.ValidationError | None]


@lru_cache(maxsize=64)
def validator(schema: str) -> Check:
    """The first error of a value under a schema (JSON text), or None."""
    parsed = json.loads(schema)
    kind = jsonschema.validators.validator_for(parsed)
    kind.check_schema(parsed)
    compiled = kind(parsed)
    return lambda value: next(compiled.iter_errors(value), None)


def completion_of(body: bytes) -> tuple[dict[str, Any], str, tuple[int, int] | None]:
    """The completion in the body of a 200: (its choice, its model, tokens of prompt and answer where it tells them)."""
    text = body.decode("utf-8-sig", "replace")
    try:
        envelope = strict_json(text)
    except json.JSONDecodeError as error:
        if text.lstrip()[:1] == "{" and _cut(error):
            raise LlmError("cut its answer off", "llm_broken", again=True) from None
        raise _no_completion(text) from None
    except (ValueError, RecursionError):
        raise _no_completion(text) from None
    if isinstance(envelope, dict) and envelope.get("error"):
        raise error_body(envelope["error"])
    if validator(COMPLETION)(envelope) is not None:
        raise _no_completion(text)
    usage = validator(USAGE)(envelope.get("usage")) is None and envelope["usage"]
    tokens = (int(usage["prompt_tokens"]), int(usage["completion_tokens"])) if usage else None
    return envelope["choices"][0], str(envelope.get("model") or ""), tokens


def object_of(choice: dict[str, Any], schema: str) -> tuple[dict[str, Any], bool]:
    """The object that the model wrote, valid under `schema` (JSON text), and whether a wrapping was taken off."""
    content, apart = _content(choice)
    check = validator(schema)

    def right(text: str) -> tuple[dict[str, Any], bool] | None:
        """The object that a text is, and whether its numbers were texts."""
        try:
            data = strict_json(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(data, dict):
            return right(data) if isinstance(data, str) else None
        if check(data) is None:
            return data, text is not content
        counted = numbers_of(data, json.loads(schema))
        return (counted, True) if check(counted) is None else None

    try:
        data, changed = right(content) or (unwrapped(content, right)[0], True)
    except (ValueError, RecursionError) as error:
        if _ended_early(choice):
            raise _truncated("stopped at its length limit") from None
        raise _not_right(content, check, error) from None
    if not storable_json(data, content):
        raise LlmError("put characters no database stores into its answer", "llm_bad_json")
    return entered_all(data), changed or apart


def _truncated(what: str) -> LlmError:
    return LlmError(what, "llm_truncated", hint="Raise max_tokens of its stage in the recipe.", starved=True)


def _not_right(content: str, check: Check, error: Exception) -> LlmError:
    """What is wrong with the text of an answer."""
    try:
        wrong = check(strict_json(content))
        said = wrong.message if wrong else str(error)
        return LlmError(f"answered outside the schema ({said[:80]})", "llm_bad_schema")
    except json.JSONDecodeError as broken:
        reason = broken.msg
    except (ValueError, RecursionError) as broken:
        reason = str(broken)
    try:
        json.JSONDecoder().raw_decode(content, max(0, content.find("{")))
    except json.JSONDecodeError as broken:
        if _cut(broken):
            return _truncated("cut its JSON off")
    except RecursionError:
        pass
    return LlmError(f"did not answer in valid JSON ({reason[:60]})", "llm_bad_json")


def check_model(asked: str, found: str, answers_as: tuple[str, ...] = ()) -> None:
    """The model that answered must be the one asked for: by name, by a dated form of it, or as the settings say."""
    if not found or "*" in answers_as or found in answers_as or _same_model(asked, found):
        return
    raise LlmError(
        f"answered with the model {found[:60]!r} instead of {asked[:60]!r}",
        "llm_wrong_model",
        hint="If that is its other name, put it into LLM_<ROLE>_ANSWERS_AS.",
        again=True,
    )


def status_error(status: int, headers: Mapping[str, str], body: str) -> LlmError:
    """What an HTTP status other than 200 means."""
    said = server_text(body)
    facts: dict[str, Any] = {"free": True, "server_text": said}
    if status == 402 or (status in (400, 403, 429) and QUOTA.search(body)):
        hint = "Raise the quota of its account, then retry the job."
        return LlmError(f"says its quota is used up ({status})", "llm_quota", hint=hint, **facts)
    if is_too_long(status, body):
        return LlmError(f"found the prompt too long ({status})", "llm_too_long", permanent=True, **facts)
    if is_prompt_refused(status, body):
        return LlmError(f"refused this prompt ({status})", "llm_prompt_refused", permanent=True, **facts)
    fields = refused_fields(status, body)
    if status in (401, 403) and not fields:
        return LlmError(f"refused the key ({status})", "llm_unauthorized", hint="Check LLM_API_KEY.", **facts)
    if not fields and (status in (408, 409, 424, 425, 429) or status >= 500 or BUSY.search(said)):
        code = "llm_rate_limited" if status == 429 else "llm_server_error"
        what = "asks to slow down (429)" if status == 429 else f"failed ({status})"
        return LlmError(
            what, code, again=True, refused=status in OVERLOADED, told=told_to_wait(headers), **facts
        )
    what = "answered with a redirect" if 300 <= status < 400 else "refused the request"
    hint = "Check the model's name and LLM_BASE_URL."
    hint = "LLM_<ROLE>_OPTIONS leaves fields out or sets them." if fields else hint
    facts |= {"free": status >= 300, "fields": fields, "unclear": status in (400, 406, 415, 422)}
    return LlmError(f"{what} ({status})", "llm_bad_request", hint=hint, **facts)


def _ended_early(choice: dict[str, Any]) -> bool:
    return bool(re.search("length|max_", str(choice.get("finish_reason")).lower()))


def _content(choice: dict[str, Any]) -> tuple[str, bool]:
    """The text of an answer, and whether it stood elsewhere than in a content that is one."""
    message, finish = choice["message"], str(choice.get("finish_reason")).lower()
    if choice.get("error") or finish in BROKEN_OFF:
        raise error_body(choice.get("error"))
    if message.get("refusal"):
        raise LlmError(f"refused ({str(message['refusal'])[:80]})", "llm_refused")
    if finish in KEPT_BACK:
        raise LlmError("kept its answer back by a content filter", "llm_content_filter")
    content = message.get("content")
    text = text_of(content)
    thought = str(message.get("reasoning_content") or message.get("reasoning") or "")
    if not text.strip():  # the call of a tool that nobody offered, an answer that is taken for thinking
        calls = message.get("tool_calls") or [message.get("function_call")]
        text = text_of(calls[0]) if isinstance(calls, list) and len(calls) == 1 else ""
        text = text or (thought if thought.lstrip()[:1] == "{" else "")
    if without_thinking(text).strip():
        return text, text != content
    if _ended_early(choice):
        raise _truncated("stopped at its length limit")
    raise LlmError("gave an empty answer", "llm_empty", starved=bool(text.strip() or thought))


def error_body(error: Any) -> LlmError:
    """Some gateways send their errors with status 200, for the whole or for one choice."""
    body = json.dumps(error, ensure_ascii=False)
    code = error.get("code") if isinstance(error, dict) else None
    if re.fullmatch(r"[45]\d\d", str(code)):
        found = status_error(int(str(code)), {}, body)
        if found.fields or not found.unclear:
            return found
    if QUOTA.search(body) or WRONG_KEY.search(body):
        return status_error(402 if QUOTA.search(body) else 401, {}, body)
    if is_too_long(400, body) or is_prompt_refused(400, body) or refused_fields(400, body):
        return status_error(400, {}, body)
    what = "answered with an error in place of a completion"
    return LlmError(what, "llm_server_error", again=True, server_text=server_text(body))


def _no_completion(text: str) -> LlmError:
    start = text.lstrip()[:20]
    if start[:1] == "<":
        found = "an HTML page"
    elif start.startswith(("data:", "event:", ": ", "id:")):
        found = "an event stream, which was not asked for"
    else:
        found = "no chat completion" if start else "nothing at all"
    if start[:1] == "{" and is_prompt_refused(400, text):
        return status_error(400, {}, text)
    said = server_text(text) if start[:1] == "{" else ""
    return LlmError(f"answered with {found}", "llm_not_json", again=True, server_text=said)


def _same_model(asked: str, found: str) -> bool:
    asked, found = asked.casefold(), found.casefold()
    if "/" not in asked or "/" not in found:  # gateways add or drop the vendor
        asked, found = asked.rpartition("/")[2], found.rpartition("/")[2]
    asked = re.sub(r"[-:]latest$", "", asked)
    return found == asked or (found.startswith(asked) and bool(VERSION.fullmatch(found[len(asked) :])))


def _cut(error: json.JSONDecodeError) -> bool:
    """Whether a JSON text is wrong because it ends too early."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(error.doc.rstrip())
