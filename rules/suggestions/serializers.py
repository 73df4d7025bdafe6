"""What the API answers about suggested rules."""

from typing import Any, Literal

from drf_spectacular.utils import extend_schema_field

from rules.core.rule import keyed
from rules.core.suggestions import STRONG
from rules.models import RuleSuggestion
from rules.serializers import Content
from trace_site.rest.schema import InputSerializer
from trace_site.rest.shapes import Shape, field

STATES = ("open", "dismissed")


class SuggestionsIn(InputSerializer):
    domain: str = field(default="", max_length=60)
    kind: str = field(default="", allow_blank=True, choices=RuleSuggestion.Kind.values)
    strength: Literal["strong", "weak"] = field(default="", allow_blank=True)
    state: str = field(default="open", choices=STATES)


class DismissIn(InputSerializer):
    reason: str = field("why no such rule is needed", max_length=500)


class Quote(Shape):
    tool: str
    text: str = field("words of its description")
    marks: list[list[int]] = field("[start, end) of the words in it that speak, in code points")


class FailedRequest(Shape):
    query: str = field("empty: its text is not for all who read this")
    wanted: str
    chosen: str = field("by the champion, else by the newest model that was evaluated")


class SuggestionOut(Shape, of=RuleSuggestion):
    """A draft rule. Nothing is published: send its content as a change of a request, after reading it."""

    fields = (
        "id domain kind score strong why content evidence failures writer doubt dismissed_reason dismissed_by "
        "found_at"
    )
    score: float = field("0..1: how surely somebody would want this rule")
    strong: bool = field(f"a score of {STRONG} or more")
    content: dict[str, Any]
    evidence: list[Quote]
    failures: list[FailedRequest]
    writer: str = field("`words`, or the language model that worded it")
    doubt: str = field("why a language model would write no such rule; empty: it said no such thing")

    @extend_schema_field(bool)
    def get_strong(self, row: RuleSuggestion) -> bool:
        return row.score >= STRONG

    @extend_schema_field(Content())
    def get_content(self, row: RuleSuggestion) -> dict[str, Any]:
        return keyed(row.content)
