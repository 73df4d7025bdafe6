"""How servers and models differ: the fields they take, the words in which they refuse, the wrapping of their answers.

A field that is refused by name is renamed, put in a simpler form, or left out, in this order, for the rest of the
process; an answer that thinking kept from coming gets more room. Wrapping is taken off, never mended: what stands
inside is read as it is.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from trace_site.lib.errors import cut

# What one server and model take: {field: its other name, or "" where it is left out}; `response_format` has its simpler
# form, and LEAST the tokens that an answer gets at least.

Manner = dict[str, Any]
Groups = tuple[tuple[str, ...], ...]  # of fields; of each group one is at fault
LIMITS = ("max_tokens", "max_completion_tokens")
LEAST = "least_tokens"
ROOMS = (4_000, 16_000, 32_000)
OTHER_NAMES = {"max_tokens": "max_completion_tokens", "seed": "random_seed"}
# the fields that a server may do without; `plain` for one that refuses and does not say what
PLAIN = dict.fromkeys(("max_tokens", "temperature", "seed", "response_format"), "")
AS_TEXT = "\n\nAnswer with one JSON object and nothing else. It must be valid under this JSON schema:\n"


@cache
def manner_of(base_url: str, model: str, options: str) -> Manner:
    """Empty at first; the same object for the rest of the process."""
    return {}


def worded(manner: Manner, request: dict[str, Any], schema: str) -> dict[str, Any]:
    """The request as the server takes it. What response_format cannot say stands in the last message."""
    sent: dict[str, Any] = {}
    for name, value in request.items():
        while name != "response_format" and (other := manner.get(name)) is not None:
            name = other
        if name:
            sent[name] = max(value, manner.get(LEAST, 0)) if name in LIMITS else value
    if (form := manner.get("response_format")) is not None:
        *before, last = request["messages"]
        sent["messages"] = [*before, {**last, "content": last["content"] + AS_TEXT + schema}]
        del sent["response_format"]
        sent |= {"response_format": {"type": form}} if form else {}
    return sent


def learn(manner: Manner, sent: dict[str, Any], groups: Groups, starved: bool) -> None:
    """Take note of a refusal of what was sent, or of an answer that the limit cut. The first of each group counts."""
    limit = next((name for name in LIMITS if name in sent), "")  # refused under either name
    if starved and limit:
        manner[LEAST] = next((room for room in ROOMS if room > sent[limit]), sent[limit])
    for fields in groups:
        name = next((name for name in fields if name in sent), limit if set(fields) & set(LIMITS) else "")
        if name == "response_format":
            manner[name] = "" if name in manner else "json_object"
        elif name:
            other = OTHER_NAMES.get(name, "")
            # a limit goes by two names everywhere; another name is tried where the server says it
            manner[name] = other if other in ("max_completion_tokens", *fields) else ""


# Whose fault a refusal is, by the words of servers: a prompt that does not fit, one that they will not answer, an empty
# account, a rush, or a field of the request.

TOO_LONG = re.compile(
    r"context[_ ](length|size|window)|max_model_len|maximum (input|prompt)|input (length|token)|above_max_length"
    r"|(prompt|input|request|messages) (is |are )?too (long|large)|too many (input |prompt )?tokens"
    r"|exceeds? [^.]{0,40}tokens?\b|tokens? [^.]{0,40}exceeds?\b|inputs?\W+tokens \+",
    re.I,
)
# the limit is too high, not the prompt too long
LIMIT_HIGH = re.compile(
    r"max_(completion_)?tokens\W[^.]{0,60}(too (large|high|big)|at most|less than|range|exceed)", re.I
)
PROMPT_REFUSED = re.compile(
    r"content[_ ]?(filter|policy|management|exists risk)|responsible_?ai|moderation|flagged|guardrail|jailbreak"
    r"|data_?inspection|inappropriate|sensitive (content|word|information)|prohibited[_ ]content|(usage|safety) polic"
    r"|policy[_ ]violation|violat\w+ [^.]{0,40}polic|unsafe|safety (system|filter|check)|unsupported[_ ]language"
    r"|language[^.]{0,30}not supported|(refused|rejected|blocked) th(is|e) prompt",
    re.I,
)
# the same, unless a field of the request is named
REFUSED = re.compile(
    r"(prompt|request|input|content|filter)[^.]{0,20} (refused|rejected|blocked|triggered)", re.I
)
QUOTA = re.compile(
    r"insufficient[_ ](quota|balance|funds|credit)|out of credit|credit balance|billing|arrear|payment required",
    re.I,
)
WRONG_KEY = re.compile(
    r"(invalid|incorrect|wrong|missing)[_ ]api[_ ]?key|unauthori[sz]ed|authentication", re.I
)
BUSY = re.compile(r"overloaded|temporarily|try again|loading model|model is loading", re.I)
NOT_TAKEN = re.compile(
    r"support|invalid|unknown|unrecogni|unexpected|parse|implement|permitted|allowed|combined", re.I
)
FIELDS = {
    "max_tokens": r"max[_ ]?((new|output)[_ ]?)?tokens",
    "max_completion_tokens": r"max[_ ]?completion[_ ]?tokens",
    "temperature": r"temperature",
    "seed": r"(?<!random_)\bseed\b",
    "random_seed": r"random_?seed",
    "response_format": r"response.?format|json.(object|mode|validate)|generate json|structured.?output|guided|grammar"
    r"|(\b|_)schema|\bstrict\b",
}
LONGEST_TEXT = 200
MARKUP = re.compile(r"<(script|style|title)\b.*?</\1>|<[^>]*>", re.S | re.I)
SECRET = re.compile(r"\bbearer\s+\S+|\b(sk|pk|key|api)[-_][\w*-]{6,}|(?=\S*\d)(?=\S*[a-z])[\w*-]{24,}", re.I)


def is_too_long(status: int, body: str) -> bool:
    """Whether the prompt does not fit: others may."""
    if status in (400, 422, 500):
        return bool(TOO_LONG.search(body)) and not LIMIT_HIGH.search(body)
    return status == 413 or (status == 429 and "too large" in server_text(body))


def is_prompt_refused(status: int, body: str) -> bool:
    """Whether the server will not answer this prompt: a filter, a policy, a language."""
    if status in (400, 403, 422):
        refused = REFUSED.search(body) and not refused_fields(status, body)
        return bool(PROMPT_REFUSED.search(body) or refused)
    return status == 451


def refused_fields(status: int, body: str) -> Groups:
    """The fields of the request that a refusal names: each that its data point at, else one of those in its words."""
    if status not in (400, 403, 404, 405, 406, 409, 415, 422, 500, 501):
        return ()
    found = _json(body)
    if pointed := _named(" ".join(_pointed(found))):
        return tuple((name,) for name in pointed)
    text = server_text(body, most=1000)
    if status in (403, 409, 500, 501) and not NOT_TAKEN.search(text):
        return ()
    named = _named(text) or _named(body[:2_000] if found is None else " ".join(_words(found)))
    return (named,) if named else ()


def _named(text: str) -> tuple[str, ...]:
    """The fields that a text names, in its order."""
    places = {name: found.start() for name, of in FIELDS.items() if (found := re.search(of, text, re.I))}
    return tuple(sorted(places, key=lambda name: places[name]))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _pointed(value: Any) -> list[str]:
    """What `param`, `loc` and their like point at, wherever they stand."""
    if isinstance(value, list):
        return [name for one in value for name in _pointed(one)]
    if not isinstance(value, dict):
        return []
    own = [str(value[name]) for name in ("param", "loc", "field", "pointer", "keys") if value.get(name)]
    return own + [name for one in value.values() for name in _pointed(one)]


def _words(value: Any) -> list[str]:
    """Every text of a body and every name in it, but for the request that some repeat."""
    if isinstance(value, list):
        return [word for one in value for word in _words(one)]
    if not isinstance(value, dict):
        return [value] if isinstance(value, str) else []
    if "messages" in value:
        return []
    return [word for name, one in value.items() for word in (name, *_words(one))]


def server_text(body: str, most: int = LONGEST_TEXT) -> str:
    """The sentence in the body of an error, without what looks like a key, cut to `most` characters."""
    found = _json(body)
    text = _sentence(found) if found is not None else MARKUP.sub(" ", body) if body[:1] not in "{[" else ""
    text = SECRET.sub("…", "".join(char if char.isprintable() else " " for char in text[:2_000]))
    return cut(" ".join(text.split()), most)


def _sentence(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(filter(None, map(_sentence, value)))
    if isinstance(value, str) and value[:1] == "{":  # another server's, passed on as it came
        return _sentence(_json(value)) or value
    if not isinstance(value, dict):
        return value if isinstance(value, str) else ""
    if isinstance(value.get("msg"), str):
        place = value.get("loc")
        where = f"{'.'.join(map(str, place))}: " if isinstance(place, list) else ""
        return f"{where}{value['msg']}"
    for names in (("error", "message", "detail", "errors", "issues", "metadata", "raw"), ("title", "code")):
        if parts := dict.fromkeys(filter(None, (_sentence(value.get(name)) for name in names))):
            return "; ".join(parts)
    deep = {name: _sentence(one) for name, one in value.items() if isinstance(one, list | dict)}
    return "; ".join(f"{name}: {text}" for name, text in deep.items() if text)


# What stands around a right answer: parts, thinking in front, one fence, a sentence, quotes around whole numbers.


def text_of(content: Any) -> str:
    """The text of an answer, whatever holds it, without the parts that are thinking."""
    if isinstance(content, list):
        return "".join(map(text_of, content))
    if not isinstance(content, dict):
        return content if isinstance(content, str) else ""
    if content.get("thought") or re.search("think|reason|refus", str(content.get("type"))):
        return ""
    inner = next((content[name] for name in INNER if content.get(name)), None)
    return text_of(inner) if inner else json.dumps(content, ensure_ascii=False)


INNER = ("text", "value", "content", "parts", "json", "input", "function", "arguments")
TAG = r"(?:think|thinking|thought|reasoning|reflection|analysis|scratchpad)"
THINKING = re.compile(
    rf"\s*[<\[◁]\|?(?P<tag>(?:\w+:)?{TAG})\b[^<>\[\]▷]{{0,40}}[>\]▷].*?(?:[<\[◁]\|?/(?P=tag)\|?[>\]▷]|\Z)",
    re.S | re.I,
)
# where the opening mark was part of the prompt, and the channels of models that have those
LAST_MARK = re.compile(rf".*(?:[<\[]/{TAG}[>\]]|<\|(?:message|end_of_thought)\|>)", re.S | re.I)
FENCE = re.compile(r"(?:```|~~~)[\w-]*\s*\n?(.*?)(?:```|~~~)", re.S)
WHOLE = re.compile(r"\s*([+-]?\d{1,9})(\.0+)?\s*")
MOST_STARTS = 100  # braces that may begin an object


def without_thinking(text: str) -> str:
    """What follows the thinking in front of an answer; empty where nothing does."""
    while found := THINKING.match(text):
        text = text[found.end() :]
    return text


def unwrapped(text: str, right: Callable[[str], Any]) -> Any:
    """What `right` makes of the one object in a text that it takes. Raises ValueError for none, or more than one."""
    text = without_thinking(text)
    fenced, marked = FENCE.findall(text), LAST_MARK.match(text)
    for part in (fenced[0] if len(fenced) == 1 else "", text[marked.end() :] if marked else "", text):
        found = [one for one in map(right, dict.fromkeys(_objects(part))) if one is not None]
        if any(one != found[0] for one in found):
            raise ValueError("more than one object")
        if found:
            return found[0]
    raise ValueError("no object")


def _objects(text: str) -> Iterator[str]:
    """The objects in a text, those within others left out."""
    start = text.find("{")
    for _ in range(MOST_STARTS):
        if start < 0:
            return
        end = start + 1
        with suppress(ValueError):
            _, end = json.JSONDecoder().raw_decode(text, start)
            yield text[start:end]
        start = text.find("{", end)


def numbers_of(value: Any, schema: Any) -> Any:
    """The value with whole numbers in place of their texts, where the schema wants whole numbers."""
    if isinstance(value, str) and schema.get("type") == "integer" and (whole := WHOLE.fullmatch(value)):
        return int(whole[1])
    if isinstance(value, dict):
        of = schema.get("properties", {})
        return {name: numbers_of(one, of.get(name, {})) for name, one in value.items()}
    if isinstance(value, list):
        return [numbers_of(one, schema.get("items", {})) for one in value]
    return value
