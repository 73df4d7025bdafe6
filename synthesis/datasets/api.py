"""/api/v1/snapshots: frozen datasets, what is in them, their card and files, and what differs between two."""

from dataclasses import asdict
from typing import Any

from django.http import Http404, StreamingHttpResponse
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.datasets import selectors as reads
from synthesis.datasets import serializers as examples
from synthesis.datasets.build import snapshot_dir
from synthesis.datasets.diff import Pair
from synthesis.datasets.selectors import NAMES, TYPES, card_of
from synthesis.datasets.serializers import CardOut, DiffIn, DiffOut, SnapshotDetail, SnapshotRow
from synthesis.datasets.views import file_response
from synthesis.models import Snapshot
from trace_site.rest.examples import answer_example, page_example
from trace_site.rest.schema import PAGE_PARAMETERS, page_of
from trace_site.rest.views import ApiView, keyset_response, page_limit

NO_SNAPSHOT = OpenApiResponse(description="no such snapshot")


def snapshot_of(pk: int) -> Snapshot:
    """Raises Http404."""
    if (found := Snapshot.objects.select_related("created_by").filter(pk=pk).first()) is None:
        raise Http404
    return found


class Snapshots(ApiView):
    @extend_schema(
        tags=["snapshots"],
        operation_id="snapshots_list",
        summary="List snapshots",
        description="Newest first.",
        parameters=PAGE_PARAMETERS,
        responses=page_of(SnapshotRow),
        examples=[page_example(examples.ROW, "4")],
    )
    def get(self, request: Request) -> Response:
        return keyset_response(request, reads.snapshots(), SnapshotRow, newest=True)


class SnapshotOne(ApiView):
    @extend_schema(
        tags=["snapshots"],
        operation_id="snapshot_read",
        summary="Read a snapshot",
        description="With its whole manifest: counts, yields, agreement, what was left out and why, and the digest of "
        "every file.",
        responses={200: SnapshotDetail, 404: NO_SNAPSHOT},
        examples=[answer_example(examples.DETAIL)],
    )
    def get(self, request: Request, pk: int) -> Response:
        found = snapshot_of(pk)
        return Response(SnapshotDetail({"snapshot": found, "manifest": found.manifest}).data)


class SnapshotCard(ApiView):
    @extend_schema(
        tags=["snapshots"],
        operation_id="snapshot_card",
        summary="Read a snapshot's dataset card",
        description="README.md as it was frozen; empty for a snapshot of before there were cards.",
        responses={200: CardOut, 404: NO_SNAPSHOT},
        examples=[answer_example(examples.CARD)],
    )
    def get(self, request: Request, pk: int) -> Response:
        return Response({"card": card_of(snapshot_dir(snapshot_of(pk)))})


class SnapshotFile(ApiView):
    @extend_schema(
        tags=["snapshots"],
        operation_id="snapshot_file",
        summary="Download a file of a snapshot",
        description="Byte for byte as it was frozen, checked against its digest first.",
        parameters=[OpenApiParameter("name", str, OpenApiParameter.PATH, enum=sorted(NAMES))],
        responses={**{(200, kind): OpenApiTypes.BINARY for kind in TYPES.values()}, 404: NO_SNAPSHOT},
    )
    def get(self, request: Request, pk: int, name: str) -> StreamingHttpResponse:
        return file_response(snapshot_of(pk), name)


class SnapshotDiff(ApiView):
    @extend_schema(
        tags=["snapshots"],
        operation_id="snapshot_diff",
        summary="Compare two snapshots",
        description="Counts of what differs, options and totals of both, and one page of the changes that `show` "
        "names. `before` is null for what came in, `after` for what went.",
        parameters=[DiffIn, *PAGE_PARAMETERS],
        responses={200: DiffOut, 404: NO_SNAPSHOT},
        examples=[answer_example(examples.DIFF)],
    )
    def get(self, request: Request) -> Response:
        given = self.read_query(DiffIn)
        pair = Pair(snapshot_of(given["a"]), snapshot_of(given["b"]))
        page = pair.page(given["show"], request.query_params.get("after", ""), page_limit(request))
        answer: dict[str, Any] = {
            "a": pair.a,
            "b": pair.b,
            "counts": pair.counts(),
            "options": pair.options(),
            "totals": pair.totals(),
            "results": [asdict(change) for change in page.rows],
            "next": page.next_key,
        }
        return Response(DiffOut(answer).data)


urlpatterns = [
    path("snapshots", Snapshots.as_view(), name="api-snapshots"),
    path("snapshots/diff", SnapshotDiff.as_view(), name="api-snapshot-diff"),
    path("snapshots/<int:pk>", SnapshotOne.as_view(), name="api-snapshot"),
    path("snapshots/<int:pk>/card", SnapshotCard.as_view(), name="api-snapshot-card"),
    path("snapshots/<int:pk>/files/<str:name>", SnapshotFile.as_view(), name="api-snapshot-file"),
]
