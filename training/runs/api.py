"""/api/v1/training: runs, their stages and curves, estimates, and starting, cancelling and resuming them."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.generate.serializers import Progress
from synthesis.models import Snapshot
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.rest.schema import InputSerializer, few_values, page_of
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import AnyFormat, ApiView, keyset_response
from training.core import estimate as sums
from training.core.estimate import Amount
from training.core.recipe import CELL, POCKET
from training.models import Run
from training.registry import selectors
from training.runs import services
from training.runs.curves import BUCKETS, SHOWN, Bucket, StageState, buckets, newest_points, stage_states
from training.runs.estimates import Estimate, estimate
from training.runs.selectors import narrowed
from training.runs.stages import chosen_recipe, default_recipe


class TrainingRun(Shape, of=Run):
    fields = (
        "id snapshot base format memo retrieval seed why job loss model cloned_from created_by created_at"
    )
    job: Progress | None = field("null: it was trained elsewhere")
    loss: float | None = field("the newest, a running mean")
    model: int | None = field(source="model.pk", default=None)


class StageOut(Shape, of=StageState):
    """`key`: content key; equal keys train once. `newest`: the values logged last."""

    newest: Any


class TrainingRunDetail(Shape):
    run: TrainingRun
    recipe: Any
    stages: list[StageOut]
    hardware: Any = field("of the machine that trained it")
    summary: Any = field("what the trainer said when each stage was done")


class MetricPoint(Shape, of=Bucket):
    """Some neighbouring logged steps; each value is [mean, smallest, largest]."""


class StageCurve(Shape):
    stage: str
    points: list[MetricPoint]


class MetricsOut(Shape):
    run: int
    stages: list[StageCurve]


class StageEstimate(Shape, of=Amount):
    pass


class BaseOut(Shape):
    name: str
    default: bool = field("the one that is taken when none is named")
    vllm: bool = field("vLLM can serve it; pocket is served by our own engine alone")
    recipe: Any = field("its default recipe, which a run's `recipe` goes over")


class BasesOut(Shape):
    bases: list[BaseOut]


class RunEstimateOut(Shape, of=Estimate):
    fields = "seconds memory parameters tokens assumes stages warnings refusal"


# What the API reads about runs: what to start, and the filters of the list.

NUMBER: dict[str, Any] = {"min_value": 1, "max_value": 2**31 - 1}


class RunIn(InputSerializer):
    """A cell on a snapshot. `recipe`: fields that differ from the base's default, as in recipes/*.yaml."""

    snapshot: int = field("id of a frozen snapshot", **NUMBER)
    base: str = field(
        "one of GET training/bases; without it the default one",
        default=lambda: services.configured_bases()[0],
        max_length=300,
        validators=[services.require_configured],
    )
    format: Run.Format
    memo: Run.Memo = field("Stage 1")
    retrieval: Run.Retrieval = field("Stage 2")
    seed: int = field(default=0, min_value=0, max_value=2**53)
    recipe: Any = field("fields that differ from the default", required=False, validators=[few_values])
    cloned_from: int | None = field("id of a run whose settings these are", required=False, **NUMBER)

    def validate_snapshot(self, value: int) -> Snapshot:
        if (found := Snapshot.objects.filter(pk=value).first()) is None:
            raise serializers.ValidationError(f"There is no snapshot {value}.")
        return found

    def validate_cloned_from(self, value: int | None) -> Run | None:
        found = Run.objects.filter(pk=value or 0).first()
        if value is not None and found is None:
            raise serializers.ValidationError(f"There is no run {value}.")
        return found

    def validate_recipe(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise serializers.ValidationError("Send an object.")
        if named := [name for name in CELL if name in value]:
            raise serializers.ValidationError(f"{named[0]} is a field of its own beside the recipe.")
        return value


class RunListIn(InputSerializer, total=False):
    """The filters of the runs page."""

    snapshot: int = field(**NUMBER)
    format: Run.Format
    memo: Run.Memo
    retrieval: Run.Retrieval
    base: str = field(max_length=300)
    state: Job.State
    why: Run.Why
    by: str = field("username", max_length=150)


class MetricsIn(InputSerializer):
    points: int = field("the most points of a curve", default=BUCKETS, min_value=10, max_value=1000)


ENDED = OpenApiResponse(description="job_state: the run is not in a state for this")


def answer(pk: int, **options: Any) -> Response:
    """The run as it is now."""
    run = get_object_or_404(selectors.runs(), pk=pk)
    facts = {name: getattr(run, name) for name in ("recipe", "hardware", "summary")}
    stages = stage_states(run, newest_points(run))
    return Response(TrainingRunDetail({"run": run, "stages": stages, **facts}).data, **options)


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
        recipe, snapshot = chosen_recipe(given, given.get("recipe") or {}), given["snapshot"]
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
        recipe = chosen_recipe(given, given.get("recipe") or {})
        return Response(RunEstimateOut(estimate(recipe, given["snapshot"])).data)


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
        run = get_object_or_404(Run.objects.only("pk"), pk=pk)
        found = buckets([run.pk], SHOWN, given["points"])
        stages = [{"stage": stage, "points": rows} for (_, stage), rows in found.items()]
        return Response(MetricsOut({"run": run.pk, "stages": stages}).data)


class TrainingRunCancel(ApiView):
    @extend_schema(responses={200: TrainingRunDetail, 409: ENDED})
    def post(self, request: Request, pk: int) -> Response:
        """Cancel a training run. It stops at the next step; the last checkpoint is kept, and resume goes on from it."""
        services.run_cancel(run=get_object_or_404(selectors.runs(), pk=pk), actor=request.user)
        return answer(pk)


class TrainingRunResume(ApiView):
    @extend_schema(responses={200: TrainingRunDetail, 409: ENDED})
    def post(self, request: Request, pk: int) -> Response:
        """Resume a training run. Queues a run that failed or was cancelled again; it goes on from its last
        checkpoint.
        """
        services.run_resume(run=get_object_or_404(selectors.runs(), pk=pk), actor=request.user)
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
