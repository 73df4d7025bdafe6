"""What the API answers about runs: rows, one run with its stages, its curves, and an estimate."""

from typing import Any

from rest_framework import serializers

from synthesis.api_shapes import Progress
from training.models import Run

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


class RunFigure(Out):
    value = serializers.FloatField(allow_null=True, help_text="null: unknown")
    basis = serializers.CharField(help_text="what it rests on")


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
    seconds = RunFigure()
    memory = RunFigure(help_text="bytes at the peak")
    parameters = RunFigure()
    tokens = RunFigure()
    assumes = serializers.CharField(
        help_text="what the memory counts with, in words; empty: the size is unknown"
    )
    stages = StageEstimate(many=True)
    warnings = serializers.ListField(child=serializers.CharField())
    refusal = serializers.CharField(help_text="why it cannot train; empty when it can")
