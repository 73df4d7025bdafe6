"""What the API answers about runs: rows, one run with its stages, its curves, and an estimate."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from synthesis.generate.serializers import Progress
from synthesis.models import Snapshot
from trace_site.jobs import Job
from trace_site.rest.schema import InputSerializer, few_values
from trace_site.rest.shapes import Shape, field
from training.core.estimate import Amount
from training.core.recipe import CELL
from training.models import Run
from training.runs.curves import BUCKETS, Bucket, StageState
from training.runs.estimates import Estimate
from training.runs.services import configured_bases, require_configured


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
        default=lambda: configured_bases()[0],
        max_length=300,
        validators=[require_configured],
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
