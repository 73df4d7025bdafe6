"""/api/v1/synthesis/prompts: the prompt files, their earlier texts, and a prompt filled in as a run would send it."""

from typing import Any

from django.urls import path
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.core.queries import TIERS
from synthesis.prompts.selectors import (
    MOST_CRITIQUE,
    STYLES,
    Chosen,
    PromptPreview,
    earlier_versions,
    prompt_named,
    prompt_preview,
    prompts,
    samples_by_prompt,
)
from trace_site.rest.examples import AT, answer_example
from trace_site.rest.schema import InputSerializer
from trace_site.rest.views import ApiView

Out = serializers.Serializer[Any]


class PromptRow(Out):
    name = serializers.CharField()
    purpose = serializers.CharField()
    hash = serializers.CharField()
    first_used = serializers.DateTimeField(allow_null=True, help_text="null before a run used this text")
    versions = serializers.IntegerField(help_text="texts it had before")


class PromptText(Out):
    hash = serializers.CharField()
    text = serializers.CharField(help_text="the Jinja2 file")
    first_used = serializers.DateTimeField(allow_null=True)
    samples = serializers.IntegerField(help_text="written with this text")


class PromptDetail(PromptRow):
    texts = PromptText(many=True, help_text="today's first, then the newest")


class PreviewIn(InputSerializer):
    """A rule or a tool."""

    rule = serializers.CharField(
        default="", allow_blank=True, max_length=200, help_text="DOMAIN/CODE, published"
    )
    tool = serializers.CharField(default="", allow_blank=True, max_length=700, help_text="API/ENDPOINT")
    kind = serializers.ChoiceField(
        choices=[*STYLES, *TIERS], help_text="a style with a rule, a tier with a tool"
    )
    number = serializers.IntegerField(
        default=1, min_value=1, max_value=10_000, help_text="place in the series"
    )
    seed = serializers.IntegerField(default=0, min_value=0, max_value=2**53, help_text="of the run")
    permissions = serializers.BooleanField(default=False, help_text="a trace with permission targets")
    critique = serializers.CharField(
        default="", allow_blank=True, max_length=MOST_CRITIQUE, help_text="then a second attempt"
    )


class PreviewedPrompt(Out):
    prompt = serializers.CharField()
    hash = serializers.CharField()
    role = serializers.CharField(help_text="generator, teacher or judge")
    model = serializers.CharField(help_text="empty when none is configured")
    text = serializers.CharField(source="call.text", help_text="exactly what is sent")
    schema = serializers.JSONField(source="call.schema", help_text="JSON Schema of the answer")
    temperature = serializers.FloatField(source="call.temperature")
    max_tokens = serializers.IntegerField(source="call.max_tokens")
    seed = serializers.IntegerField(source="call.seed", allow_null=True)
    characters = serializers.IntegerField()
    words = serializers.IntegerField()
    stands_on = serializers.CharField(help_text="where query and trace come from; empty for a query's prompt")


PROMPT = {
    "name": "judge",
    "purpose": "Scores a sample on four axes.",
    "hash": "5f0c2a9be1d34c77",
    "first_used": AT,
    "versions": 0,
}
PROMPT_TEXT = {
    "hash": "5f0c2a9be1d34c77",
    "text": "You judge one sample ...",
    "first_used": AT,
    "samples": 36,
}
PREVIEWED_PROMPT = {
    "prompt": "judge",
    "hash": "5f0c2a9be1d34c77",
    "role": "judge",
    "model": "judge-large",
    "text": "You judge one training sample ...",
    "schema": {"type": "object"},
    "temperature": 0.0,
    "max_tokens": 600,
    "seed": None,
    "characters": 4120,
    "words": 655,
    "stands_on": "sample 812",
}


class PromptsList(ApiView):
    @extend_schema(
        responses=inline_serializer("PromptList", {"results": PromptRow(many=True)}),
        examples=[answer_example({"results": [PROMPT]})],
    )
    def get(self, request: Request) -> Response:
        """List prompts."""
        return Response({"results": PromptRow(prompts(), many=True).data})


class PromptOne(ApiView):
    @extend_schema(responses=PromptDetail, examples=[answer_example({**PROMPT, "texts": [PROMPT_TEXT]})])
    def get(self, request: Request, prompt: str) -> Response:
        """Read a prompt. Its text today and before, and how many samples were written with each."""
        found = prompt_named(prompt)
        counts = samples_by_prompt(prompt)
        was = [(row.hash, row.source, row.first_used) for row in earlier_versions(prompt)]
        now = (found["hash"], found["source"], found["first_used"])
        texts = [
            {"hash": digest, "text": text, "first_used": used, "samples": counts.get(digest, 0)}
            for digest, text, used in (now, *was)
        ]
        return Response({**PromptRow(found).data, "texts": PromptText(texts, many=True).data})


class PromptFilled(ApiView):
    operation_ids = {"get": "prompt_preview"}

    @extend_schema(
        parameters=[PreviewIn], responses=PreviewedPrompt, examples=[answer_example(PREVIEWED_PROMPT)]
    )
    def get(self, request: Request, prompt: str) -> Response:
        """Fill a prompt in. The call that a run with this seed sends for this place in the series. Nothing is sent."""
        prompt_named(prompt)
        given = self.read_query(PreviewIn)
        found: PromptPreview = prompt_preview(Chosen(prompt, index=given.pop("number") - 1, **given))
        return Response(PreviewedPrompt(found).data)


urlpatterns = [
    path("synthesis/prompts", PromptsList.as_view(), name="api-prompts"),
    path("synthesis/prompts/<str:prompt>", PromptOne.as_view(), name="api-prompt"),
    path("synthesis/prompts/<str:prompt>/preview", PromptFilled.as_view(), name="api-prompt-preview"),
]
