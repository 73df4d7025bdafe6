"""/api/v1/change-requests: rule changes from draft to applied. Changes are saved with If-Match."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from rules.changes import drafts, selectors, services
from rules.changes.serializers import Change, Comment, RequestDetail, RequestImpact, RequestMore, RequestRow
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion
from rules.serializers import (
    ApproveIn,
    ChangeIn,
    ChangePut,
    CommentIn,
    ReasonIn,
    RejectIn,
    RequestIn,
    RequestListIn,
    RequestPatch,
    ScheduleIn,
    SeenIn,
    SubmitIn,
    draft_input,
)
from trace_site.lib.errors import TraceError
from trace_site.rest.schema import IF_MATCH, PEOPLE_DECIDE, InputSerializer, page_of
from trace_site.rest.tokens import service_token_of
from trace_site.rest.views import ApiView, etag_of, keyset_response, require_match

NO_REQUEST = OpenApiResponse(description="no such change request, change, rule or version")
CLASH = OpenApiResponse(description="its state does not allow it, or the request changes that rule already")


def add_change(made: ChangeRequest, given: dict[str, Any], actor: Any) -> RuleChange:
    rule = get_object_or_404(Rule, pk=given["rule"]) if given.get("rule") is not None else None
    base = None
    if rule is not None and given.get("base") is not None:
        base = get_object_or_404(RuleVersion, rule=rule, number=given["base"])
    texts = {name: given.get(name, "") for name in ("domain", "code", "note")}
    content = draft_input(given) or None
    return drafts.change_add(
        request=made, actor=actor, rule=rule, action=given["action"], content=content, base=base, **texts
    )


class ChangeAdd(ApiView):
    @extend_schema(request=ChangeIn, responses={201: Change, 409: CLASH})
    def post(self, request: Request, pk: int) -> Response:
        """Add a change to a change request. A new version of a rule, a new rule, a withdrawal, or an old
        version again (its content).
        """
        given = self.read(ChangeIn)
        change = add_change(selectors.request_row(pk), given, request.user)
        place = {"Location": reverse("api-change", args=[change.pk]), "ETag": etag_of(change.revision)}
        return Response(Change(change).data, status=201, headers=place)


class ChangeOne(ApiView):
    @extend_schema(responses=Change)
    def get(self, request: Request, pk: int) -> Response:
        """Read a change. The `ETag` header is its revision."""
        return _answer(_change(pk))

    @extend_schema(parameters=[IF_MATCH], request=ChangePut, responses={200: Change, 409: CLASH})
    def put(self, request: Request, pk: int) -> Response:
        """Save a change. Replaces what it says; may be incomplete until it is submitted. Saving the same
        again keeps the revision, so a retry is harmless. 412 tells who saved meanwhile, and when; nothing is
        overwritten.
        """
        given = self.read(ChangePut)
        change = _change(pk)
        texts = {name: given.get(name, "") for name in ("domain", "code", "note")}
        saved = drafts.change_save(
            change=change,
            expected=_expected(request, change),
            actor=request.user,
            content=draft_input(given),
            **texts,
        )
        return _answer(saved)

    @extend_schema(parameters=[IF_MATCH], responses={204: None, 409: CLASH})
    def delete(self, request: Request, pk: int) -> Response:
        """Remove a change from its request."""
        change = _change(pk)
        drafts.change_remove(change=change, expected=_expected(request, change), actor=request.user)
        return Response(status=204)


class ChangeRebase(ApiView):
    @extend_schema(parameters=[IF_MATCH], responses={200: Change, 409: CLASH})
    def post(self, request: Request, pk: int) -> Response:
        """Put a change on top of the newest version. Settles a conflict with a version made since: the change
        keeps what it says.
        """
        change = _change(pk)
        done = drafts.change_rebase(change=change, expected=_expected(request, change), actor=request.user)
        return _answer(done)


def _change(pk: int) -> RuleChange:
    rows = RuleChange.objects.select_related("rule", "base", "version", "edited_by", "request")
    return get_object_or_404(rows, pk=pk)


def _expected(request: Request, change: RuleChange) -> int:
    """The revision that If-Match names: another than the current one makes the service say who saved, and when."""
    try:
        require_match(request, change.revision)
    except TraceError as error:
        if error.code != "precondition_failed":
            raise
        return 0
    return change.revision


def _answer(change: RuleChange) -> Response:
    return Response(Change(change).data, headers={"ETag": etag_of(change.revision)})


def place_of(request: ChangeRequest) -> dict[str, str]:
    return {"Location": reverse("api-change-request", args=[request.pk]), "ETag": etag_of(request.revision)}


class ChangeRequestsList(ApiView):
    @extend_schema(parameters=[RequestListIn], responses=page_of(RequestRow))
    def get(self, request: Request) -> Response:
        """List change requests. Newest first."""
        given = self.read_query(RequestListIn)
        search = given.pop("q")[:200]
        rows = selectors.request_rows(user=request.user, search=search, **given)
        return keyset_response(request, rows, RequestRow, newest=True)

    @extend_schema(request=RequestIn, responses={201: RequestDetail, 404: NO_REQUEST, 409: CLASH})
    def post(self, request: Request) -> Response:
        """Create a change request. A draft, empty or with changes: all of them are added or none."""
        given = self.read(RequestIn)
        with transaction.atomic():
            made = drafts.request_create(
                actor=request.user, title=given.get("title", ""), description=given.get("description", "")
            )
            for change in given.get("changes", []):
                add_change(made, change, request.user)
        answer = _detail(made.pk, request)
        answer.status_code = 201
        answer["Location"] = reverse("api-change-request", args=[made.pk])
        return answer


def _detail(pk: int, request: Request) -> Response:
    found = selectors.request_detail(pk, request.user)
    decided = {verb.name for verb in VERBS if verb.decides} if service_token_of(request.auth) else set()
    row = found.request
    about = {
        "changes": found.changes,
        "approvals": found.words,
        "approvals_missing": found.missing,
        "comments": row.comments.select_related("author"),
        "may": [verb for verb in found.may if verb not in decided],
    }
    answer = {**RequestRow(row).data, **RequestMore(about).data}
    return Response(answer, headers={"ETag": etag_of(row.revision)})


class ChangeRequestOne(ApiView):
    operation_ids = {"patch": "change_request_describe"}

    @extend_schema(responses=RequestDetail)
    def get(self, request: Request, pk: int) -> Response:
        """Read a change request. With its changes, what differs, findings, conflicts, approvals and what you
        may do now.
        """
        return _detail(pk, request)

    @extend_schema(parameters=[IF_MATCH], request=RequestPatch, responses={200: RequestRow, 409: CLASH})
    def patch(self, request: Request, pk: int) -> Response:
        """Change title or description of a change request. Counts as an edit: after submission it clears the
        approvals.
        """
        given = self.read(RequestPatch)
        row = selectors.request_row(pk)
        require_match(request, row.revision)
        texts = {name: given.get(name, getattr(row, name)) for name in ("title", "description")}
        row = drafts.request_describe(request=row, actor=request.user, revision=row.revision, **texts)
        return Response(RequestRow(row).data, headers={"ETag": etag_of(row.revision)})


class ChangeRequestImpact(ApiView):
    @extend_schema(responses=RequestImpact)
    def get(self, request: Request, pk: int) -> Response:
        """Say what applying a change request makes stale. In total, and for each changed rule where there are
        several.
        """
        total, each = selectors.request_impact(pk)
        rules = [{"rule": code, "lines": lines} for code, lines in each]
        return Response(RequestImpact({"total": total, "rules": rules}).data)


# POST /api/v1/change-requests/{id}/{verb}: what one does with a change request as a whole.


REFUSED = OpenApiResponse(
    description="bad_state, stale_revision, conflict or findings: the message says what"
)


@dataclass(frozen=True, slots=True)
class Verb:
    """`decides` as of a view."""

    name: str
    body: type[InputSerializer]
    call: Callable[..., ChangeRequest]
    summary: str
    description: str
    decides: bool = False


VERBS = [
    Verb(
        "submit", SubmitIn, services.request_submit, "Submit a change request for review",
        "Every change must be complete, without errors and without conflicts.",
    ),
    Verb(
        "approve", ApproveIn, services.request_approve, "Approve a change request",
        "Names the revision: an edit since makes it 409. Nobody approves what they wrote in.", True,
    ),
    Verb(
        "reject", RejectIn, services.request_reject, "Reject a change request",
        "The reason is shown to the author, who may reopen it.", True,
    ),
    Verb(
        "schedule", ScheduleIn, services.request_schedule, "Have a change request applied later",
        "At a time to come, with its UTC offset. What stands in the way then is written to `blocked`.", True,
    ),
    Verb(
        "unschedule", SeenIn, services.request_unschedule, "Take a change request off the schedule",
        "It stays approved.", True,
    ),
    Verb(
        "cancel", ReasonIn, services.request_cancel, "Cancel a change request",
        "By who wrote in it, or an admin.",
    ),
    Verb(
        "reopen", SeenIn, services.request_reopen, "Reopen a rejected or cancelled change request",
        "As a draft with a new revision.",
    ),
    Verb(
        "apply", SeenIn, services.request_apply, "Apply an approved change request",
        "Publishes all of it or nothing.", True,
    ),
    Verb(
        "bypass", ReasonIn, services.request_bypass, "Apply a change request that nobody approved",
        "An emergency: needs the permission to bypass the review and a reason, and is audited as such.", True,
    ),
]  # fmt: skip


def _view(verb: Verb) -> type[ApiView]:
    @extend_schema(
        summary=verb.summary,
        description=f"{verb.description} {PEOPLE_DECIDE}" if verb.decides else verb.description,
        request=verb.body,
        responses={200: RequestRow, 409: REFUSED},
    )
    def post(self: ApiView, request: Request, pk: int) -> Response:
        given = self.read(verb.body)
        if "reason" in verb.body().fields:
            given.setdefault("reason", "")
        row = selectors.request_row(pk)
        row = verb.call(request=row, actor=request.user, **given)
        return Response(RequestRow(row).data, headers={"ETag": etag_of(row.revision)})

    return type(f"ChangeRequest{verb.name.title()}", (ApiView,), {"post": post, "decides": verb.decides})


class ChangeRequestComment(ApiView):
    @extend_schema(request=CommentIn, responses={201: Comment})
    def post(self, request: Request, pk: int) -> Response:
        """Comment on a change request."""
        given = self.read(CommentIn)
        row = selectors.request_row(pk)
        comment = services.request_comment(request=row, actor=request.user, text=given.get("text", ""))
        return Response(Comment(comment).data, status=201)


urlpatterns = [
    path("change-requests", ChangeRequestsList.as_view(), name="api-change-requests"),
    path("change-requests/<int:pk>", ChangeRequestOne.as_view(), name="api-change-request"),
    path("change-requests/<int:pk>/impact", ChangeRequestImpact.as_view(), name="api-change-request-impact"),
    *(
        path(
            f"change-requests/<int:pk>/{verb.name}",
            _view(verb).as_view(),
            name=f"api-change-request-{verb.name}",
        )
        for verb in VERBS
    ),
    path(
        "change-requests/<int:pk>/comments",
        ChangeRequestComment.as_view(),
        name="api-change-request-comments",
    ),
    path("change-requests/<int:pk>/changes", ChangeAdd.as_view(), name="api-change-request-changes"),
    path("changes/<int:pk>", ChangeOne.as_view(), name="api-change"),
    path("changes/<int:pk>/rebase", ChangeRebase.as_view(), name="api-change-rebase"),
]
