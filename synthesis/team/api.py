"""/api/v1/review/assignments, and the comments of /api/v1/synthesis/samples."""

from datetime import datetime
from typing import Any, Literal

from django.contrib.auth.models import User
from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.models import Assignment, Sample, SampleComment
from synthesis.review.serializers import QueueFiltersIn
from synthesis.team.selectors import assignments, visible_to
from synthesis.team.services import LONGEST, MOST, assign, comment_add, take_back
from trace_site.lib.errors import TraceError
from trace_site.rest.schema import InputSerializer, page_of
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView, keyset_response


class AssignmentIn(InputSerializer):
    assignee: str = field("user name; default: yourself", required=False, max_length=150)
    filters: QueueFiltersIn = field(required=False)
    count: int | None = field("the first so many; null: all that are free", min_value=1, max_value=MOST)
    note: str = field(default="", max_length=300)


class AssignmentListIn(InputSerializer):
    state: Literal["running", "ended"] = "running"
    assignee: str = field("user name", required=False, max_length=150)


class AssignmentOut(Shape, of=Assignment):
    fields = "id assignee assigned_by filters count done left gone note at last_decision ended_at"
    filters: Any = field("the part of the queue it was taken from")
    count: int = field("items given")
    done: int
    left: int
    gone: int = field("wait no more: their rule or sample was replaced")
    last_decision: datetime | None = field(source="last")
    ended_at: datetime | None = field("all decided, or taken back")


class SampleCommentIn(InputSerializer):
    text: str = field("plain text; @name tells that person", max_length=LONGEST)


class CommentOut(Shape, of=SampleComment):
    fields = "id sample author text at"


ENDED = OpenApiResponse(description="it has ended")


class AssignmentsList(ApiView):
    @extend_schema(parameters=[AssignmentListIn], responses=page_of(AssignmentOut))
    def get(self, request: Request) -> Response:
        """List assignments of the review queue. Newest first, with how many of their items are decided."""
        given = self.read_query(AssignmentListIn)
        rows = assignments(ended=given["state"] == "ended")
        if name := given.get("assignee"):
            rows = rows.filter(assignee__username=name)
        return keyset_response(request, rows, AssignmentOut, newest=True)

    @extend_schema(
        request=AssignmentIn,
        responses={201: AssignmentOut, 409: OpenApiResponse(description="nothing is free")},
    )
    def post(self, request: Request) -> Response:
        """Give a part of the review queue to somebody. The assignee meets these items first and nobody else
        meets them. What somebody holds, what is another's and what the person has read in another round is
        not given. Reviewers take for themselves.
        """
        given = self.read(AssignmentIn)
        name = given.pop("assignee", None) or request.user.username
        assignee = User.objects.filter(username=name).first()
        if assignee is None:
            raise TraceError(f"there is no user {name!r}.", code="bad_input", where="assignee")
        row = assign(assignee=assignee, actor=request.user, **{"filters": {}, **given})
        return Response(AssignmentOut(assignments(None).get(pk=row.pk)).data, status=201)


class AssignmentOne(ApiView):
    operation_ids = {"delete": "assignment_take_back"}

    @extend_schema(responses=AssignmentOut)
    def get(self, request: Request, pk: int) -> Response:
        """Read an assignment."""
        return Response(AssignmentOut(get_object_or_404(assignments(None), pk=pk)).data)

    @extend_schema(responses={204: OpenApiResponse(description="taken back"), 409: ENDED})
    def delete(self, request: Request, pk: int) -> Response:
        """Take an assignment back. What is decided stays decided; the rest is everybody's again."""
        take_back(assignment=pk, actor=request.user)
        return Response(status=204)


class SampleCommentsList(ApiView):
    @extend_schema(responses=page_of(CommentOut))
    def get(self, request: Request, pk: int) -> Response:
        """List the comments on a sample. Newest first. Who may still read the sample in the queue gets only
        their own.
        """
        rows = visible_to(request.user).filter(sample=get_object_or_404(Sample.objects.only("pk"), pk=pk))
        return keyset_response(request, rows, CommentOut, newest=True)

    @extend_schema(request=SampleCommentIn, responses={201: CommentOut})
    def post(self, request: Request, pk: int) -> Response:
        """Comment on a sample. A comment stays as it is written. Who decided the sample, and who is
        mentioned, is told.
        """
        sample = get_object_or_404(Sample.objects.only("pk"), pk=pk)
        row = comment_add(sample=sample, author=request.user, text=self.read(SampleCommentIn)["text"])
        return Response(CommentOut(row).data, status=201)


urlpatterns = [
    path("review/assignments", AssignmentsList.as_view(), name="api-assignments"),
    path("review/assignments/<int:pk>", AssignmentOne.as_view(), name="api-assignment"),
    path("synthesis/samples/<int:pk>/comments", SampleCommentsList.as_view(), name="api-sample-comments"),
]
