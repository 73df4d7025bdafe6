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
    wrong_answers = serializers.FloatField(
        source="misses.value", allow_null=True, help_text="to expect there now; null: not measured"
    )
    low = serializers.FloatField(source="misses.low", allow_null=True, help_text="95 % interval")
    high = serializers.FloatField(source="misses.high", allow_null=True)
    labelled_requests = serializers.IntegerField(source="n")
    wrong_of_them = serializers.IntegerField(source="wrong")
    tools = serializers.SerializerMethodField(help_text="with such a pair")
    tools_measured = serializers.IntegerField(source="measured")

    def get_tools(self, pick: Pick) -> int:
        return len(pick.terms)


class LineOut(Out):
    key = serializers.CharField()
    title = serializers.CharField()
    unit = serializers.CharField(help_text="answers, rules, samples, calls, tokens, money or seconds")
    value = serializers.FloatField(source="figure.value", allow_null=True, help_text="null: unknown")
    basis = serializers.CharField(source="figure.basis", help_text="what it rests on")
    low = serializers.FloatField(
        source="bounds.low", allow_null=True, help_text="95 % interval, of wrong answers alone"
    )
    high = serializers.FloatField(source="bounds.high", allow_null=True)


class WhatIfOut(Out):
    domain = serializers.CharField(source="choice.domain")
    counted_at = serializers.DateTimeField(source="counted.at")
    model = serializers.IntegerField(
        source="counted.model_id",
        allow_null=True,
        help_text="whose wrong answers these are; null: the embedding's",
    )
    requests = serializers.CharField(help_text="what wrong answers are counted in, in words")
    pairs = serializers.IntegerField(help_text="of look-alikes that would be told apart")
    picks = PickOut(many=True)
    left_out = serializers.IntegerField(help_text="ids that are no gap or no suggested rule of now")
    figures = LineOut(source="lines", many=True)


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
        """Read what closing gaps would save and take. Each figure says what it rests on, wrong answers also their
        interval; one that nobody measured is null.
        """
        given = self.read_query(WhatIfIn)
        domain = get_object_or_404(Domain, pk=given["domain"])
        counted = domain_rollup(domain.slug)
        if counted is None:
            raise Http404
        picked = QueryDict(mutable=True)
        picked.update({name: given[name] for name in ("gap", "rule")})
        return Response(WhatIfOut(plan_of(Choice.read(domain.slug, picked), counted)).data)


urlpatterns = [path("evaluation/what-if", WhatIf.as_view(), name="api-what-if")]
