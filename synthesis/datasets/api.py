"""/api/v1/snapshots: frozen datasets, what is in them, their card and files, and what differs between two."""

from typing import Any, Literal

from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.datasets.diff import SHOWS, SnapshotPair
from synthesis.datasets.views import NAMES, TYPES, card_of, file_response, snapshots
from synthesis.models import Snapshot
from trace_site.rest.schema import InputSerializer, page_of
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView, keyset_response, page_limit

MOST = 2**62


class DiffIn(InputSerializer):
    a: int = field("the snapshot compared with", min_value=1, max_value=MOST)
    b: int = field("the snapshot that is looked at", min_value=1, max_value=MOST)
    show: str = field(default="changed", choices=list(SHOWS))


class SnapshotRow(Shape, of=Snapshot):
    fields = "id hash catalog_hash strategy per_rule params counts created_by created_at"
    hash: str = field("over the five JSON-lines files")
    catalog_hash: str = field("over tools, neighbours and the tokens of tools")
    strategy: Literal["append", "replace"]
    params: Any = field("the options it was built with")
    counts: Any = field(
        "samples by branch and style, with and without a clause, rules, tools, what was kept out"
    )


class SnapshotDetail(Shape):
    snapshot: SnapshotRow = field(source="*")
    manifest: Any = field("manifest.json of its folder")


class CardOut(Shape):
    card: str = field("Markdown with YAML front matter")


class DiffCounts(Shape):
    changed: int = field("another sample in the same place")
    added: int
    removed: int
    rules: int
    tools: int


class OptionDiff(Shape):
    option: str
    before: Any | None
    after: Any | None


class TotalDiff(Shape):
    branch: str
    domain: str
    style: str = field("or tier")
    before: int
    after: int


class ChangeOut(Shape):
    kind: Literal["changed", "added", "removed"]
    name: str = field("of the rule or tool; of a sample, its number")
    before: Any | None
    after: Any | None


class DiffOut(Shape):
    a: SnapshotRow
    b: SnapshotRow
    counts: DiffCounts
    options: list[OptionDiff]
    totals: list[TotalDiff]
    results: list[ChangeOut]
    next: str | None = field("what ?after= takes; null on the last page")


NO_SNAPSHOT = OpenApiResponse(description="no such snapshot")


def snapshot_of(pk: int) -> Snapshot:
    row: Snapshot = get_object_or_404(Snapshot.objects.select_related("created_by"), pk=pk)
    return row


class SnapshotsList(ApiView):
    @extend_schema(responses=page_of(SnapshotRow))
    def get(self, request: Request) -> Response:
        """List snapshots. Newest first."""
        return keyset_response(request, snapshots(), SnapshotRow, newest=True)


class SnapshotOne(ApiView):
    @extend_schema(responses=SnapshotDetail)
    def get(self, request: Request, pk: int) -> Response:
        """Read a snapshot. With its whole manifest: counts, yields, agreement, what was left out and why, and
        the digest of every file.
        """
        return Response(SnapshotDetail(snapshot_of(pk)).data)


class SnapshotCard(ApiView):
    @extend_schema(responses=CardOut)
    def get(self, request: Request, pk: int) -> Response:
        """Read a snapshot's dataset card. README.md as it was frozen; empty for a snapshot of before there
        were cards.
        """
        return Response({"card": card_of(snapshot_of(pk))})


class SnapshotFile(ApiView):
    @extend_schema(
        parameters=[OpenApiParameter("name", str, OpenApiParameter.PATH, enum=sorted(NAMES))],
        responses={**{(200, kind): OpenApiTypes.BINARY for kind in TYPES.values()}},
    )
    def get(self, request: Request, pk: int, name: str) -> StreamingHttpResponse:
        """Download a file of a snapshot. Byte for byte as it was frozen, checked against its digest first."""
        return file_response(snapshot_of(pk), name)


class SnapshotDiff(ApiView):
    @extend_schema(parameters=[DiffIn], responses={200: DiffOut, 404: NO_SNAPSHOT})
    def get(self, request: Request) -> Response:
        """Compare two snapshots. Counts of what differs, options and totals of both, and one page of the
        changes that `show` names. `before` is null for what came in, `after` for what went.
        """
        given = self.read_query(DiffIn)
        pair = SnapshotPair(snapshot_of(given["a"]), snapshot_of(given["b"]))
        page = pair.page(given["show"], request.query_params.get("after", ""), page_limit(request))
        answer: dict[str, Any] = {
            "a": pair.a,
            "b": pair.b,
            "counts": pair.counts(),
            "options": pair.options(),
            "totals": pair.totals(),
            "results": page.rows,
            "next": page.next_key,
        }
        return Response(DiffOut(answer).data)


urlpatterns = [
    path("snapshots", SnapshotsList.as_view(), name="api-snapshots"),
    path("snapshots/diff", SnapshotDiff.as_view(), name="api-snapshot-diff"),
    path("snapshots/<int:pk>", SnapshotOne.as_view(), name="api-snapshot"),
    path("snapshots/<int:pk>/card", SnapshotCard.as_view(), name="api-snapshot-card"),
    path("snapshots/<int:pk>/files/<str:name>", SnapshotFile.as_view(), name="api-snapshot-file"),
]
