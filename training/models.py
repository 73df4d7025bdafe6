"""Runs, the curves they draw, the models they make, and the append-only history of aliases."""

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
    stage1_key = models.CharField(max_length=64, blank=True)
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


class Stage1(models.Model):
    """A trained Stage 1, shared by every run with the same catalog, format, base, recipe and seed."""

    key = models.CharField(max_length=64, unique=True)
    run = models.ForeignKey(
        Run, on_delete=models.PROTECT, related_name="+", help_text="the run that trained it"
    )
    store_key = models.CharField(max_length=200)
    store_digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.key[:12]


class Model(models.Model):
    """A trained model in the artefact store, with the run it came from."""

    run = models.OneToOneField(Run, on_delete=models.PROTECT, related_name="model")
    store_key = models.CharField(max_length=200)
    store_digest = models.CharField(max_length=64)
    bytes = models.BigIntegerField()
    parameters = models.BigIntegerField(default=0)
    card = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"model {self.pk}"


class AliasMove(models.Model):
    """Append-only: the newest row of an alias says which model it names."""

    class Alias(models.TextChoices):
        CHAMPION = "champion"
        CHALLENGER = "challenger"
        PREVIOUS = "previous"

    alias = models.CharField(max_length=10, choices=Alias)
    model = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="alias_moves")
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    note = models.CharField(max_length=300, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.alias} -> {self.model_id}"
