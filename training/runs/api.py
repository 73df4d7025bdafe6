"""/api/v1/training: runs, their stages and curves, estimates, and starting, cancelling and resuming them."""

from dataclasses import asdict
from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from trace_site.lib.errors import TraceError
from trace_site.rest.schema import page_of
from trace_site.rest.views import AnyFormat, ApiView, keyset_response
from training.core import estimate as sums
from training.core import recipe as recipes
from training.core.recipe import CELL, POCKET, Recipe
from training.models import Run
from training.registry import selectors
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
from training.runs.stages import default_recipe, over_default

ENDED = OpenApiResponse(description="job_state: the run is not in a state for this")


def run_row(pk: int) -> Run:
    row: Run = get_object_or_404(selectors.runs(), pk=pk)
    return row


def answer(pk: int, **options: Any) -> Response:
    """The run as it is now."""
    run = run_row(pk)
    facts = {name: getattr(run, name) for name in ("recipe", "hardware", "summary")}
    stages = stage_states(run, newest_points(run))
    return Response(TrainingRunDetail({"run": run, "stages": stages, **facts}).data, **options)


def recipe_of(given: dict[str, Any]) -> Recipe:
    """The base's default with the given fields over it. Raises `bad_recipe`."""
    recipe = recipes.from_dict(over_default(given["base"], given.get("recipe") or {}))
    return recipe.with_cell(**{name: given[name] for name in CELL})


class TrainingRunsList(ApiView):
    content_negotiation_class = AnyFormat

    @extend_schema(parameters=[RunListIn], responses=page_of(TrainingRun))
    def get(self, request: Request) -> Response:
        """List training runs. Newest first, with what the filters name."""
        rows = narrowed(selectors.runs(), self.read_query(RunListIn))
        return keyset_response(request, rows, TrainingRun, newest=True)

    @extend_schema(request=RunIn, responses={201: TrainingRunDetail})
    def post(self, request: Request) -> Response:
        """Start a training run. Queues one cell on a snapshot; evaluation follows by itself. An equal run
        made before is answered instead of training again, and a stage that another run trained is reused.
        """
        given = self.read(RunIn)
        recipe, snapshot = recipe_of(given), given["snapshot"]
        if refused := sums.refusal(recipe, snapshot.counts):
            raise TraceError(refused, code="no_samples", where=f"snapshot {snapshot.pk}")
        run = services.run_create(
            snapshot=snapshot, recipe=recipe, cloned_from=given.get("cloned_from"), actor=request.user
        )
        return answer(run.pk, status=201, headers={"Location": reverse("api-training-run", args=[run.pk])})


class TrainingEstimate(ApiView):
    @extend_schema(request=RunIn, responses=RunEstimateOut)
    def post(self, request: Request) -> Response:
        """Estimate a training run without starting it. Time, memory, tokens and the stages that are there
        already; each figure says what it rests on.
        """
        given = self.read(RunIn)
        return Response(RunEstimateOut(estimate(recipe_of(given), given["snapshot"])).data)


class TrainingBasesList(ApiView):
    @extend_schema(responses=BasesOut)
    def get(self, request: Request) -> Response:
        """List the bases that runs may be trained on. Those that BASE_MODEL and BASE_MODELS name, and pocket;
        each with its own default recipe.
        """
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


class TrainingRunOne(ApiView):
    @extend_schema(responses=TrainingRunDetail)
    def get(self, request: Request, pk: int) -> Response:
        """Read a training run. Progress, recipe, and its stages: trained here, reused, or still to come."""
        return answer(pk)


class TrainingRunMetrics(ApiView):
    @extend_schema(
        description=f"Loss, learning rate and the rest ({', '.join(SHOWN)}), a curve a stage, at most `points` points "
        "however long the run: means of neighbouring steps with their smallest and largest values.",
        parameters=[MetricsIn],
        responses=MetricsOut,
    )
    def get(self, request: Request, pk: int) -> Response:
        """Read the curves of a training run."""
        given = self.read_query(MetricsIn)
        run = run_row(pk)
        found = buckets([run.pk], SHOWN, given["points"])
        stages = [
            {"stage": stage, "points": [asdict(one) for one in rows]} for (_, stage), rows in found.items()
        ]
        return Response(MetricsOut({"run": run.pk, "stages": stages}).data)


class TrainingRunCancel(ApiView):
    @extend_schema(responses={200: TrainingRunDetail, 409: ENDED})
    def post(self, request: Request, pk: int) -> Response:
        """Cancel a training run. It stops at the next step; the last checkpoint is kept, and resume goes on from it."""
        services.run_cancel(run=run_row(pk), actor=request.user)
        return answer(pk)


class TrainingRunResume(ApiView):
    @extend_schema(responses={200: TrainingRunDetail, 409: ENDED})
    def post(self, request: Request, pk: int) -> Response:
        """Resume a training run. Queues a run that failed or was cancelled again; it goes on from its last
        checkpoint.
        """
        services.run_resume(run=run_row(pk), actor=request.user)
        return answer(pk)


urlpatterns = [
    path("training/bases", TrainingBasesList.as_view(), name="api-training-bases"),
    path("training/estimate", TrainingEstimate.as_view(), name="api-training-estimate"),
    path("training/runs", TrainingRunsList.as_view(), name="api-training-runs"),
    path("training/runs/<int:pk>", TrainingRunOne.as_view(), name="api-training-run"),
    path("training/runs/<int:pk>/metrics", TrainingRunMetrics.as_view(), name="api-training-run-metrics"),
    path("training/runs/<int:pk>/cancel", TrainingRunCancel.as_view(), name="api-training-run-cancel"),
    path("training/runs/<int:pk>/resume", TrainingRunResume.as_view(), name="api-training-run-resume"),
]
