"""/api/v1/synthesis/samples and /yield: what was written, every attempt at it, and what each rule has."""

from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis import api_examples as examples
from synthesis import samples
from synthesis.api_inputs import SampleListIn, YieldIn
from synthesis.api_shapes_samples import SampleDetail, SampleRow, YieldRow
from synthesis.models import Sample
from synthesis.rule_yields import rule_book
from synthesis.sample_search import Search
from synthesis.staleness import stale_map
from trace_site.api import ApiView, page_limit
from trace_site.api_schema import PAGE_PARAMETERS, page_of
from trace_site.lib.errors import TraceError

NO_SAMPLE = OpenApiResponse(description="no such sample")


class Samples(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="samples_list",
        summary="List samples",
        description="Newest first; `after=last` asks for the oldest. The attempt filters (`outcome`, `check`, `axis`, "
        "`error`, `tries`) ask for samples with one attempt that is all of them. With `stale`, a page may be short or "
        "empty while `next` says where to go on: only so many samples are compared for one page.",
        parameters=[SampleListIn, *PAGE_PARAMETERS],
        responses=page_of(SampleRow),
        examples=[examples.page(examples.SAMPLE, "812")],
    )
    def get(self, request: Request) -> Response:
        search = Search(self.read_query(SampleListIn))
        after, limit = request.query_params.get("after", ""), page_limit(request)
        if after != samples.LAST and not (after.isascii() and (after or "0").isdecimal()):
            raise TraceError(f"{after[:40]!r} is no key of a page.", code="bad_input", where="after")
        page = samples.sample_page(search, after, limit)
        return Response({"results": SampleRow(page.rows, many=True).data, "next": page.next_key})


class SampleOne(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="sample_read",
        summary="Read a sample",
        description="With every attempt at it, the thresholds its scores were held against, and why it is stale.",
        responses={200: SampleDetail, 404: NO_SAMPLE},
        examples=[examples.got(examples.SAMPLE_DETAIL)],
    )
    def get(self, request: Request, pk: int) -> Response:
        row = samples.sample(pk)
        samples.tell_why([row])
        fields = ("trace", "explanation", "permissions", "pool", "seed", "slot", "key", "made_from")
        answer = {
            "sample": row,
            **{name: getattr(row, name) for name in fields},
            "thresholds": samples.thresholds(row),
            "attempts": samples.attempts(row),
            "stale": stale_map(Sample.objects.filter(pk=row.pk))[row.pk],
        }
        return Response(SampleDetail(answer).data)


class Yields(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="yield_list",
        summary="List what the writers made of each rule",
        description="Published rules, those that miss most of their target first. Styles that a rule cannot support "
        "are named with the reason.",
        parameters=[YieldIn, *PAGE_PARAMETERS],
        responses=page_of(YieldRow),
        examples=[examples.page(examples.YIELD, "50")],
    )
    def get(self, request: Request) -> Response:
        given = self.read_query(YieldIn)
        after, limit = request.query_params.get("after", ""), page_limit(request)
        if after and not (after.isascii() and after.isdecimal() and len(after) < 7):
            raise TraceError(f"{after[:40]!r} is no key of a page.", code="bad_input", where="after")
        start = int(after or 0)
        rows = rule_book(given["domain"], given["target"]).chosen(given["show"], "missing")
        following = str(start + limit) if len(rows) > start + limit else None
        return Response({"results": YieldRow(rows[start : start + limit], many=True).data, "next": following})


urlpatterns = [
    path("synthesis/samples", Samples.as_view(), name="api-samples"),
    path("synthesis/samples/<int:pk>", SampleOne.as_view(), name="api-sample"),
    path("synthesis/yield", Yields.as_view(), name="api-yield"),
]
