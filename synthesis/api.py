"""/api/v1/synthesis: runs with their funnel and books, estimates, the yield per rule; samples in api_samples."""

from dataclasses import asdict
from typing import Any

from django.http import Http404
from django.urls import path, reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis import api_examples as examples
from synthesis import (
    api_lineage,
    api_prompts,
    api_quality,
    api_review,
    api_samples,
    api_snapshots,
    api_team,
    selectors,
    services,
)
from synthesis.api_inputs import CallListIn, ResumeIn, RunListIn, RunOptions, SliceIn
from synthesis.api_shapes import BooksOut, Call, EstimateOut, RunDetail, RunRow
from synthesis.books import job_books, job_calls
from synthesis.budgets import spent
from synthesis.estimates import estimate
from synthesis.models import ModelCall, SynthesisRun
from synthesis.selectors_funnel import Slice, funnel, groups
from trace_site import jobs
from trace_site.api import ApiView, keyset_response
from trace_site.api_schema import PAGE_PARAMETERS, page_of
from trace_site.lib.errors import TraceError
from trace_site.lib.llm import Spent

NO_RUN = OpenApiResponse(description="no such run")
ENDED = OpenApiResponse(description="job_state: the run is not in a state for this")


def run_row(pk: int) -> SynthesisRun:
    """The run with its counts. Raises Http404."""
    if (run := selectors.runs().filter(pk=pk).first()) is None:
        raise Http404
    return run


def counted(pairs: list[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"name": name, "count": count} for name, count in pairs]


def detail_of(run: SynthesisRun, given: dict[str, Any]) -> dict[str, Any]:
    by = given.pop("by", "")
    part = Slice(run.pk, **given)
    found = funnel(part)
    return {
        "run": run,
        "next_step": selectors.next_step(run),
        "started_with": run.params,
        "spent": asdict(spent(run.job) if run.job else Spent()),
        "skipped": run.skipped,
        "funnel": {
            "total": found.total,
            "checks": counted(found.checks),
            "axes": counted(found.axes),
            "errors": counted(found.errors),
            "given_up": counted(found.given_up),
            "groups": groups(part, by) if by else [],
        },
    }


class Runs(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="synthesis_runs_list",
        summary="List synthesis runs",
        description="Newest first.",
        parameters=[RunListIn, *PAGE_PARAMETERS],
        responses=page_of(RunRow),
        examples=[examples.page(examples.RUN, "7")],
    )
    def get(self, request: Request) -> Response:
        given = self.read_query(RunListIn)
        rows = selectors.runs()
        if state := given.pop("state", ""):
            rows = rows.filter(job__state=state)
        return keyset_response(request, rows.filter(**given), RunRow, newest=True)

    @extend_schema(
        tags=["synthesis"],
        operation_id="synthesis_run_create",
        summary="Start a synthesis run",
        description="Plans what is missing, then writes, filters and judges it. An equal run that is still under way "
        "is answered instead of a second one.",
        request=RunOptions,
        responses={201: RunDetail},
        examples=[
            examples.sent(examples.OPTIONS),
            examples.got(examples.DETAIL, 201),
            examples.got(examples.NO_RULE, 400, "no such rule"),
        ],
    )
    def post(self, request: Request) -> Response:
        run = services.synthesis_start(**self.read(RunOptions), actor=request.user)
        place = {"Location": reverse("api-synthesis-run", args=[run.pk])}
        return Response(RunDetail(detail_of(run_row(run.pk), {})).data, status=201, headers=place)


class Estimates(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="synthesis_estimate",
        summary="Estimate a synthesis run without starting it",
        description="How many samples it would write, by rule and style, and the calls, tokens, cost and seconds; each "
        "figure says what it rests on, and null is unknown.",
        request=RunOptions,
        responses={200: EstimateOut},
        examples=[
            examples.sent(examples.OPTIONS),
            examples.got(examples.ESTIMATE),
            examples.got(examples.NO_RULE, 400, "no such rule"),
        ],
    )
    def post(self, request: Request) -> Response:
        return Response(EstimateOut(estimate(**self.read(RunOptions)).as_dict()).data)


