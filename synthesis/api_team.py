"""/api/v1/review/assignments, and the comments of /api/v1/synthesis/samples."""

from django.contrib.auth.models import User
from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis import api_examples as examples
from synthesis.api_shapes_team import (
    AssignmentIn,
    AssignmentListIn,
    AssignmentOut,
    CommentOut,
    SampleCommentIn,
)
from synthesis.assignments import assign, assignment_row, take_back
from synthesis.comments import comment_add
from synthesis.models import Assignment, Sample
from synthesis.selectors_comments import visible_to
from synthesis.selectors_team import assignments, assignments_all
from trace_site.api import ApiView, keyset_response
from trace_site.api_schema import PAGE_PARAMETERS, page_of
from trace_site.lib.errors import TraceError

AT = examples.AT
ASSIGNMENT = {
    "id": 4,
    "assignee": "rita",
    "assigned_by": "adam",
    "filters": {"domain": "hr", "style": "exception"},
    "count": 40,
    "done": 12,
    "left": 27,
    "gone": 1,
    "note": "by Friday",
    "at": AT,
    "last_decision": AT,
    "ended_at": None,
}
COMMENT = {
    "id": 9,
    "sample": 812,
    "author": "rita",
    "text": "@erin is the year of the payslip meant?",
    "at": AT,
}
NOTHING_FREE = {
    "message": "assignment: no item of this selection is free.",
    "code": "conflict",
    "extra": {},
}
NO_ASSIGNMENT = OpenApiResponse(description="no such assignment")
NO_SAMPLE = OpenApiResponse(description="no such sample")


class Assignments(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="assignments_list",
        summary="List assignments of the review queue",
        description="Newest first, with how many of their items are decided.",
        parameters=[AssignmentListIn, *PAGE_PARAMETERS],
        responses=page_of(AssignmentOut),
        examples=[examples.page(ASSIGNMENT, "4")],
    )
    def get(self, request: Request) -> Response:
        given = self.read_query(AssignmentListIn)
        rows = assignments(ended=given["state"] == "ended")
        if name := given.get("assignee"):
            rows = rows.filter(assignee__username=name)
        return keyset_response(request, rows, AssignmentOut, newest=True)

    @extend_schema(
        tags=["synthesis"],
        operation_id="assignment_create",
        summary="Give a part of the review queue to somebody",
        description="The assignee meets these items first and nobody else meets them. What somebody holds, what is "
        "another's and what the person has read in another round is not given. Reviewers take for themselves.",
        request=AssignmentIn,
        responses={201: AssignmentOut, 409: OpenApiResponse(description="nothing is free")},
        examples=[
            examples.sent(
                {"assignee": "rita", "filters": ASSIGNMENT["filters"], "count": 40, "note": "by Friday"}
            ),
            examples.got({**ASSIGNMENT, "done": 0, "left": 40, "gone": 0, "last_decision": None}, 201),
            examples.got(NOTHING_FREE, 409, "nothing is free"),
        ],
    )
    def post(self, request: Request) -> Response:
        given = self.read(AssignmentIn)
        row = assign(
            assignee=_person(given["assignee"]) if given.get("assignee") else request.user,
            actor=request.user,
            filters=given.get("filters", {}),
            count=given["count"],
            note=given["note"],
        )
        return Response(AssignmentOut(_one(row.pk)).data, status=201)


class AssignmentOne(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="assignment_read",
        summary="Read an assignment",
        responses={200: AssignmentOut, 404: NO_ASSIGNMENT},
        examples=[examples.got(ASSIGNMENT)],
    )
    def get(self, request: Request, pk: int) -> Response:
        return Response(AssignmentOut(_one(pk)).data)

    @extend_schema(
        tags=["synthesis"],
        operation_id="assignment_take_back",
        summary="Take an assignment back",
        description="What is decided stays decided; the rest is everybody's again.",
        responses={
            204: OpenApiResponse(description="taken back"),
            404: NO_ASSIGNMENT,
            409: OpenApiResponse(description="it has ended"),
        },
    )
    def delete(self, request: Request, pk: int) -> Response:
        take_back(assignment=assignment_row(pk), actor=request.user)
        return Response(status=204)


class SampleComments(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="sample_comments_list",
        summary="List the comments on a sample",
        description="Newest first. Who may still read the sample in the queue gets only their own.",
        parameters=PAGE_PARAMETERS,
        responses={200: page_of(CommentOut), 404: NO_SAMPLE},
        examples=[examples.page(COMMENT)],
    )
    def get(self, request: Request, pk: int) -> Response:
        rows = visible_to(request.user).filter(sample=_sample(pk))
        return keyset_response(request, rows, CommentOut, newest=True)

    @extend_schema(
        tags=["synthesis"],
        operation_id="sample_comment_create",
        summary="Comment on a sample",
        description="A comment stays as it is written. Who decided the sample, and who is mentioned, is told.",
        request=SampleCommentIn,
        responses={201: CommentOut, 404: NO_SAMPLE},
        examples=[examples.sent({"text": COMMENT["text"]}), examples.got(COMMENT, 201)],
    )
    def post(self, request: Request, pk: int) -> Response:
        sample = _sample(pk)
        row = comment_add(sample=sample, author=request.user, text=self.read(SampleCommentIn)["text"])
        return Response(CommentOut(row).data, status=201)


def _one(pk: int) -> Assignment:
    row: Assignment = get_object_or_404(assignments_all(), pk=pk)
    return row


def _sample(pk: int) -> Sample:
    return get_object_or_404(Sample.objects.only("pk"), pk=pk)


def _person(username: str) -> User:
    person = User.objects.filter(username=username).first()
    if person is None:
        raise TraceError(f"there is no user {username!r}.", code="bad_input", where="assignee")
    return person


urlpatterns = [
    path("review/assignments", Assignments.as_view(), name="api-assignments"),
    path("review/assignments/<int:pk>", AssignmentOne.as_view(), name="api-assignment"),
    path("synthesis/samples/<int:pk>/comments", SampleComments.as_view(), name="api-sample-comments"),
]
