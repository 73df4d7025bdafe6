"""/api/v1/training: runs, their stages and curves, estimates, and starting, cancelling and resuming them."""

from dataclasses import asdict
from typing import Any

from django.http import Http404
from django.urls import path, reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response

from trace_site import jobs
from trace_site.lib.errors import TraceError
from trace_site.rest.examples import answer_example, page_example, request_example
from trace_site.rest.schema import PAGE_PARAMETERS, page_of
from trace_site.rest.views import ApiView, keyset_response
from training.core import estimate as sums
from training.core import recipe as recipes
from training.core.recipe import POCKET, Recipe
from training.core.recipe_fields import flat, flat_json, nested
from training.models import Run
from training.registry import selectors
from training.runs import serializers as examples
from training.runs import services
from training.runs.curves import SHOWN, buckets, newest_points, stage_states
from training.runs.estimates import estimate
from training.runs.selectors import narrowed
from training.runs.serializers import (
    BasesOut,
    MetricsIn,
    MetricsOut,
    RunEstimateOut,
    RunIn,
    RunListIn,
    TrainingRun,
    TrainingRunDetail,
)
from training.runs.stages import default_recipe

NO_RUN = OpenApiResponse(description="no such run")
ENDED = OpenApiResponse(description="job_state: the run is not in a state for this")


def run_row(pk: int) -> Run:
    """The run with its newest loss. Raises Http404."""
    if (run := selectors.runs().filter(pk=pk).first()) is None:
        raise Http404
    return run


def detail_of(run: Run) -> dict[str, Any]:
    points = newest_points(run)
    return {
        "run": run,
        "recipe": run.recipe,
        "stages": stage_states(run, points),
        "hardware": run.hardware,
        "summary": run.summary,
    }


def asked(given: dict[str, Any]) -> tuple[dict[str, Any], Recipe]:
    """(the cell, its recipe): the base's default with the given fields over it. Raises `bad_recipe`."""
    cell = {name: given[name] for name in ("base", "format", "memo", "retrieval", "seed")}
    default = flat(default_recipe(cell["base"]))
    recipe = recipes.from_dict(nested(default | flat_json(given.get("recipe") or {})))
    return cell, services.cell_recipe(recipe, **cell)


