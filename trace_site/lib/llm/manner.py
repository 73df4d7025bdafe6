"""What one server and model take: learnt from their refusals, kept for the rest of the process.

A field that is refused by name is renamed, put in a simpler form, or left out, in this order; an answer that thinking
kept from coming gets more room.
"""

from dataclasses import dataclass, field
from typing import Any

from trace_site.lib.llm.exchange import Endpoint, LlmError

LIMITS = ("max_tokens", "max_completion_tokens")
ROOMS = (4_000, 16_000, 32_000)  # tokens of an answer, where the recipe's are eaten by thinking
OTHER_NAMES = {"max_tokens": "max_completion_tokens", "seed": "random_seed"}
AS_TEXT = "\n\nAnswer with one JSON object and nothing else. It must be valid under this JSON schema:\n"


@dataclass(slots=True)
class Manner:
    """names: {field: its other name, "" where it is left out}. form: of response_format. known: it was asked."""

    names: dict[str, str] = field(default_factory=dict)
    form: str = "json_schema"
    room: int = 0
    known: bool = False

    def worded(self, request: dict[str, Any], schema: str) -> dict[str, Any]:
        """The request as this server takes it. What response_format cannot say is said in the last message."""
        sent: dict[str, Any] = {}
        for name, value in request.items():
            while (other := self.names.get(name)) is not None:
                name = other
            if name and value is not None:
                sent[name] = max(value, self.room) if name in LIMITS else value
        if self.form != "json_schema":
            *before, last = request["messages"]
            sent["messages"] = [*before, {**last, "content": last["content"] + AS_TEXT + schema}]
            sent["response_format"] = {"type": self.form}
        if not self.form:
            del sent["response_format"]
        return sent

    def learn(self, sent: dict[str, Any], fields: tuple[str, ...], error: LlmError) -> bool:
        """Whether a refusal of what was sent changes anything. Of fields that it only mentions, the first counts."""
        if error.starved:
            limit = next((sent[name] for name in LIMITS if name in sent), ROOMS[-1])
            self.room = next((room for room in ROOMS if room > limit), self.room)
            return True
        limit = next((name for name in LIMITS if name in sent), "")  # refused under either name
        name = next((name for name in fields if name in sent), limit if set(fields) & set(LIMITS) else "")
        if name == "response_format":
            self.form = "json_object" if self.form == "json_schema" else ""
        elif name:
            other = OTHER_NAMES.get(name, "")
            # a limit goes by two names everywhere; another name is tried where the server says it
            self.names[name] = other if other in ("max_completion_tokens", *fields) else ""
        return bool(name)

    def told(self) -> dict[str, str]:
        """{field: what is sent in its place}"""
        told = {name: f"sent as {other}" if other else "left out" for name, other in self.names.items()}
        if self.form != "json_schema":
            told["response_format"] = f"sent as {self.form}" if self.form else "left out"
        return told | ({"length limit": f"raised to {self.room:,}"} if self.room else {})


_manners: dict[tuple[str, str, str], Manner] = {}


def manner_of(endpoint: Endpoint) -> Manner:
    return _manners.setdefault((endpoint.base_url, endpoint.model, endpoint.options), Manner())
