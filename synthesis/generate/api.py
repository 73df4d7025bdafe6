"""/api/v1/synthesis: runs with their funnel and books, estimates, the yield per rule; samples in api_samples."""

from dataclasses import asdict
from typing import Any

from django.http import Http404
from django.urls import path, reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.generate import examples, selectors, services
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
)
from synthesis.generate.yields import rule_book
from synthesis.llm.usage import job_books, job_calls, spent
from synthesis.models import ModelCall, SynthesisRun
from synthesis.samples.serializers import YieldRow
from trace_site import jobs
from trace_site.lib.errors import TraceError
from trace_site.lib.llm import Spent
from trace_site.rest.examples import answer_example, page_example, request_example
from trace_site.rest.schema import PAGE_PARAMETERS, page_of
from trace_site.rest.views import ApiView, keyset_response, page_limit

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
        examples=[page_example(examples.RUN, "7")],
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
            request_example(examples.OPTIONS),
            answer_example(examples.DETAIL, 201),
            answer_example(examples.NO_RULE, 400, "no such rule"),
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
            request_example(examples.OPTIONS),
            answer_example(examples.ESTIMATE),
            answer_example(examples.NO_RULE, 400, "no such rule"),
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
        examples=[answer_example(examples.DETAIL)],
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
        examples=[answer_example(examples.DETAIL), answer_example(examples.ENDED, 409, "ended")],
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
            request_example({"budget": {"calls": 4000}}),
            answer_example(examples.DETAIL),
            answer_example(examples.ENDED, 409, "under way"),
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
        examples=[answer_example(examples.BOOKS)],
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
        examples=[page_example(examples.CALL, "1043")],
    )
    def get(self, request: Request, pk: int) -> Response:
        given = self.read_query(CallListIn)
        run = run_row(pk)
        if (code := given.pop("error", None)) is not None:
            given["error_code"] = code
        rows = job_calls(run.job) if run.job else ModelCall.objects.none()
        return keyset_response(request, rows.filter(**given), Call, newest=True)


class Yields(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="yield_list",
        summary="List what the writers made of each rule",
        description="Published rules, those that miss most of their target first. Styles that a rule cannot support "
        "are named with the reason.",
        parameters=[YieldIn, *PAGE_PARAMETERS],
        responses=page_of(YieldRow),
        examples=[page_example(examples.YIELD, "50")],
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
    path("synthesis/estimate", Estimates.as_view(), name="api-synthesis-estimate"),
    path("synthesis/yield", Yields.as_view(), name="api-yield"),
    path("synthesis/runs", Runs.as_view(), name="api-synthesis-runs"),
    path("synthesis/runs/<int:pk>", RunOne.as_view(), name="api-synthesis-run"),
    path("synthesis/runs/<int:pk>/cancel", RunCancel.as_view(), name="api-synthesis-run-cancel"),
    path("synthesis/runs/<int:pk>/resume", RunResume.as_view(), name="api-synthesis-run-resume"),
    path("synthesis/runs/<int:pk>/books", RunBooks.as_view(), name="api-synthesis-run-books"),
    path("synthesis/runs/<int:pk>/calls", RunCalls.as_view(), name="api-synthesis-run-calls"),
]
