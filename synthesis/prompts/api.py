"""/api/v1/synthesis/prompts: the prompt files, their earlier texts, and a prompt filled in as a run would send it."""

from datetime import datetime
from typing import Any

from django.urls import path
from drf_spectacular.utils import extend_schema, inline_serializer
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
from trace_site.rest.schema import InputSerializer
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView


class PromptRow(Shape):
    name: str
    purpose: str
    hash: str
    first_used: datetime | None = field("null before a run used this text")
    versions: int = field("texts it had before")


class PromptText(Shape):
    hash: str
    text: str = field("the Jinja2 file")
    first_used: datetime | None
    samples: int = field("written with this text")


class PromptDetail(PromptRow):
    texts: list[PromptText] = field("today's first, then the newest")


class PreviewIn(InputSerializer):
    """A rule or a tool."""

    rule: str = field("DOMAIN/CODE, published", default="", max_length=200)
    tool: str = field("API/ENDPOINT", default="", max_length=700)
    kind: str = field("a style with a rule, a tier with a tool", choices=[*STYLES, *TIERS])
    number: int = field("place in the series", default=1, min_value=1, max_value=10_000)
    seed: int = field("of the run", default=0, min_value=0, max_value=2**53)
    permissions: bool = field("a trace with permission targets", default=False)
    critique: str = field("then a second attempt", default="", max_length=MOST_CRITIQUE)


class PreviewedPrompt(Shape):
    prompt: str
    hash: str
    role: str = field("generator, teacher or judge")
    model: str = field("empty when none is configured")
    text: str = field("exactly what is sent", source="call.text")
    schema: Any = field("JSON Schema of the answer", source="call.schema")
    temperature: float = field(source="call.temperature")
    max_tokens: int = field(source="call.max_tokens")
    seed: int | None = field(source="call.seed")
    characters: int
    words: int
    stands_on: str = field("where query and trace come from; empty for a query's prompt")


class PromptsList(ApiView):
    @extend_schema(responses=inline_serializer("PromptList", {"results": PromptRow(many=True)}))
    def get(self, request: Request) -> Response:
        """List prompts."""
        return Response({"results": PromptRow(prompts(), many=True).data})


class PromptOne(ApiView):
    @extend_schema(responses=PromptDetail)
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

    @extend_schema(parameters=[PreviewIn], responses=PreviewedPrompt)
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
