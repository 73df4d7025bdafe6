"""Runs, the curves they draw, and the trained stages they share."""

from django.conf import settings
from django.db import models

from synthesis.models import Snapshot
from trace_site.jobs import Job


class Run(models.Model):
    """One cell (F, M, R) trained on one snapshot with one recipe and seed."""

    class Format(models.TextChoices):
        FLAT = "a", "a (flat)"
        HIERARCHICAL = "b", "b (hierarchical)"
        WRAPPED = "c", "c (wrapped)"

    class Memo(models.TextChoices):
        NONE = "none"
        MEMO = "m"
        REASONED = "mr"

    class Retrieval(models.TextChoices):
        NONE = "none"
        PLAIN = "n"
        REASONED = "r"
        RULES = "r+R"
        PLAIN_THEN_REASONED = "n>r"

    class Why(models.TextChoices):
        MANUAL = "manual", "started by a person"
        GRID = "grid", "a cell of a grid"
        POLICY = "policy", "the retraining policy"
        IMPORT = "import", "trained elsewhere"

    key = models.CharField(
        max_length=64, unique=True, help_text="hash of snapshot, base, cell, recipe and seed"
    )
    job = models.OneToOneField(Job, null=True, on_delete=models.PROTECT, related_name="training_run")
    snapshot = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="runs")
    base = models.CharField(max_length=300)
    format = models.CharField(max_length=1, choices=Format)
    memo = models.CharField(max_length=4, choices=Memo)
    retrieval = models.CharField(max_length=4, choices=Retrieval)
    recipe = models.JSONField()
    seed = models.BigIntegerField(default=0)
    stages = models.JSONField(
        default=list, help_text="[{stage, key}] in training order; equal keys train once"
    )
    why = models.CharField(max_length=10, choices=Why, default=Why.MANUAL)
    cloned_from = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="clones")
    hardware = models.JSONField(default=dict)
    summary = models.JSONField(default=dict)
    log_tail = models.TextField(blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"run {self.pk} {self.cell}"

    @property
    def cell(self) -> str:
        """(F, M, R) as the paper writes it."""
        return f"({self.format}, {self.memo}, {self.retrieval})"

    @property
    def stopped_at(self) -> dict[str, str]:
        """{stage: where} of the stages it trained itself and that a time limit ended before their last step."""
        facts = (
            (stage, one.get("training") or {}) for stage, one in self.summary.items() if isinstance(one, dict)
        )
        return {stage: str(told["Stopped at"]) for stage, told in facts if "Stopped at" in told}


class RunMetric(models.Model):
    """One point of a run's curves, copied from metrics.jsonl as it grows."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="metrics")
    stage = models.CharField(max_length=10)
    step = models.PositiveIntegerField()
    data = models.JSONField(help_text="loss, lr, tokens, tokens_per_second, memory_mb, seconds, epoch")

    class Meta:
        ordering = ["run", "stage", "step"]
        constraints = [models.UniqueConstraint(fields=["run", "stage", "step"], name="one_metric_per_step")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.stage} {self.step}"


class TrainedStage(models.Model):
    """A stage somebody trained, kept for every run that needs the same one.

    The key hashes all that goes into the weights: catalog or snapshot, cell, base, settings, seed and the stage before.
    """

    class Stage(models.TextChoices):
        STAGE1 = "stage1", "Stage 1"
        PLAIN = "plain", "Stage 2, plain"
        STAGE2 = "stage2", "Stage 2"

    key = models.CharField(max_length=64, unique=True)
    stage = models.CharField(max_length=10, choices=Stage, default=Stage.STAGE1)
    run = models.ForeignKey(
        Run, on_delete=models.PROTECT, related_name="+", help_text="the run that trained it"
    )
    store_key = models.CharField(max_length=200)
    store_digest = models.CharField(max_length=64)
    bytes = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, help_text="when retention removed its files")

    def __str__(self) -> str:
        return f"{self.stage} {self.key[:12]}"


class StageClaim(models.Model):
    """Who trains a stage: a job, for as long as it runs under this fence. A claim of an older fence binds nobody."""

    key = models.CharField(max_length=64, primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    fence = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.key[:12]} by job {self.job_id}"
