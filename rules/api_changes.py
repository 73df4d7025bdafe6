"""/api/v1/changes: one rule's change inside a change request, saved with If-Match so that nothing is overwritten."""

from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from rules import api_examples as examples
from rules import changes, selectors_changes
from rules.api_inputs import ChangeIn, ChangePut, draft_input
from rules.api_shapes_requests import Change
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion
from trace_site.access import ADMIN, EXPERT
from trace_site.api import ApiView, etag_of, require_match
from trace_site.api_schema import IF_MATCH
from trace_site.lib.errors import TraceError

WRITERS = (EXPERT, ADMIN)
NO_REQUEST = OpenApiResponse(description="no such change request, change, rule or version")
CLASH = OpenApiResponse(description="its state does not allow it, or the request changes that rule already")


def add_change(made: ChangeRequest, given: dict[str, Any], actor: Any) -> RuleChange:
    """One change of a body added to the request."""
    rule = get_object_or_404(Rule, pk=given["rule"]) if given.get("rule") is not None else None
    base = None
    if rule is not None and given.get("base") is not None:
        base = get_object_or_404(RuleVersion, rule=rule, number=given["base"])
    texts = {name: given.get(name, "") for name in ("domain", "code", "note")}
    content = draft_input(given) or None
    return changes.change_add(
        request=made, actor=actor, rule=rule, action=given["action"], content=content, base=base, **texts
    )


class RequestChanges(ApiView):
    @extend_schema(
        tags=["change-requests"],
        operation_id="change_add",
        summary="Add a change to a change request",
        description="A new version of a rule, a new rule, a withdrawal, or an old version again (its content).",
        request=ChangeIn,
        responses={201: Change, 404: NO_REQUEST, 409: CLASH},
        examples=[
            examples.sent({"rule": 7, "note": "the year of the cut-over", **examples.CONTENT}),
            examples.sent({"rule": 7, "action": "withdraw"}, "withdraw a rule"),
            examples.got(examples.CHANGE, 201),
        ],
    )
    def post(self, request: Request, pk: int) -> Response:
        given = self.read(ChangeIn)
        change = add_change(selectors_changes.request_row(pk), given, request.user)
        place = {"Location": reverse("api-change", args=[change.pk]), "ETag": etag_of(change.revision)}
        return Response(Change(change).data, status=201, headers=place)


class ChangeOne(ApiView):
    @extend_schema(
        tags=["change-requests"],
        operation_id="change_read",
        summary="Read a change",
        description="The `ETag` header is its revision.",
        responses={200: Change, 404: NO_REQUEST},
        examples=[examples.got(examples.CHANGE)],
    )
    def get(self, request: Request, pk: int) -> Response:
        return _answer(_change(pk))

    @extend_schema(
        tags=["change-requests"],
        operation_id="change_save",
        summary="Save a change",
        description="Replaces what it says; may be incomplete until it is submitted. Saving the same again keeps the "
        "revision, so a retry is harmless. 412 tells who saved meanwhile, and when; nothing is overwritten.",
        parameters=[IF_MATCH],
        request=ChangePut,
        responses={200: Change, 404: NO_REQUEST, 409: CLASH},
        examples=[
            examples.sent({"note": "the year of the cut-over", **examples.CONTENT}),
            examples.got(examples.CHANGE),
            examples.got(examples.MEANWHILE, 412, "somebody saved meanwhile"),
        ],
    )
    def put(self, request: Request, pk: int) -> Response:
        given = self.read(ChangePut)
        change = _change(pk)
        texts = {name: given.get(name, "") for name in ("domain", "code", "note")}
        saved = changes.change_save(
            change=change,
            expected=_expected(request, change),
            actor=request.user,
            content=draft_input(given),
            **texts,
        )
        return _answer(saved)

    @extend_schema(
        tags=["change-requests"],
        operation_id="change_remove",
        summary="Remove a change from its request",
        parameters=[IF_MATCH],
        responses={204: None, 404: NO_REQUEST, 409: CLASH},
        examples=[examples.got(examples.MEANWHILE, 412, "somebody saved meanwhile")],
    )
    def delete(self, request: Request, pk: int) -> Response:
        change = _change(pk)
        changes.change_remove(change=change, expected=_expected(request, change), actor=request.user)
        return Response(status=204)


class ChangeRebase(ApiView):
    @extend_schema(
        tags=["change-requests"],
        operation_id="change_rebase",
        summary="Put a change on top of the newest version",
        description="Settles a conflict with a version made since: the change keeps what it says.",
        parameters=[IF_MATCH],
        request=None,
        responses={200: Change, 404: NO_REQUEST, 409: CLASH},
        examples=[examples.got(examples.CHANGE)],
    )
    def post(self, request: Request, pk: int) -> Response:
        change = _change(pk)
        done = changes.change_rebase(change=change, expected=_expected(request, change), actor=request.user)
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


urlpatterns = [
    path("change-requests/<int:pk>/changes", RequestChanges.as_view(), name="api-change-request-changes"),
    path("changes/<int:pk>", ChangeOne.as_view(), name="api-change"),
    path("changes/<int:pk>/rebase", ChangeRebase.as_view(), name="api-change-rebase"),
]
