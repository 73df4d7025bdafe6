"""/api/v1/evaluation/what-if: what closing some gaps would save and take."""

from typing import Any

from django.http import Http404, QueryDict
from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Domain
from evaluation.what_if.selectors import MOST, Choice, Pick, domain_rollup, plan_of
from synthesis.generate.serializers import FigureOut
from trace_site.rest.examples import answer_example, examples_beside
from trace_site.rest.schema import InputSerializer
from trace_site.rest.views import ApiView

Out = serializers.Serializer[Any]
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


class PickOut(Out):
    gap = serializers.IntegerField(source="gap.pk", help_text="cluster")
    label = serializers.CharField(source="gap.cluster.label")  # type: ignore[assignment]
    rule = serializers.IntegerField(
        source="draft.row.pk", default=None, allow_null=True, help_text="suggested rule; null: all open pairs"
    )
    pairs = serializers.IntegerField(help_text="that would be told apart")
    wrong_answers = serializers.SerializerMethodField(help_text="to expect there now; null: not measured")
    low = serializers.SerializerMethodField(help_text="95 % interval")
    high = serializers.SerializerMethodField()
    labelled_requests = serializers.IntegerField(source="n")
    wrong_of_them = serializers.IntegerField(source="wrong")
    tools = serializers.SerializerMethodField(help_text="with such a pair")
    tools_measured = serializers.IntegerField(source="measured")

    def get_wrong_answers(self, pick: Pick) -> float | None:
        return pick.misses.value if pick.misses else None

    def get_low(self, pick: Pick) -> float | None:
        return pick.misses.low if pick.misses else None

    def get_high(self, pick: Pick) -> float | None:
        return pick.misses.high if pick.misses else None

    def get_tools(self, pick: Pick) -> int:
        return len(pick.terms)


class LineOut(FigureOut):
    key = serializers.CharField()
    title = serializers.CharField()
    unit = serializers.CharField(help_text="answers, rules, samples, calls, tokens, money or seconds")


class WhatIfOut(Out):
    domain = serializers.CharField()
    counted_at = serializers.DateTimeField()
    model = serializers.IntegerField(
        allow_null=True, help_text="whose wrong answers these are; null: the embedding's"
    )
    requests = serializers.CharField(help_text="what wrong answers are counted in, in words")
    pairs = serializers.IntegerField(help_text="of look-alikes that would be told apart")
    picks = PickOut(many=True)
    left_out = serializers.IntegerField(help_text="ids that are no gap or no suggested rule of now")
    figures = LineOut(many=True)


class WhatIf(ApiView):
    operation_ids = {"get": "what_if"}

    @extend_schema(
        parameters=[WhatIfIn],
        responses={
            200: WhatIfOut,
            404: OpenApiResponse(description="no such domain, or nothing was counted in it yet"),
        },
        examples=[answer_example(examples_beside(__file__)["plan"])],
    )
    def get(self, request: Request) -> Response:
        """Read what closing gaps would save and take. Each figure with its interval and what it rests on; one that
        nobody measured is null.
        """
        given = self.read_query(WhatIfIn)
        domain = get_object_or_404(Domain, pk=given["domain"])
        counted = domain_rollup(domain.slug)
        if counted is None:
            raise Http404
        picked = QueryDict(mutable=True)
        picked.update({name: given[name] for name in ("gap", "rule")})
        plan = plan_of(Choice.read(domain.slug, picked), counted)
        told = {
            "domain": domain.slug,
            "counted_at": counted.at,
            "model": counted.model_id,
            "requests": plan.requests,
            "pairs": plan.pairs,
            "picks": plan.picks,
            "left_out": plan.left_out,
            "figures": [
                {"key": line.key, "title": line.title, "unit": line.unit, **_figure(line.figure)}
                for line in plan.lines
            ],
        }
        return Response(WhatIfOut(told).data)


def _figure(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in ("value", "low", "high", "basis")}


urlpatterns = [path("evaluation/what-if", WhatIf.as_view(), name="api-what-if")]