class AnyFormat(DefaultContentNegotiation):
    """`?format=` is the token format; REST framework would look for a renderer of that name."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class Runs(ApiView):
    content_negotiation_class = AnyFormat

    @extend_schema(
        tags=["training"],
        operation_id="training_runs_list",
        summary="List training runs",
        description="Newest first, with what the filters name.",
        parameters=[RunListIn, *PAGE_PARAMETERS],
        responses=page_of(TrainingRun),
        examples=[page_example(examples.RUN, "11")],
    )
    def get(self, request: Request) -> Response:
        rows = narrowed(selectors.runs(), self.read_query(RunListIn))
        return keyset_response(request, rows, TrainingRun, newest=True)

    @extend_schema(
        tags=["training"],
        operation_id="training_run_create",
        summary="Start a training run",
        description="Queues one cell on a snapshot; evaluation follows by itself. An equal run made before is answered "
        "instead of training again, and a stage that another run trained is reused.",
        request=RunIn,
        responses={201: TrainingRunDetail},
        examples=[
            request_example(examples.STARTED),
            answer_example(examples.DETAIL, 201),
            answer_example(examples.NO_SNAPSHOT, 400, "no such snapshot"),
            answer_example(examples.NO_BASE, 400, "no such base"),
        ],
    )
    def post(self, request: Request) -> Response:
        given = self.read(RunIn)
        cell, recipe = asked(given)
        snapshot = given["snapshot"]
        if refused := sums.refusal(recipe, snapshot.counts):
            raise TraceError(refused, code="no_samples", where=f"snapshot {snapshot.pk}")
        run = services.run_create(
            snapshot=snapshot,
            **cell,
            recipe=recipe,
            cloned_from=given.get("cloned_from"),
            actor=request.user,
        )
        place = {"Location": reverse("api-training-run", args=[run.pk])}
        return Response(TrainingRunDetail(detail_of(run_row(run.pk))).data, status=201, headers=place)


class Estimates(ApiView):
    @extend_schema(
        tags=["training"],
        operation_id="training_estimate",
        summary="Estimate a training run without starting it",
        description="Time, memory, tokens and the stages that are there already; each figure says what it rests on.",
        request=RunIn,
        responses={200: RunEstimateOut},
        examples=[
            request_example(examples.STARTED),
            answer_example(examples.ESTIMATE),
            answer_example(examples.NO_SNAPSHOT, 400, "no such snapshot"),
        ],
    )
    def post(self, request: Request) -> Response:
        given = self.read(RunIn)
        _, recipe = asked(given)
        return Response(RunEstimateOut(estimate(recipe, given["snapshot"])).data)


class Bases(ApiView):
    @extend_schema(
        tags=["training"],
        operation_id="training_bases_list",
        summary="List the bases that runs may be trained on",
        description="Those that BASE_MODEL and BASE_MODELS name, and pocket; each with its own default recipe.",
        responses={200: BasesOut},
        examples=[answer_example(examples.BASES)],
    )
    def get(self, request: Request) -> Response:
        known = services.configured_bases()
        bases = [
            {
                "name": name,
                "default": name == known[0],
                "vllm": name != POCKET,
                "recipe": asdict(default_recipe(name).with_cell(base=name)),
            }
            for name in known
        ]
        return Response(BasesOut({"bases": bases}).data)


class RunOne(ApiView):
    @extend_schema(
        tags=["training"],
        operation_id="training_run_read",
        summary="Read a training run",
        description="Progress, recipe, and its stages: trained here, reused, or still to come.",
        responses={200: TrainingRunDetail, 404: NO_RUN},
        examples=[answer_example(examples.DETAIL)],
    )
    def get(self, request: Request, pk: int) -> Response:
        return Response(TrainingRunDetail(detail_of(run_row(pk))).data)


class RunMetrics(ApiView):
    @extend_schema(
        tags=["training"],
        operation_id="training_run_metrics",
        summary="Read the curves of a training run",
        description=f"Loss, learning rate and the rest ({', '.join(SHOWN)}), a curve a stage, at most `points` points "
        "however long the run: means of neighbouring steps with their smallest and largest values.",
        parameters=[MetricsIn],
        responses={200: MetricsOut, 404: NO_RUN},
        examples=[answer_example(examples.CURVES)],
    )
    def get(self, request: Request, pk: int) -> Response:
        given = self.read_query(MetricsIn)
        run = run_row(pk)
        found = buckets([run.pk], SHOWN, given["points"])
        stages = [
            {"stage": stage, "points": [asdict(one) for one in rows]} for (_, stage), rows in found.items()
        ]
        return Response(MetricsOut({"run": run.pk, "stages": stages}).data)


class RunCancel(ApiView):
    @extend_schema(
        tags=["training"],
        operation_id="training_run_cancel",
        summary="Cancel a training run",
        description="It stops at the next step; the last checkpoint is kept, and resume goes on from it.",
        request=None,
        responses={200: TrainingRunDetail, 404: NO_RUN, 409: ENDED},
        examples=[answer_example(examples.DETAIL), answer_example(examples.ENDED, 409, "ended")],
    )
    def post(self, request: Request, pk: int) -> Response:
        run = run_row(pk)
        if run.job is None or not jobs.cancel(run.job, actor=request.user):
            raise TraceError("the run has already ended.", code="job_state", where=str(run))
        return Response(TrainingRunDetail(detail_of(run_row(pk))).data)


class RunResume(ApiView):
    @extend_schema(
        tags=["training"],
        operation_id="training_run_resume",
        summary="Resume a training run",
        description="Queues a run that failed or was cancelled again; it goes on from its last checkpoint.",
        request=None,
        responses={200: TrainingRunDetail, 404: NO_RUN, 409: ENDED},
        examples=[answer_example(examples.DETAIL), answer_example(examples.ENDED, 409, "under way")],
    )
    def post(self, request: Request, pk: int) -> Response:
        run = run_row(pk)
        if run.job is None or not jobs.retry(run.job, actor=request.user):
            raise TraceError(
                "only a run that failed or was cancelled can be resumed.", code="job_state", where=str(run)
            )
        return Response(TrainingRunDetail(detail_of(run_row(pk))).data)


urlpatterns = [
    path("training/bases", Bases.as_view(), name="api-training-bases"),
    path("training/estimate", Estimates.as_view(), name="api-training-estimate"),
    path("training/runs", Runs.as_view(), name="api-training-runs"),
    path("training/runs/<int:pk>", RunOne.as_view(), name="api-training-run"),
    path("training/runs/<int:pk>/metrics", RunMetrics.as_view(), name="api-training-run-metrics"),
    path("training/runs/<int:pk>/cancel", RunCancel.as_view(), name="api-training-run-cancel"),
    path("training/runs/<int:pk>/resume", RunResume.as_view(), name="api-training-run-resume"),
]
