"""What one server and model take: learnt from their refusals, kept for the rest of the process.

A field that is refused by name is renamed, put in a simpler form, or left out, in this order; an answer that thinking
kept from coming gets more room. {field: its other name, or "" where it is left out}; `response_format` has its simpler
form, and LEAST the tokens that an answer gets at least.
"""

from typing import Any

from trace_site.lib.llm.exchange import Endpoint, LlmError

Manner = dict[str, Any]
LIMITS = ("max_tokens", "max_completion_tokens")
LEAST = "least_tokens"
ROOMS = (4_000, 16_000, 32_000)
OTHER_NAMES = {"max_tokens": "max_completion_tokens", "seed": "random_seed"}
AS_TEXT = "\n\nAnswer with one JSON object and nothing else. It must be valid under this JSON schema:\n"

_manners: dict[tuple[str, str, str], Manner] = {}


def manner_of(endpoint: Endpoint) -> Manner:
    return _manners.setdefault((endpoint.base_url, endpoint.model, endpoint.options), {})


def worded(manner: Manner, request: dict[str, Any], schema: str) -> dict[str, Any]:
    """The request as the server takes it. What response_format cannot say is said in the last message."""
    sent: dict[str, Any] = {}
    for name, value in request.items():
        while name != "response_format" and (other := manner.get(name)) is not None:
            name = other
        if name and value is not None:
            sent[name] = max(value, manner.get(LEAST, 0)) if name in LIMITS else value
    if (form := manner.get("response_format")) is not None:
        *before, last = request["messages"]
        sent["messages"] = [*before, {**last, "content": last["content"] + AS_TEXT + schema}]
        del sent["response_format"]
        sent |= {"response_format": {"type": form}} if form else {}
    return sent


def learn(manner: Manner, sent: dict[str, Any], fields: tuple[str, ...], error: LlmError) -> None:
    """Take note of a refusal of what was sent. Of fields that it only mentions, the first counts."""
    limit = next((name for name in LIMITS if name in sent), "")  # refused under either name
    if error.starved and limit:
        manner[LEAST] = next((room for room in ROOMS if room > sent[limit]), sent[limit])
    name = next((name for name in fields if name in sent), limit if set(fields) & set(LIMITS) else "")
    if name == "response_format":
        manner[name] = "" if name in manner else "json_object"
    elif name:
        other = OTHER_NAMES.get(name, "")
        # a limit goes by two names everywhere; another name is tried where the server says it
        manner[name] = other if other in ("max_completion_tokens", *fields) else ""
