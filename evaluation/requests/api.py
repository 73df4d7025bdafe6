"""POST /api/v1/retrieve/ID/feedback: whether an answer was right."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from evaluation.core.asking import LONGEST_CALLER, MOST_TOOLS
from evaluation.models import RetrievalRequest
from evaluation.requests import services
from trace_site.rest.schema import InputSerializer
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView


class RetrieveFeedback(ApiView):
    rate = "RETRIEVE"
    scope = "retrieve"
    keeps_answers = False  # saying it again replaces it

    class FeedbackInput(InputSerializer):
        verdict: RetrievalRequest.Verdict
        expected: list[Annotated[str, field(max_length=400)]] = field(
            "the tools that would have been right", required=False, max_length=MOST_TOOLS
        )
        comment: str = field(required=False, allow_blank=True, max_length=2000)
        query: str = field(
            "the request, for the report to be kept also where the log does not have it",
            required=False,
            max_length=4000,
        )
        tools: list[Annotated[str, field(max_length=400)]] = field(
            "with `query`: the tools that were answered", required=False, max_length=MOST_TOOLS
        )
        caller: str = field(
            "with `query`: as the request named it, for the report to be erased by it too",
            required=False,
            allow_blank=True,
            max_length=LONGEST_CALLER,
        )

    class FeedbackAnswer(Shape):
        id: UUID = field(source="key")
        verdict: str
        expected: list[str]
        reported_at: datetime

    @extend_schema(
        request=FeedbackInput,
        responses={
            200: FeedbackAnswer,
            400: OpenApiResponse(description="a field is wrong, or there is no such tool"),
        },
    )
    def post(self, request: Request, key: UUID) -> Response:
        """Say whether an answer was right. The id is the one that the answer carries; only whose token asked may say
        so. Personal data in `query` and `comment` is replaced before they are stored.
        """
        given = self.read(self.FeedbackInput)
        row = services.feedback_give(key=key, user=request.user, token=request.auth, **given)
        return Response(self.FeedbackAnswer(row).data)


urlpatterns = [path("retrieve/<uuid:key>/feedback", RetrieveFeedback.as_view(), name="api-retrieve-feedback")]
