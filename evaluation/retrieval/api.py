"""POST /api/v1/retrieve: which tools answer this request? Described at /api/v1/schema."""

from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from evaluation.retrieval import retriever
from trace_site.rest.examples import answer_example, examples_beside, request_example
from trace_site.rest.schema import InputSerializer, TextList
from trace_site.rest.views import ApiView

EXAMPLES = examples_beside(__file__)


class Retrieve(ApiView):
    """The tools for a request, ranked in milliseconds (`fast`) or with a trace that names the rule (`trace`)."""

    scope = "retrieve"

    class RetrieveInput(InputSerializer):
        query = serializers.CharField(max_length=retriever.LONGEST_QUERY)
        model = serializers.CharField(default="champion", max_length=20, help_text="a model's id or an alias")
        mode = serializers.ChoiceField(choices=retriever.MODES, default="fast")
        k = serializers.IntegerField(default=10, min_value=1, max_value=retriever.MOST_TOOLS)
        permissions = serializers.ListField(
            child=serializers.CharField(max_length=300),
            default=list,
            max_length=200,
            help_text="the caller's permission targets; tools that need others are withheld",
        )

    class RetrieveAnswer(serializers.Serializer[Any]):
        class RetrievedTool(serializers.Serializer[Any]):
            name = serializers.CharField()
            score = serializers.FloatField(allow_null=True)
            description = serializers.CharField()
            deprecated = serializers.BooleanField()
            retired = serializers.BooleanField()

        class RetrievingModel(serializers.Serializer[Any]):
            id = serializers.IntegerField()
            cell = serializers.CharField(help_text="(format, memo, retrieval)")
            base = serializers.CharField(help_text="the base model it was trained from")
            snapshot = serializers.IntegerField()

        class CitedRule(serializers.Serializer[Any]):
            id = serializers.IntegerField()
            code = serializers.CharField()
            domain = serializers.CharField()
            version = serializers.IntegerField()
            target = serializers.CharField()
            text = serializers.CharField()
            start = serializers.IntegerField(help_text="where the code stands in the trace")

        model = RetrievingModel()
        mode = serializers.CharField()
        tools = RetrievedTool(many=True)
        ranked = RetrievedTool(many=True, help_text="mode both: the ranked list beside the committed one")
        confidence = serializers.FloatField(
            allow_null=True,
            help_text="calibrated probability that the first tool is right; null while the model is not calibrated",
        )
        fits = serializers.BooleanField(
            allow_null=True,
            help_text="false: no tool answers this request, and the tools are only the nearest ones; null while that "
            "is not known",
        )
        calibration = serializers.CharField(
            allow_blank=True,
            help_text="why confidence or fits is null, and what to do about it; empty otherwise",
        )
        trace = serializers.CharField(allow_blank=True)
        follows_trace = serializers.BooleanField(
            allow_null=True,
            help_text="whether the model's list is the tools its trace ends with, before any are withheld; "
            "null without a trace",
        )
        trace_tools = TextList(
            help_text="the last tools the trace names, as many as the model's list has; empty when it names none"
        )
        cited_rule = CitedRule(allow_null=True)
        withheld = serializers.IntegerField(help_text="tools left out for want of a permission")
        unread = TextList(
            allow_null=True,
            help_text="words of the request in scripts the model's encoder cannot read, which is not every foreign "
            "word; null for a base that reads without an encoder",
        )
        cut_request = serializers.BooleanField(
            help_text="the request, with its permissions, is longer than the model reads, so a part was left out"
        )
        notes = TextList(help_text="what to know before relying on the answer, a sentence each")
        seconds = serializers.FloatField()

    @extend_schema(
        request=RetrieveInput,
        responses={
            200: RetrieveAnswer,
            400: OpenApiResponse(description="a field is wrong"),
            404: OpenApiResponse(description="no such model or alias"),
            503: OpenApiResponse(description="the engine is away or loading; see Retry-After"),
        },
        examples=[
            request_example(EXAMPLES["asked"]),
            answer_example(EXAMPLES["answer"]),
            answer_example(EXAMPLES["refusal"], name="no tool fits"),
        ],
    )
    def post(self, request: Request) -> Response:
        """Find the tools for a request. Retired and blocked tools are never answered. Where the model is
        calibrated, `confidence` says how likely the first tool is right, and `fits` is false for a request
        that no tool answers; its tools are then the nearest ones.
        """
        return Response(self.RetrieveAnswer(retriever.retrieve(**self.read(self.RetrieveInput))).data)


urlpatterns = [path("retrieve", Retrieve.as_view(), name="api-retrieve")]
