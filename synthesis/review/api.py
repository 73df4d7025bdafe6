"""/api/v1/review: claim an item, keep or return it, decide about it, take a decision back."""

from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import Http404
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.models import ReviewItem
from synthesis.review import queue as review_queue
from synthesis.review import serializers as shown
from synthesis.review import services
from synthesis.review.selectors import Screen, next_screen, queue_state, screen_of, shown_samples
from synthesis.review.serializers import ClaimIn, ClaimOut, DecidedOut, DecisionIn, LeaseOut, UndoneOut
from trace_site.lib.errors import TraceError
from trace_site.rest.views import ApiView

TAKEN = OpenApiResponse(description="conflict: somebody else has the item, or it is decided")
NEEDED = {"edit": ("query", "trace"), "reject": ("reason",), "approve": ()}
ALLOWED = {"edit": ("query", "trace", "answer"), "reject": ("reason", "follow_up"), "approve": ()}


class ReviewClaim(ApiView):
    decides = True

    @extend_schema(request=ClaimIn, responses=ClaimOut)
    def post(self, request: Request) -> Response:
        """Claim the next item of the review queue. What you hold already comes first, then your assignments,
        then what is everybody's, then what you skipped. Nobody else gets it while the lease runs. Without one
        to take, `queue` says why.
        """
        filters = self.read(ClaimIn)
        screen = next_screen(request.user, filters, filters.pop("besides"))
        queue = None if screen else queue_state(request.user, filters)
        return Response(ClaimOut({"item": screen, "queue": queue}).data)


class ReviewClaimRelease(ApiView):
    @extend_schema(parameters=[shown.SKIP], responses={204: None, 409: TAKEN})
    def delete(self, request: Request, claim: str) -> Response:
        """Return an item, or put it off. It is free for others at once. With `skip`, you meet it again after
        all others.
        """
        item = item_of(claim)
        if item.claimed_by_id != request.user.pk:
            raise review_queue.taken(item.pk, request.user)
        if request.query_params.get("skip") == "true":
            review_queue.skip(request.user, item.pk)
        else:
            review_queue.release(request.user, [item.pk])
        return Response(status=204)


class ReviewClaimHeartbeat(ApiView):
    @extend_schema(responses={200: LeaseOut, 409: TAKEN})
    def post(self, request: Request, claim: str) -> Response:
        """Keep a claimed item. Renews the lease, also one that ran out while nobody took the item."""
        item = item_of(claim)
        review_queue.heartbeat(request.user, item.pk, claim)
        return Response(
            LeaseOut({"claim": claim, "item": item.pk, "lease_seconds": Screen.lease_seconds}).data
        )


class ReviewDecide(ApiView):
    decides = True

    @extend_schema(
        request=DecisionIn,
        responses={
            200: DecidedOut,
            409: TAKEN,
            422: OpenApiResponse(description="filtered: the edit does not pass filter V; or key_reused"),
        },
    )
    def post(self, request: Request) -> Response:
        """Decide about a claimed item. The same decision sent twice is one decision and the same answer. An
        edit is filtered like what the writers make: 422 `filtered` names every failure in `extra`. A sample
        drawn for a second reading is `second` after the first; readings that differ make it `disputed`.
        """
        given = self.read(DecisionIn)
        verdict = given.pop("verdict")
        _check_fields(verdict, given)
        item = item_of(str(given["claim"]))
        decide: Any = {"approve": services.approve, "edit": services.edit, "reject": services.reject}[verdict]
        return Response(DecidedOut(decide(sample=item.sample_id, reviewer=request.user, **given)).data)


class ReviewUndo(ApiView):
    decides = True

    @extend_schema(
        responses={200: UndoneOut, 409: OpenApiResponse(description="conflict, nothing_to_undo, in_snapshot")}
    )
    @transaction.atomic
    def post(self, request: Request) -> Response:
        """Take back your own last decision. Its item is claimed by you again. Refused once the next reading
        was made, or a snapshot holds the sample.
        """
        sample = services.undo(reviewer=request.user)
        screen = screen_of(shown_samples().get(pk=sample.pk), request.user)
        return Response(UndoneOut({"sample": sample.pk, "item": screen if screen.item else None}).data)


def item_of(claim: str) -> ReviewItem:
    """The item a claim names. Raises Http404 for what is no claim, TraceError "conflict" for one that has ended."""
    try:
        item = ReviewItem.objects.filter(claim=UUID(claim)).first()
    except ValueError as error:
        raise Http404 from error
    if item is None:
        raise TraceError(
            "this claim has ended: its item was returned, withdrawn or taken by somebody else.",
            code="conflict",
            where="claim",
            hint="Claim the next item.",
        )
    return item


def _check_fields(verdict: str, given: dict[str, Any]) -> None:
    """Raise `bad_input` for what the verdict lacks, or does not have."""
    if lacks := [name for name in NEEDED[verdict] if name not in given]:
        raise TraceError(f"{verdict} needs {' and '.join(lacks)}.", code="bad_input", where=f"/{lacks[0]}")
    if spare := sorted({*ALLOWED["edit"], *ALLOWED["reject"]} & given.keys() - set(ALLOWED[verdict])):
        raise TraceError(
            f"{verdict} has no {' and no '.join(spare)}.", code="bad_input", where=f"/{spare[0]}"
        )


urlpatterns = [
    path("review/claims", ReviewClaim.as_view(), name="api-review-claims"),
    path("review/claims/<str:claim>", ReviewClaimRelease.as_view(), name="api-review-claim"),
    path("review/claims/<str:claim>/heartbeat", ReviewClaimHeartbeat.as_view(), name="api-review-heartbeat"),
    path("review/decisions", ReviewDecide.as_view(), name="api-review-decisions"),
    path("review/undo", ReviewUndo.as_view(), name="api-review-undo"),
]
