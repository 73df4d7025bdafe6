"""/api/v1/evaluation/what-if: what closing some gaps would save and take."""

from datetime import datetime

from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from evaluation.coverage.counted import ClusterCount
from evaluation.coverage.views import figures_of
from evaluation.what_if.selectors import MOST, Choice, plan_of
from trace_site.rest.schema import InputSerializer
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView


class WhatIfIn(InputSerializer):
    domain = serializers.SlugField(max_length=60)
    gap = serializers.RegexField(
        r"^\d{1,18}(,\d{1,18})*$",
        default="",
        allow_blank=True,
        max_length=2000,
        help_text=f"ids of clusters with commas between, at most {MOST}: all their open pairs",
    )


class PickOut(Shape):
    gap: int = field("cluster", source="pk")
    label: str = field(source="cluster.label")
    pairs: int = field("that would be told apart", source="uncovered")
    wrong_answers: float | None = field("to expect there now; null: not measured", source="score")
    low: float | None = field("95 % interval", source="score_low")
    high: float | None = field(source="score_high")
    labelled_requests: int = field("that concern its tools", source="n")
    wrong_of_them: int = field("there", source="wrong_uncovered")
    tools: int = field("with such a pair")
    tools_measured: int = field("of them", source="measured")

    def get_tools(self, gap: ClusterCount) -> int:
        return len(gap.open_tools)


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
    left_out: int = field("ids that are no gap of now")
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
        choice = Choice.read(figures.domain_id, [given["gap"]])
        return Response(WhatIfOut(plan_of(choice, figures)).data)


urlpatterns = [path("evaluation/what-if", WhatIf.as_view(), name="api-what-if")]
