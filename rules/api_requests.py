"""/api/v1/change-requests: rule changes from draft to applied."""

from typing import Any

from django.db import transaction
from django.urls import path, reverse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from rules import api_examples as examples
from rules import changes, selectors_changes
from rules.api_changes import CLASH, NO_REQUEST, add_change
from rules.api_inputs import RequestIn, RequestListIn, RequestPatch
from rules.api_shapes_requests import RequestDetail, RequestImpact, RequestMore, RequestRow
from rules.api_verbs import verb_patterns
from rules.core.diff import RuleDiff
from rules.models import ChangeRequest
from trace_site.api import ApiView, etag_of, keyset_response, require_match
from trace_site.api_schema import IF_MATCH, PAGE_PARAMETERS, page_of


def place_of(request: ChangeRequest) -> dict[str, str]:
    """Headers of an answer that made a request."""
    return {"Location": reverse("api-change-request", args=[request.pk]), "ETag": etag_of(request.revision)}


def diff_data(diff: RuleDiff) -> dict[str, Any]:
    fields = {name: getattr(diff, name) for name in diff.__slots__}
    return fields | {"text": [{"kind": kind, "words": words} for kind, words in diff.text]}


class Requests(ApiView):
    @extend_schema(
        tags=["change-requests"],
        operation_id="change_requests_list",
        summary="List change requests",
        description="Newest first.",
        parameters=[RequestListIn, *PAGE_PARAMETERS],
        responses=page_of(RequestRow),
        examples=[examples.page(examples.REQUEST, "31")],
    )
    def get(self, request: Request) -> Response:
        given = self.read_query(RequestListIn)
        search = given.pop("q")[:200]
        rows = selectors_changes.request_rows(user=request.user, search=search, **given)
        return keyset_response(request, rows, RequestRow, newest=True)

    @extend_schema(
        tags=["change-requests"],
        operation_id="change_request_create",
        summary="Create a change request",
        description="A draft, empty or with changes: all of them are added or none.",
        request=RequestIn,
        responses={201: RequestDetail, 404: NO_REQUEST, 409: CLASH},
        examples=[
            examples.sent(
                {"title": "The year of the cut-over", "changes": [{"rule": 7, **examples.CONTENT}]}
            ),
            examples.got({**examples.REQUEST_DETAIL, "state": "draft", "revision": 2}, 201),
        ],
    )
    def post(self, request: Request) -> Response:
        given = self.read(RequestIn)
        with transaction.atomic():
            made = changes.request_create(
                actor=request.user, title=given.get("title", ""), description=given.get("description", "")
            )
            for change in given.get("changes", []):
                add_change(made, change, request.user)
        answer = _detail(made.pk, request.user)
        answer.status_code = 201
        answer["Location"] = reverse("api-change-request", args=[made.pk])
        return answer


def _detail(pk: int, user: Any) -> Response:
    found = selectors_changes.request_detail(pk, user)
    row = found.request
    views = [
        {
            "change": view.change,
            "diff": diff_data(view.diff),
            "problems": [{"pointer": place, "message": words} for place, words in view.problems],
            "findings": None if view.findings is None else [finding.as_dict() for finding in view.findings],
            "conflicts": view.conflicts,
        }
        for view in found.changes
    ]
    about = {
        "changes": views,
        "approvals": found.words,
        "approvals_missing": found.missing,
        "comments": row.comments.select_related("author"),
        "may": found.may,
    }
    answer = {**RequestRow(row).data, **RequestMore(about).data}
    return Response(answer, headers={"ETag": etag_of(row.revision)})


class RequestOne(ApiView):
    @extend_schema(
        tags=["change-requests"],
        operation_id="change_request_read",
        summary="Read a change request",
        description="With its changes, what differs, findings, conflicts, approvals and what you may do now.",
        responses={200: RequestDetail, 404: NO_REQUEST},
        examples=[examples.got(examples.REQUEST_DETAIL)],
    )
    def get(self, request: Request, pk: int) -> Response:
        return _detail(pk, request.user)

    @extend_schema(
        tags=["change-requests"],
        operation_id="change_request_describe",
        summary="Change title or description of a change request",
        description="Counts as an edit: after submission it clears the approvals.",
        parameters=[IF_MATCH],
        request=RequestPatch,
        responses={200: RequestRow, 404: NO_REQUEST, 409: CLASH},
        examples=[
            examples.sent({"description": "The cut-over was a year later."}),
            examples.got(examples.REQUEST),
        ],
    )
    def patch(self, request: Request, pk: int) -> Response:
        given = self.read(RequestPatch)
        row = selectors_changes.request_row(pk)
        require_match(request, row.revision)
        texts = {name: given.get(name, getattr(row, name)) for name in ("title", "description")}
        row = changes.request_describe(request=row, actor=request.user, revision=row.revision, **texts)
        return Response(RequestRow(row).data, headers={"ETag": etag_of(row.revision)})


class RequestImpactOf(ApiView):
    @extend_schema(
        tags=["change-requests"],
        operation_id="change_request_impact",
        summary="Say what applying a change request makes stale",
        description="In total, and for each changed rule where there are several.",
        responses={200: RequestImpact, 404: NO_REQUEST},
        examples=[
            examples.got(
                {"total": examples.LINES, "rules": [{"rule": "PAYSLIP_PERIOD", "lines": examples.LINES}]}
            )
        ],
    )
    def get(self, request: Request, pk: int) -> Response:
        total, each = selectors_changes.request_impact(pk)
        rules = [{"rule": code, "lines": lines} for code, lines in each]
        return Response(RequestImpact({"total": total, "rules": rules}).data)


urlpatterns = [
    path("change-requests", Requests.as_view(), name="api-change-requests"),
    path("change-requests/<int:pk>", RequestOne.as_view(), name="api-change-request"),
    path("change-requests/<int:pk>/impact", RequestImpactOf.as_view(), name="api-change-request-impact"),
    *verb_patterns,
]
