"""POST /api/v1/change-requests/{id}/{verb}: what one does with a change request as a whole."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from rules import examples
from rules.changes import selectors, services
from rules.changes.serializers import Comment, RequestRow
from rules.models import ChangeRequest
from rules.serializers import ApproveIn, CommentIn, ReasonIn, RejectIn, ScheduleIn, SeenIn, SubmitIn
from trace_site.rest.examples import answer_example, request_example
from trace_site.rest.schema import InputSerializer
from trace_site.rest.views import ApiView, etag_of

REFUSED = OpenApiResponse(
    description="bad_state, stale_revision, conflict or findings: the message says what"
)


@dataclass(frozen=True, slots=True)
class Verb:
    """`example` is a body; `becomes` the state that the example answer shows."""

    name: str
    body: type[InputSerializer]
    call: Callable[..., ChangeRequest]
    summary: str
    description: str
    example: dict[str, Any]
    becomes: str


VERBS = [
    Verb(
        "submit", SubmitIn, services.request_submit, "Submit a change request for review",
        "Every change must be complete, without errors and without conflicts.", {"revision": 3}, "in_review",
    ),
    Verb(
        "approve", ApproveIn, services.request_approve, "Approve a change request",
        "Names the revision: an edit since makes it 409. Nobody approves what they wrote in.",
        {"revision": 4, "comment": "Checked against the cut-over plan."}, "approved",
    ),
    Verb(
        "reject", RejectIn, services.request_reject, "Reject a change request",
        "The reason is shown to the author, who may reopen it.",
        {"revision": 4, "reason": "Pensioners were moved in 2022."}, "rejected",
    ),
    Verb(
        "schedule", ScheduleIn, services.request_schedule, "Have a change request applied later",
        "At a time to come, with its UTC offset. What stands in the way then is written to `blocked`.",
        {"at": "2027-01-01T00:00:00Z"}, "scheduled",
    ),
    Verb(
        "unschedule", SeenIn, services.request_unschedule, "Take a change request off the schedule",
        "It stays approved.", {"revision": 4}, "approved",
    ),
    Verb(
        "cancel", ReasonIn, services.request_cancel, "Cancel a change request",
        "By who wrote in it, or an admin.", {"reason": "Settled in the description of the tool."}, "cancelled",
    ),
    Verb(
        "reopen", SeenIn, services.request_reopen, "Reopen a rejected or cancelled change request",
        "As a draft with a new revision.", {"revision": 4}, "draft",
    ),
    Verb(
        "apply", SeenIn, services.request_apply, "Apply an approved change request",
        "Publishes all of it or nothing.", {"revision": 4}, "applied",
    ),
    Verb(
        "bypass", ReasonIn, services.request_bypass, "Apply a change request that nobody approved",
        "An emergency: needs the permission to bypass the review and a reason, and is audited as such.",
        {"reason": "Payroll closes tonight and the rule sends people to a dead tool."}, "applied",
    ),
]  # fmt: skip


def _view(verb: Verb) -> type[ApiView]:
    @extend_schema(
        summary=verb.summary,
        description=verb.description,
        request=verb.body,
        responses={200: RequestRow, 409: REFUSED},
        examples=[
            request_example(verb.example),
            answer_example({**examples.REQUEST, "state": verb.becomes}),
            answer_example(examples.STALE, 409, "edited since"),
            answer_example(examples.NOT_OWN, 403, "not yours to do"),
        ],
    )
    def post(self: ApiView, request: Request, pk: int) -> Response:
        given = self.read(verb.body)
        row = selectors.request_row(pk)
        if "reason" in verb.body().fields:
            given.setdefault("reason", "")
        row = verb.call(request=row, actor=request.user, **given)
        return Response(RequestRow(row).data, headers={"ETag": etag_of(row.revision)})

    return type(f"ChangeRequest{verb.name.title()}", (ApiView,), {"post": post})


class ChangeRequestComment(ApiView):
    @extend_schema(
        request=CommentIn,
        responses={201: Comment},
        examples=[request_example({"text": examples.COMMENT["text"]}), answer_example(examples.COMMENT, 201)],
    )
    def post(self, request: Request, pk: int) -> Response:
        """Comment on a change request."""
        given = self.read(CommentIn)
        row = selectors.request_row(pk)
        comment = services.request_comment(request=row, actor=request.user, text=given.get("text", ""))
        return Response(Comment(comment).data, status=201)


verb_patterns: list[URLPattern] = [
    path(
        f"change-requests/<int:pk>/{verb.name}", _view(verb).as_view(), name=f"api-change-request-{verb.name}"
    )
    for verb in VERBS
]
verb_patterns.append(
    path(
        "change-requests/<int:pk>/comments",
        ChangeRequestComment.as_view(),
        name="api-change-request-comments",
    )
)
