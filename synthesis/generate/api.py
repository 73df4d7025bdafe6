"""/api/v1/synthesis: runs with their funnel and books, estimates, the yield per rule."""

from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.generate import selectors, services
from synthesis.generate.estimates import estimate
from synthesis.generate.selectors import Slice, funnel, groups
from synthesis.generate.serializers import (
    BooksOut,
    Call,
    CallListIn,
    EstimateOut,
    ResumeIn,
    RunDetail,
    RunListIn,
    RunOptions,
    RunRow,
    SliceIn,
    YieldIn,
    YieldRow,
)
from synthesis.generate.yields import chosen_rows, rule_yields
from synthesis.llm.ledger import job_books, spent
from synthesis.models import ModelCall, SynthesisRun
from trace_site import jobs
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.limiter import Spent
from trace_site.paging import sliced
from trace_site.rest.schema import page_of
from trace_site.rest.views import ApiView, keyset_response, page_limit

ENDED = OpenApiResponse(description="job_state: the run is not in a state for this")


RUNS = SynthesisRun.objects.select_related("job", "created_by")


def run_row(pk: int) -> SynthesisRun:
    row: SynthesisRun = get_object_or_404(RUNS, pk=pk)
    return row


def detail_of(run: SynthesisRun, given: dict[str, Any]) -> dict[str, Any]:
    by = given.pop("by", "")
    part = Slice(run.pk, **given)
    found = funnel(part)
    found.groups = groups(part, by) if by else []
    selectors.tell_counts([run])
    return {
        "run": run,
        "next_step": selectors.next_step(run),
        "started_with": run.params,
        "spent": spent(run.job) if run.job else Spent(),
        "skipped": run.skipped,
        "funnel": found,
    }


class SynthesisRunsList(ApiView):
    @extend_schema(parameters=[RunListIn], responses=page_of(RunRow))
    def get(self, request: Request) -> Response:
        """List synthesis runs. Newest first."""
        given = self.read_query(RunListIn)
        rows = RUNS
        if state := given.pop("state", ""):
            rows = rows.filter(job__state=state)
        return keyset_response(request, rows.filter(**given), RunRow, newest=True)

    @extend_schema(request=RunOptions, responses={201: RunDetail})
    def post(self, request: Request) -> Response:
        """Start a synthesis run. Plans what is missing, then writes, filters and judges it. An equal run that
        is still under way is answered instead of a second one.
        """
        run = services.synthesis_start(**self.read(RunOptions), actor=request.user)
        place = {"Location": reverse("api-synthesis-run", args=[run.pk])}
        return Response(RunDetail(detail_of(run_row(run.pk), {})).data, status=201, headers=place)


class SynthesisEstimate(ApiView):
    @extend_schema(request=RunOptions, responses=EstimateOut)
    def post(self, request: Request) -> Response:
        """Estimate a synthesis run without starting it. How many samples it would write, by rule and style,
        and the calls, tokens, cost and seconds; each figure says what it rests on, and null is unknown.
        """
        return Response(EstimateOut(estimate(**self.read(RunOptions))).data)


class SynthesisRunOne(ApiView):
    @extend_schema(parameters=[SliceIn], responses=RunDetail)
    def get(self, request: Request, pk: int) -> Response:
        """Read a synthesis run. Progress, what it was started with, what it spent, the styles it skipped and
        why, and its funnel: of the whole run, or of a domain, a rule, a style or a tier.
        """
        return Response(RunDetail(detail_of(run_row(pk), self.read_query(SliceIn))).data)


class SynthesisRunCancel(ApiView):
    @extend_schema(responses={200: RunDetail, 409: ENDED})
    def post(self, request: Request, pk: int) -> Response:
        """Cancel a synthesis run. What was written is kept; resume goes on with the rest."""
        run = run_row(pk)
        if run.job is None or not jobs.cancel(run.job, actor=request.user):
            raise TraceError("the run has already ended.", code="job_state", where=str(run))
        return Response(RunDetail(detail_of(run_row(pk), {})).data)


class SynthesisRunResume(ApiView):
    @extend_schema(request=ResumeIn, responses={200: RunDetail, 409: ENDED})
    def post(self, request: Request, pk: int) -> Response:
        """Resume a synthesis run. Goes on with what is not written, with new limits where the body names
        some. What was spent counts against them.
        """
        given = self.read(ResumeIn)
        services.synthesis_resume(run_row(pk), budget=given.get("budget"), actor=request.user)
        return Response(RunDetail(detail_of(run_row(pk), {})).data)


class SynthesisRunBooks(ApiView):
    @extend_schema(responses=BooksOut)
    def get(self, request: Request, pk: int) -> Response:
        """Read what a synthesis run called and paid. Calls, tokens, cost and seconds by purpose and model,
        and errors by code, from the ledger.
        """
        books = job_books(run_row(pk).job)
        return Response(BooksOut({**books, "errors": books["errors"].items()}).data)


class SynthesisRunCallsList(ApiView):
    @extend_schema(parameters=[CallListIn], responses=page_of(Call))
    def get(self, request: Request, pk: int) -> Response:
        """List the model calls of a synthesis run. One row per exchange, newest first."""
        given = self.read_query(CallListIn)
        run = run_row(pk)
        if (code := given.pop("error", None)) is not None:
            given["error_code"] = code
        rows = ModelCall.objects.filter(job=run.job) if run.job else ModelCall.objects.none()
        return keyset_response(request, rows.filter(**given), Call, newest=True)


class YieldList(ApiView):
    @extend_schema(parameters=[YieldIn], responses=page_of(YieldRow))
    def get(self, request: Request) -> Response:
        """List what the writers made of each rule. Published rules, those that miss most of their target
        first. Styles that a rule cannot support are named with the reason.
        """
        given = self.read_query(YieldIn)
        after, limit = request.query_params.get("after", ""), page_limit(request)
        if after and not (after.isascii() and after.isdecimal() and len(after) < 7):
            raise TraceError(f"{after[:40]!r} is no key of a page.", code="bad_input", where="after")
        rows = chosen_rows(rule_yields(given["domain"], given["target"]), given["show"], "missing")
        page = sliced(rows, after, limit)
        return Response({"results": YieldRow(page.rows, many=True).data, "next": page.next_key})


urlpatterns = [
    path("synthesis/estimate", SynthesisEstimate.as_view(), name="api-synthesis-estimate"),
    path("synthesis/yield", YieldList.as_view(), name="api-yield"),
    path("synthesis/runs", SynthesisRunsList.as_view(), name="api-synthesis-runs"),
    path("synthesis/runs/<int:pk>", SynthesisRunOne.as_view(), name="api-synthesis-run"),
    path("synthesis/runs/<int:pk>/cancel", SynthesisRunCancel.as_view(), name="api-synthesis-run-cancel"),
    path("synthesis/runs/<int:pk>/resume", SynthesisRunResume.as_view(), name="api-synthesis-run-resume"),
    path("synthesis/runs/<int:pk>/books", SynthesisRunBooks.as_view(), name="api-synthesis-run-books"),
    path("synthesis/runs/<int:pk>/calls", SynthesisRunCallsList.as_view(), name="api-synthesis-run-calls"),
]
