"""/api/v1/synthesis/samples and /yield: what was written, every attempt at it, and what each rule has."""

from typing import Any, Literal

from django.db.models import F
from django.http import HttpResponse
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from rules.models import RuleVersion
from synthesis.models import Sample
from synthesis.samples import selectors
from synthesis.samples.lineage import Lineage
from synthesis.samples.rejections import Rejections, rejections_of
from synthesis.samples.selectors import Search, tell_why
from synthesis.samples.serializers import LineageOut, RejectionsOut, SampleDetail, SampleListIn, SampleRow
from synthesis.samples.staleness import stale_map
from trace_site.lib.cells import csv_lines
from trace_site.lib.errors import TraceError
from trace_site.rest.schema import InputSerializer, page_of
from trace_site.rest.shapes import field
from trace_site.rest.views import AnyFormat, ApiView, page_limit


class SamplesList(ApiView):
    @extend_schema(parameters=[SampleListIn], responses=page_of(SampleRow))
    def get(self, request: Request) -> Response:
        """List samples. Newest first; `after=last` asks for the oldest. The attempt filters (`outcome`,
        `check`, `axis`, `error`, `tries`) ask for samples with one attempt that is all of them. With `stale`,
        a page may be short or empty while `next` says where to go on: only so many samples are compared for
        one page.
        """
        search = Search(self.read_query(SampleListIn))
        after, limit = request.query_params.get("after", ""), page_limit(request)
        if after != selectors.LAST and not (after.isascii() and (after or "0").isdecimal()):
            raise TraceError(f"{after[:40]!r} is no key of a page.", code="bad_input", where="after")
        page = selectors.sample_page(search, after, limit)
        return Response({"results": SampleRow(page.rows, many=True).data, "next": page.next_key})


class SampleOne(ApiView):
    @extend_schema(responses=SampleDetail)
    def get(self, request: Request, pk: int) -> Response:
        """Read a sample. With every attempt at it, the thresholds its scores were held against, and why it is stale."""
        row = selectors.sample(pk)
        selectors.tell_why([row])
        shown: Any = row  # with what its columns do not say
        shown.thresholds = selectors.thresholds(row)
        shown.stale = stale_map(Sample.objects.filter(pk=row.pk))[row.pk]
        return Response(SampleDetail(shown).data)


HEADS = ("domain", "rule", "version", "rejected", "decided", "reason", "count", "sample", "style", "note")


class RejectionListIn(InputSerializer):
    domain: str = field(default="", max_length=60)
    rule: str = field("code", default="", max_length=200)
    all_versions: bool = field("not the published ones alone", default=False)
    format: Literal["json", "csv"] = "json"


class RejectionsList(ApiView):
    content_negotiation_class = AnyFormat

    @extend_schema(
        parameters=[RejectionListIn],
        responses={(200, "application/json"): RejectionsOut(many=True), (200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponse:
        """List why samples were rejected, by rule. Every rule version with a rejection: how many of how many
        that were read, by reason with the readers' notes, by style. Only final decisions count. The CSV has a
        row for each rejected sample.
        """
        given = self.read_query(RejectionListIn)
        wanted = {"rule__domain": given["domain"], "rule__code": given["rule"]}
        versions = RuleVersion.objects.filter(**{name: value for name, value in wanted.items() if value})
        if not given["all_versions"]:
            versions = versions.filter(rule__published=F("pk"))
        found = sorted(
            (one for one in rejections_of(versions) if one.rejected),
            key=lambda one: (one.domain, one.code, -one.number),
        )
        return _csv(found) if given["format"] == "csv" else Response(RejectionsOut(found, many=True).data)


def _csv(found: list[Rejections]) -> HttpResponse:
    """A cell that could be a formula begins with an apostrophe."""
    rows = (
        (one.domain, one.code, one.number, one.rejected, one.decided, reason.label, reason.count)
        + (said.sample, said.style, said.note)
        for one in found
        for reason in one.reasons
        for said in reason.said
    )
    text = "".join(csv_lines(HEADS, rows))
    disposition = {"Content-Disposition": 'attachment; filename="rejections.csv"'}
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=disposition)


class SampleLineage(ApiView):
    @extend_schema(responses=LineageOut)
    def get(self, request: Request, pk: int) -> Response:
        """Read the lineage of a sample. Its rule version, the tools as they were and are, prompts, models,
        seeds, attempts, decisions, snapshots, and the runs, models and evaluations made of them. null is not
        recorded. While a sample waits for another reading, its decisions are hidden from whoever may still
        read it.
        """
        found = Lineage(pk, request.user)
        tell_why([found.sample])
        return Response(LineageOut(found).data)


urlpatterns = [
    path("synthesis/samples", SamplesList.as_view(), name="api-samples"),
    path("synthesis/samples/<int:pk>", SampleOne.as_view(), name="api-sample"),
    path("synthesis/rejections", RejectionsList.as_view(), name="api-rejections"),
    path("synthesis/samples/<int:pk>/lineage", SampleLineage.as_view(), name="api-lineage"),
]
