"""What the API answers about suggested rules."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from rules.core.draft import FIELDS
from rules.core.suggestions import KINDS, STRONG
from rules.models import RuleSuggestion
from rules.serializers import Content, Out
from trace_site.rest.schema import InputSerializer

STATES = ("open", "dismissed")


class SuggestionsIn(InputSerializer):
    domain = serializers.CharField(default="", allow_blank=True, max_length=60)
    kind = serializers.ChoiceField(default="", allow_blank=True, choices=list(KINDS))
    strength = serializers.ChoiceField(default="", allow_blank=True, choices=["strong", "weak"])
    state = serializers.ChoiceField(default="open", choices=STATES)


class DismissIn(InputSerializer):
    reason = serializers.CharField(max_length=500, help_text="why no such rule is needed")


class Quote(Out):
    tool = serializers.CharField()
    text = serializers.CharField(help_text="words of its description")
    marks = serializers.ListField(
        child=serializers.ListField(child=serializers.IntegerField()),
        help_text="[start, end) of the words in it that speak, in code points",
    )


class FailedRequest(Out):
    query = serializers.CharField(allow_blank=True, help_text="empty: its text is not for all who read this")
    wanted = serializers.CharField()
    chosen = serializers.CharField(help_text="by the champion, else by the newest model that was evaluated")


class SuggestionOut(Out):
    """A draft rule. Nothing is published: send its content as a change of a request, after reading it."""

    id = serializers.IntegerField(source="pk")
    domain = serializers.CharField(source="domain_id")
    kind = serializers.ChoiceField(RuleSuggestion.Kind.choices)
    score = serializers.FloatField(help_text="0..1: how surely somebody would want this rule")
    strong = serializers.SerializerMethodField(help_text=f"a score of {STRONG} or more")
    why = serializers.CharField()
    content = serializers.SerializerMethodField()
    evidence = Quote(many=True)
    failures = FailedRequest(many=True)
    writer = serializers.CharField(help_text="`words`, or the language model that worded it")
    doubt = serializers.CharField(
        help_text="why a language model would write no such rule; empty: it said no such thing"
    )
    dismissed_reason = serializers.CharField()
    dismissed_by = serializers.CharField(source="dismissed_by.username", default=None, allow_null=True)
    found_at = serializers.DateTimeField()

    @extend_schema_field(bool)
    def get_strong(self, row: RuleSuggestion) -> bool:
        return row.score >= STRONG

    @extend_schema_field(Content())
    def get_content(self, row: RuleSuggestion) -> dict[str, Any]:
        return {name: row.content[key] for key, name in FIELDS.items()}
