"""POST /api/v1/retrieve: which tools answer this request? Described at /api/v1/schema."""

from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import UserRateThrottle
from rest_framework.views import APIView

from evaluation import retriever


class RetrieveThrottle(UserRateThrottle):
    scope = "retrieve"
    rate = "600/min"


class Retrieve(APIView):
    """The tools for a request, ranked in milliseconds (`fast`) or with a trace that names the rule (`trace`)."""

    throttle_classes = [RetrieveThrottle]

    class InputSerializer(serializers.Serializer[Any]):
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

    class OutputSerializer(serializers.Serializer[Any]):
        class ToolSerializer(serializers.Serializer[Any]):
            name = serializers.CharField()
            score = serializers.FloatField(allow_null=True)
            description = serializers.CharField()
            deprecated = serializers.BooleanField()
            retired = serializers.BooleanField()

        class ModelSerializer(serializers.Serializer[Any]):
            id = serializers.IntegerField()
            cell = serializers.CharField(help_text="(format, memo, retrieval)")
            base = serializers.CharField(help_text="the base model it was trained from")
            snapshot = serializers.IntegerField()

        class RuleSerializer(serializers.Serializer[Any]):
            id = serializers.IntegerField()
            code = serializers.CharField()
            domain = serializers.CharField()
            version = serializers.IntegerField()
            target = serializers.CharField()
            text = serializers.CharField()
            start = serializers.IntegerField(help_text="where the code stands in the trace")

        model = ModelSerializer()
        mode = serializers.CharField()
        tools = ToolSerializer(many=True)
        ranked = ToolSerializer(many=True, help_text="mode both: the ranked list beside the committed one")
        trace = serializers.CharField(allow_blank=True)
        cited_rule = RuleSerializer(allow_null=True)
        withheld = serializers.IntegerField(help_text="tools left out for want of a permission")
        seconds = serializers.FloatField()

    @extend_schema(
        request=InputSerializer,
        responses={
            200: OutputSerializer,
            400: OpenApiResponse(description="a field is wrong"),
            401: OpenApiResponse(description="no token, or an unknown one"),
            404: OpenApiResponse(description="no such model or alias"),
            429: OpenApiResponse(description="too many requests; see Retry-After"),
            503: OpenApiResponse(description="the engine is away or loading; see Retry-After"),
        },
    )
    def post(self, request: Request) -> Response:
        given = self.InputSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        return Response(self.OutputSerializer(retriever.retrieve(**given.validated_data)).data)


urlpatterns = [
    path("retrieve", Retrieve.as_view(), name="api-retrieve"),
    path("schema", SpectacularAPIView.as_view(), name="api-schema"),
]