class RunOne(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="synthesis_run_read",
        summary="Read a synthesis run",
        description="Progress, what it was started with, what it spent, the styles it skipped and why, and its funnel: "
        "of the whole run, or of a domain, a rule, a style or a tier.",
        parameters=[SliceIn],
        responses={200: RunDetail, 404: NO_RUN},
        examples=[examples.got(examples.DETAIL)],
    )
    def get(self, request: Request, pk: int) -> Response:
        return Response(RunDetail(detail_of(run_row(pk), self.read_query(SliceIn))).data)


class RunCancel(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="synthesis_run_cancel",
        summary="Cancel a synthesis run",
        description="What was written is kept; resume goes on with the rest.",
        request=None,
        responses={200: RunDetail, 404: NO_RUN, 409: ENDED},
        examples=[examples.got(examples.DETAIL), examples.got(examples.ENDED, 409, "ended")],
    )
    def post(self, request: Request, pk: int) -> Response:
        run = run_row(pk)
        if run.job is None or not jobs.cancel(run.job, actor=request.user):
            raise TraceError("the run has already ended.", code="job_state", where=str(run))
        return Response(RunDetail(detail_of(run_row(pk), {})).data)


class RunResume(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="synthesis_run_resume",
        summary="Resume a synthesis run",
        description="Goes on with what is not written, with new limits where the body names some. What was spent "
        "counts against them.",
        request=ResumeIn,
        responses={200: RunDetail, 404: NO_RUN, 409: ENDED},
        examples=[
            examples.sent({"budget": {"calls": 4000}}),
            examples.got(examples.DETAIL),
            examples.got(examples.ENDED, 409, "under way"),
        ],
    )
    def post(self, request: Request, pk: int) -> Response:
        given = self.read(ResumeIn)
        services.synthesis_resume(run_row(pk), budget=given.get("budget"), actor=request.user)
        return Response(RunDetail(detail_of(run_row(pk), {})).data)


class RunBooks(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="synthesis_run_books",
        summary="Read what a synthesis run called and paid",
        description="Calls, tokens, cost and seconds by purpose and model, and errors by code, from the ledger.",
        responses={200: BooksOut, 404: NO_RUN},
        examples=[examples.got(examples.BOOKS)],
    )
    def get(self, request: Request, pk: int) -> Response:
        books = job_books(run_row(pk).job)
        answer = {"total": books.total, "lines": books.lines, "errors": counted(list(books.errors.items()))}
        return Response(BooksOut(answer).data)


class RunCalls(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="synthesis_run_calls_list",
        summary="List the model calls of a synthesis run",
        description="One row per exchange, newest first.",
        parameters=[CallListIn, *PAGE_PARAMETERS],
        responses={200: page_of(Call), 404: NO_RUN},
        examples=[examples.page(examples.CALL, "1043")],
    )
    def get(self, request: Request, pk: int) -> Response:
        given = self.read_query(CallListIn)
        run = run_row(pk)
        if (code := given.pop("error", None)) is not None:
            given["error_code"] = code
        rows = job_calls(run.job) if run.job else ModelCall.objects.none()
        return keyset_response(request, rows.filter(**given), Call, newest=True)


urlpatterns = [
    path("synthesis/estimate", Estimates.as_view(), name="api-synthesis-estimate"),
    path("synthesis/runs", Runs.as_view(), name="api-synthesis-runs"),
    path("synthesis/runs/<int:pk>", RunOne.as_view(), name="api-synthesis-run"),
    path("synthesis/runs/<int:pk>/cancel", RunCancel.as_view(), name="api-synthesis-run-cancel"),
    path("synthesis/runs/<int:pk>/resume", RunResume.as_view(), name="api-synthesis-run-resume"),
    path("synthesis/runs/<int:pk>/books", RunBooks.as_view(), name="api-synthesis-run-books"),
    path("synthesis/runs/<int:pk>/calls", RunCalls.as_view(), name="api-synthesis-run-calls"),
    *api_samples.urlpatterns,
    *api_lineage.urlpatterns,
    *api_prompts.urlpatterns,
    *api_quality.urlpatterns,
    *api_review.urlpatterns,
    *api_snapshots.urlpatterns,
    *api_team.urlpatterns,
]
