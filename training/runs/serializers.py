"""What the API answers about runs: rows, one run with its stages, its curves, and an estimate."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from synthesis.generate.serializers import JOB, Progress
from synthesis.models import Snapshot
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.rest.examples import AT
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


# Examples of the API's description: a pocket run under way, its stages, curves and estimate.


CELL_EXAMPLE = {"base": "pocket", "format": "a", "memo": "m", "retrieval": "r+R", "seed": 0}
RUN = {
    "id": 12,
    "snapshot": 4,
    **CELL_EXAMPLE,
    "why": "manual",
    "job": JOB,
    "loss": 1.184,
    "model": None,
    "cloned_from": 11,
    "created_by": "ada",
    "created_at": AT,
}
NEWEST = {"step": 225, "steps": 464, "loss": 1.184, "lr": 0.0002, "tokens": 262798, "tokens_per_second": 1658}
DETAIL = {
    "run": RUN,
    "recipe": {**CELL_EXAMPLE, "bf16": True, "stage2": {"lr": 0.002, "batch_size": 16, "epochs": 8.0}},
    "stages": [
        {
            "stage": "stage1",
            "key": "f05b782c",
            "state": "reused",
            "reused_from": 9,
            "stopped_at": "",
            "newest": {},
        },
        {
            "stage": "stage2",
            "key": "4f7db862",
            "state": "running",
            "reused_from": None,
            "stopped_at": "",
            "newest": NEWEST,
        },
    ],
    "hardware": {"cpu": "AMD EPYC", "cores": 2, "threads": 2, "memory_gb": 24, "gpu": ""},
    "summary": {"stage1": {"reused_from_run": 9}},
}
STARTED: dict[str, Any] = {
    "snapshot": 4,
    **CELL_EXAMPLE,
    "recipe": {"stage2": {"epochs": 3}},
    "cloned_from": 11,
}
BASES = {
    "bases": [
        {
            "name": "google/gemma-4-E4B-it",
            "default": True,
            "vllm": True,
            "recipe": {"embeddings": "full", "lora": {"rank": 64, "alpha": 128}},
        },
        {
            "name": "pocket",
            "default": False,
            "vllm": False,
            "recipe": {"pocket": {"hidden": 192, "layers": 2}},
        },
    ]
}
NO_BASE = {
    "message": "/base: 'qwen' is not configured here; the bases are google/gemma-4-E4B-it, pocket."
    " Name it in BASE_MODELS, or start it with a command.",
    "code": "bad_input",
    "extra": {
        "base": [
            "'qwen' is not configured here; the bases are google/gemma-4-E4B-it, pocket."
            " Name it in BASE_MODELS, or start it with a command."
        ]
    },
}
CURVES = {
    "run": 12,
    "stages": [
        {
            "stage": "stage2",
            "points": [
                {
                    "step": 4.5,
                    "tokens": 5200.0,
                    "seconds": 3.1,
                    "points": 8,
                    "values": {"loss": [7.9, 7.6, 8.2], "lr": [0.0004, 0.0001, 0.0007]},
                }
            ],
        }
    ],
}
ESTIMATE = {
    "seconds": {"value": 221, "basis": "from 3 earlier runs on this hardware: 1,678 tokens/s"},
    "memory": {"value": 1415577600, "basis": "the peak of 3 earlier runs with these settings here"},
    "parameters": {"value": 3271296, "basis": "counted from the recipe and the catalog"},
    "tokens": {
        "value": 530776,
        "basis": "from the lengths of the snapshot's rows; what is reused is not counted",
    },
    "assumes": "No GPU; memory of 24 GB. 3.3 million train in fp32, each with its gradient and two moments of AdamW: "
    "all but the word rows of the encoder. 16 sequences of up to 512 tokens at once, their activations in fp32.",
    "stages": [
        {
            "stage": "stage1",
            "records": 645,
            "tokens": 27481,
            "epochs": 8.0,
            "steps": 328,
            "seconds": 0.0,
            "reused_from": 9,
        }
    ],
    "warnings": [],
    "refusal": "",
}
NO_SNAPSHOT = {
    "message": "/snapshot: There is no snapshot 4.",
    "code": "bad_input",
    "extra": {"snapshot": ["There is no snapshot 4."]},
}
ENDED = {"message": "run 12 (a, m, r+R): the run has already ended.", "code": "job_state", "extra": {}}
