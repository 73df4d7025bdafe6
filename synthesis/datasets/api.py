"""/api/v1/snapshots: frozen datasets, what is in them, their card and files, and what differs between two."""

from dataclasses import asdict
from typing import Any

from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.datasets.diff import SHOWS, SnapshotPair
from synthesis.datasets.views import NAMES, TYPES, card_of, file_response, snapshots
from synthesis.models import Snapshot
from trace_site.rest.examples import AT, answer_example, page_example
from trace_site.rest.schema import InputSerializer, Out, page_of
from trace_site.rest.views import ApiView, keyset_response, page_limit

MOST = 2**62


class DiffIn(InputSerializer):
    a = serializers.IntegerField(min_value=1, max_value=MOST, help_text="the snapshot compared with")
    b = serializers.IntegerField(min_value=1, max_value=MOST, help_text="the snapshot that is looked at")
    show = serializers.ChoiceField(choices=list(SHOWS), default="changed")


class SnapshotRow(Out):
    id = serializers.IntegerField(source="pk")
    hash = serializers.CharField(help_text="over the five JSON-lines files")
    catalog_hash = serializers.CharField(help_text="over tools, neighbours and the tokens of tools")
    strategy = serializers.ChoiceField(["append", "replace"])
    per_rule = serializers.IntegerField()
    params = serializers.JSONField(help_text="the options it was built with")
    counts = serializers.JSONField(
        help_text="samples by branch and style, with and without a clause, rules, tools, what was kept out"
    )
    created_by = serializers.CharField(source="created_by.username", default=None, allow_null=True)
    created_at = serializers.DateTimeField()


class SnapshotDetail(Out):
    snapshot = SnapshotRow()
    manifest = serializers.JSONField(help_text="manifest.json of its folder")


class CardOut(Out):
    card = serializers.CharField(help_text="Markdown with YAML front matter")


class DiffCounts(Out):
    changed = serializers.IntegerField(help_text="another sample in the same place")
    added = serializers.IntegerField()
    removed = serializers.IntegerField()
    rules = serializers.IntegerField()
    tools = serializers.IntegerField()


class OptionDiff(Out):
    option = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class TotalDiff(Out):
    branch = serializers.CharField()
    domain = serializers.CharField()
    style = serializers.CharField(help_text="or tier")  # type: ignore[assignment]
    before = serializers.IntegerField()
    after = serializers.IntegerField()


class ChangeOut(Out):
    kind = serializers.ChoiceField(["changed", "added", "removed"])
    name = serializers.CharField(help_text="of the rule or tool; of a sample, its number")
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class DiffOut(Out):
    a = SnapshotRow()
    b = SnapshotRow()
    counts = DiffCounts()
    options = OptionDiff(many=True)
    totals = TotalDiff(many=True)
    results = ChangeOut(many=True)
    next = serializers.CharField(allow_null=True, help_text="what ?after= takes; null on the last page")


# Examples of the API's description of snapshots: one of 36 samples, and what the next one changed.


HASH = "9f2b61c0d1" * 6 + "9f2b"
OPTIONS = {
    "strategy": "append",
    "per_rule": 12,
    "branches": ["rrb", "rule"],
    "rrb": None,
    "domain": "",
    "seed": 0,
    "strict": False,
    "budgets": {"hr": {"rule": 24}},
    "licence": "CC-BY-4.0",
}
COUNTS = {
    "samples": 36,
    "rrb": 12,
    "rule": 24,
    "imported": 0,
    "styles": {"explicit": 8, "implicit": 8, "exception": 8},
    "rules_with_samples": 2,
    "rules": 3,
    "clauses": 12,
    "with_clause": 22,
    "without_clause": 2,
    "tools": 40,
    "removed": 0,
    "contaminated": 1,
    "stale": {"tool changed": 2},
    "replaced": 0,
    "short": 1,
    "left_out": 3,
}
ROW = {
    "id": 5,
    "hash": HASH,
    "catalog_hash": HASH,
    "strategy": "append",
    "per_rule": 12,
    "params": OPTIONS,
    "counts": COUNTS,
    "created_by": "erin",
    "created_at": AT,
}
FILE = {"sha256": HASH, "bytes": 20480, "rows": 36}
DETAIL = {
    "snapshot": ROW,
    "manifest": {
        "schema": 2,
        "hash": HASH,
        "counts": COUNTS,
        "files": {"samples.jsonl": FILE},
        "shortfall": {"hr/LEAVE_FORM": 0},
    },
}
CARD = {"card": "---\npretty_name: TRACE snapshot 9f2b61c0d19f\n---\n\n# TRACE snapshot 9f2b61c0d19f\n"}
SAMPLE = {
    "id": 812,
    "query": "where is my pay slip of March",
    "trace": "A pay slip of this year is read in the new system. So it is PayrollNova/GetPayslip.",
    "answer": ["PayrollNova/GetPayslip"],
    "permissions": [],
    "branch": "rule",
    "domain": "hr",
    "style": "implicit",
    "tier": "",
    "writer": "llm:writer-large",
    "rule": "PAYSLIP_PERIOD",
}
DIFF = {
    "a": {**ROW, "id": 4},
    "b": ROW,
    "counts": {"changed": 1, "added": 0, "removed": 0, "rules": 1, "tools": 0},
    "options": [{"option": "per_rule", "before": 6, "after": 12}],
    "totals": [{"branch": "rule", "domain": "hr", "style": "implicit", "before": 8, "after": 8}],
    "results": [
        {
            "kind": "changed",
            "name": "sample 812",
            "before": {**SAMPLE, "id": 640, "query": "my pay slip please"},
            "after": SAMPLE,
        }
    ],
    "next": None,
}


NO_SNAPSHOT = OpenApiResponse(description="no such snapshot")


def snapshot_of(pk: int) -> Snapshot:
    row: Snapshot = get_object_or_404(Snapshot.objects.select_related("created_by"), pk=pk)
    return row


class SnapshotsList(ApiView):
    @extend_schema(responses=page_of(SnapshotRow), examples=[page_example(ROW, "4")])
    def get(self, request: Request) -> Response:
        """List snapshots. Newest first."""
        return keyset_response(request, snapshots(), SnapshotRow, newest=True)


class SnapshotOne(ApiView):
    @extend_schema(responses=SnapshotDetail, examples=[answer_example(DETAIL)])
    def get(self, request: Request, pk: int) -> Response:
        """Read a snapshot. With its whole manifest: counts, yields, agreement, what was left out and why, and
        the digest of every file.
        """
        found = snapshot_of(pk)
        return Response(SnapshotDetail({"snapshot": found, "manifest": found.manifest}).data)


class SnapshotCard(ApiView):
    @extend_schema(responses=CardOut, examples=[answer_example(CARD)])
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
    @extend_schema(
        parameters=[DiffIn], responses={200: DiffOut, 404: NO_SNAPSHOT}, examples=[answer_example(DIFF)]
    )
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
            "results": [asdict(change) for change in page.rows],
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
