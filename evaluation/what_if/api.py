"""/api/v1/evaluation/what-if: what closing some gaps would save and take."""

from datetime import datetime
from typing import Any

from django.http import QueryDict
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from evaluation.coverage.views import figures_of
from evaluation.what_if.selectors import MOST, Choice, Pick, plan_of
from trace_site.rest.schema import InputSerializer
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView

IDS: dict[str, Any] = {
    "default": "",
    "allow_blank": True,
    "max_length": 2000,
    "regex": r"^\d{1,18}(,\d{1,18})*$",
}


class WhatIfIn(InputSerializer):
    domain = serializers.SlugField(max_length=60)
    gap = serializers.RegexField(
        **IDS, help_text=f"ids of clusters with commas between, at most {MOST}: all their open pairs"
    )
    rule = serializers.RegexField(
        **IDS, help_text=f"ids of suggested rules, at most {MOST}: the pairs that they tell apart as drafted"
    )


class PickOut(Shape):
    gap: int = field("cluster", source="gap.pk")
    label: str = field(source="gap.cluster.label")
    rule: int | None = field("suggested rule; null: all open pairs", source="draft.row.pk", default=None)
    pairs: int = field("that would be told apart")
    wrong_answers: float | None = field("to expect there now; null: not measured", source="misses.value")
    low: float | None = field("95 % interval", source="misses.low")
    high: float | None = field(source="misses.high")
    labelled_requests: int = field(source="n")
    wrong_of_them: int = field(source="wrong")
    tools: int = field("with such a pair")
    tools_measured: int = field(source="measured")

    def get_tools(self, pick: Pick) -> int:
        return len(pick.terms)


class LineOut(Shape):
    key: str
    title: str
    unit: str = field("answers, rules, samples, calls, tokens, money or seconds")
    value: float | None = field("null: unknown", source="figure.value")
    basis: str = field("what it rests on", source="figure.basis")
    low: float | None = field("95 % interval, of wrong answers alone", source="bounds.low")
    high: float | None = field(source="bounds.high")


class WhatIfOut(Shape):
    domain: str = field(source="choice.domain")
    counted_at: datetime = field(source="figures.at")
    model: int | None = field(
        "whose wrong answers these are; null: the embedding's", source="figures.model_id"
    )
    requests: str = field("what wrong answers are counted in, in words")
    pairs: int = field("of look-alikes that would be told apart")
    picks: list[PickOut]
    left_out: int = field("ids that are no gap or no suggested rule of now")
    figures: list[LineOut] = field(source="lines")


class WhatIf(ApiView):
    operation_ids = {"get": "what_if"}

    @extend_schema(
        parameters=[WhatIfIn],
        responses={
            200: WhatIfOut,
            404: OpenApiResponse(description="no such domain, or nothing was counted in it yet"),
        },
    )
    def get(self, request: Request) -> Response:
        """Read what closing gaps would save and take. Each figure says what it rests on, wrong answers also their
        interval; one that nobody measured is null.
        """
        given = self.read_query(WhatIfIn)
        figures = figures_of(given["domain"])
        picked = QueryDict(mutable=True)
        picked.update({name: given[name] for name in ("gap", "rule")})
        return Response(WhatIfOut(plan_of(Choice.read(figures.domain_id, picked), figures)).data)


urlpatterns = [path("evaluation/what-if", WhatIf.as_view(), name="api-what-if")]
