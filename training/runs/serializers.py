"""What the API answers about runs: rows, one run with its stages, its curves, and an estimate."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from synthesis.generate.serializers import FigureOut, Progress
from synthesis.models import Snapshot
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.rest.schema import InputSerializer, TextList, few_values
from training.core.recipe import CELL
from training.models import Run
from training.runs.curves import BUCKETS
from training.runs.services import configured_bases, require_configured

Out = serializers.Serializer[Any]


class TrainingRun(Out):
    id = serializers.IntegerField(source="pk")
    snapshot = serializers.IntegerField(source="snapshot_id")
    base = serializers.CharField()
    format = serializers.ChoiceField(Run.Format.choices)
    memo = serializers.ChoiceField(Run.Memo.choices)
    retrieval = serializers.ChoiceField(Run.Retrieval.choices)
    seed = serializers.IntegerField()
    why = serializers.ChoiceField(Run.Why.choices)
    job = Progress(allow_null=True, help_text="null: it was trained elsewhere")
    loss = serializers.FloatField(allow_null=True, help_text="the newest, a running mean")
    model = serializers.IntegerField(source="model.pk", default=None, allow_null=True)
    cloned_from = serializers.IntegerField(source="cloned_from_id", allow_null=True)
    created_by = serializers.CharField(source="created_by.username", default=None, allow_null=True)
    created_at = serializers.DateTimeField()


class StageOut(Out):
    """`key`: content key; equal keys train once. `newest`: the values logged last."""

    stage = serializers.CharField()
    key = serializers.CharField()
    state = serializers.CharField(help_text="waiting, running, done, reused, or how the run ended")
    reused_from = serializers.IntegerField(allow_null=True, help_text="the run that trained it")
    stopped_at = serializers.CharField(
        help_text="where a time limit ended it before its last step; empty when none did"
    )
    newest = serializers.JSONField()


class TrainingRunDetail(Out):
    run = TrainingRun()
    recipe = serializers.JSONField()
    stages = StageOut(many=True)
    hardware = serializers.JSONField(help_text="of the machine that trained it")
    summary = serializers.JSONField(help_text="what the trainer said when each stage was done")


class MetricPoint(Out):
    """Some neighbouring logged steps; each value is [mean, smallest, largest]."""

    step = serializers.FloatField()
    tokens = serializers.FloatField()
    seconds = serializers.FloatField()
    points = serializers.IntegerField(help_text="logged steps that it stands for")
    values = serializers.DictField(child=serializers.ListField(child=serializers.FloatField()))


class StageCurve(Out):
    stage = serializers.CharField()
    points = MetricPoint(many=True)


class MetricsOut(Out):
    run = serializers.IntegerField()
    stages = StageCurve(many=True)


class StageEstimate(Out):
    stage = serializers.CharField()
    records = serializers.IntegerField()
    tokens = serializers.IntegerField(help_text="real tokens of one epoch")
    epochs = serializers.FloatField()
    steps = serializers.IntegerField()
    seconds = serializers.FloatField(allow_null=True)
    reused_from = serializers.IntegerField(allow_null=True, help_text="the run that trained it already")


class BaseOut(Out):
    name = serializers.CharField()
    default = serializers.BooleanField(help_text="the one that is taken when none is named")
    vllm = serializers.BooleanField(help_text="vLLM can serve it; pocket is served by our own engine alone")
    recipe = serializers.JSONField(help_text="its default recipe, which a run's `recipe` goes over")


class BasesOut(Out):
    bases = BaseOut(many=True)


class RunEstimateOut(Out):
    seconds = FigureOut()
    memory = FigureOut(help_text="bytes at the peak")
    parameters = FigureOut()
    tokens = FigureOut()
    assumes = serializers.CharField(
        help_text="what the memory counts with, in words; empty: the size is unknown"
    )
    stages = StageEstimate(many=True)
    warnings = TextList()
    refusal = serializers.CharField(help_text="why it cannot train; empty when it can")


# What the API reads about runs: what to start, and the filters of the list.

NUMBER: dict[str, Any] = {"min_value": 1, "max_value": 2**31 - 1}


class RunIn(InputSerializer):
    """A cell on a snapshot. `recipe`: fields that differ from the base's default, as in recipes/*.yaml."""

    snapshot = serializers.IntegerField(**NUMBER, help_text="id of a frozen snapshot")
    base = serializers.CharField(
        default=lambda: configured_bases()[0],
        max_length=300,
        help_text="one of GET training/bases; without it the default one",
    )
    format = serializers.ChoiceField(Run.Format.choices)
    memo = serializers.ChoiceField(Run.Memo.choices, help_text="Stage 1")
    retrieval = serializers.ChoiceField(Run.Retrieval.choices, help_text="Stage 2")
    seed = serializers.IntegerField(default=0, min_value=0, max_value=2**53)
    recipe = serializers.JSONField(
        required=False, validators=[few_values], help_text="fields that differ from the default"
    )
    cloned_from = serializers.IntegerField(
        required=False, allow_null=True, **NUMBER, help_text="id of a run whose settings these are"
    )

    def validate_snapshot(self, value: int) -> Snapshot:
        if (found := Snapshot.objects.filter(pk=value).first()) is None:
            raise serializers.ValidationError(f"There is no snapshot {value}.")
        return found

    def validate_base(self, value: str) -> str:
        try:
            require_configured(value)
        except TraceError as error:
            raise serializers.ValidationError(f"{error.message} {error.hint}") from error
        return value

    def validate_cloned_from(self, value: int | None) -> Run | None:
        if value is not None and not Run.objects.filter(pk=value).exists():
            raise serializers.ValidationError(f"There is no run {value}.")
        return None if value is None else Run.objects.get(pk=value)

    def validate_recipe(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise serializers.ValidationError("Send an object.")
        if named := [name for name in CELL if name in value]:
            raise serializers.ValidationError(f"{named[0]} is a field of its own beside the recipe.")
        return value


class RunListIn(InputSerializer):
    """The filters of the runs page."""

    snapshot = serializers.IntegerField(required=False, **NUMBER)
    format = serializers.ChoiceField(Run.Format.choices, required=False)
    memo = serializers.ChoiceField(Run.Memo.choices, required=False)
    retrieval = serializers.ChoiceField(Run.Retrieval.choices, required=False)
    base = serializers.CharField(required=False, max_length=300)
    state = serializers.ChoiceField(Job.State.choices, required=False)
    why = serializers.ChoiceField(Run.Why.choices, required=False)
    by = serializers.CharField(required=False, max_length=150, help_text="username")


class MetricsIn(InputSerializer):
    points = serializers.IntegerField(
        default=BUCKETS, min_value=10, max_value=1000, help_text="the most points of a curve"
    )
