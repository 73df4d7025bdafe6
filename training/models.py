"""Runs, the curves they draw, and the trained stages they share."""

from functools import cached_property

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from synthesis.models import Snapshot
from trace_site.database import Changed, database_now
from trace_site.jobs import Job

UNDER_WAY = (Job.State.QUEUED, Job.State.RUNNING)
ENDED_BADLY = (Job.State.FAILED, Job.State.CANCELLED, Job.State.QUARANTINED)


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
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"run {self.pk} {self.cell}"

    @property
    def cell(self) -> str:
        """(F, M, R) as the paper writes it."""
        return f"({self.format}, {self.memo}, {self.retrieval})"

    @cached_property
    def seconds(self) -> float | None:
        """How long its job has taken, or is taking."""
        if self.job is None or self.job.started_at is None:
            return None
        end = self.job.finished_at or database_now()
        return max(0.0, (end - self.job.started_at).total_seconds())

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
    created_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True, help_text="when retention removed its files")


class StageClaim(models.Model):
    """Who trains a stage: a job, for as long as it runs under this fence. A claim of an older fence binds nobody."""

    key = models.CharField(max_length=64, primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    fence = models.PositiveIntegerField()


# A grid: one declared plan of cells, seeds and snapshots, and the runs it became.


class Grid(models.Model):
    """A plan as it was declared. Its runs may be shared with other grids: an equal cell is never trained twice."""

    name = models.CharField(max_length=200)
    plan = models.JSONField(help_text="snapshots, base, formats, memos, retrievals, seeds, recipe")
    key = models.CharField(max_length=64, unique=True, help_text="hash of the resolved plan")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"grid {self.pk} {self.name}"


class GridCell(models.Model):
    """One cell of a grid, in the order in which the cells train."""

    grid = models.ForeignKey(Grid, on_delete=models.CASCADE, related_name="cells")
    position = models.PositiveIntegerField()
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="grid_cells")

    class Meta:
        ordering = ["grid", "position"]
        constraints = [
            models.UniqueConstraint(fields=["grid", "position"], name="one_cell_per_position"),
            models.UniqueConstraint(fields=["grid", "run"], name="one_cell_per_run"),
        ]


# When to train again: one policy a line of models, and what it decided.


class RetrainPolicy(models.Model):
    """Builds a snapshot and trains a cell on it when enough has changed and then been quiet for a while."""

    name = models.CharField(max_length=100, unique=True)
    active = models.BooleanField(default=False, help_text="off: it says what it would do, a person starts it")
    base = models.CharField(max_length=300)
    format = models.CharField(max_length=1, choices=Run.Format)
    memo = models.CharField(max_length=4, choices=Run.Memo)
    retrieval = models.CharField(max_length=4, choices=Run.Retrieval)
    recipe = models.JSONField(default=dict, help_text="empty: the base's default recipe")
    seed = models.BigIntegerField(default=0)
    snapshot = models.JSONField(
        default=dict, help_text="how the snapshot is built: strategy, per_rule, branches, rrb, seed"
    )
    approved_samples = models.PositiveIntegerField(default=50, help_text="0: never by this")
    changed_rules = models.PositiveIntegerField(default=1, help_text="0: never by this")
    quiet_minutes = models.PositiveIntegerField(default=30)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    changed_at = Changed()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name


class Retraining(models.Model):
    """Append-only: a run that a policy started, and why."""

    policy = models.ForeignKey(RetrainPolicy, on_delete=models.PROTECT, related_name="retrainings")
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="retrainings")
    reasons = models.JSONField(help_text="approved samples, changed rules, since which run")
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="who started it by hand; empty when the policy did",
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]


# Models with their lineage, and the append-only history of aliases.


class Model(models.Model):
    """A trained model in the artefact store, with the run it came from."""

    run = models.OneToOneField(Run, on_delete=models.PROTECT, related_name="model")
    store_key = models.CharField(max_length=200)
    store_digest = models.CharField(max_length=64)
    bytes = models.BigIntegerField()
    parameters = models.BigIntegerField(default=0)
    card = models.TextField(blank=True)
    lineage = models.JSONField(
        default=dict, help_text="snapshot, rules, base, recipe and code revision it was made from"
    )
    kept_because = models.CharField(
        max_length=300, blank=True, db_default="", default="", help_text="why retention must not remove it"
    )
    removed_at = models.DateTimeField(null=True, help_text="when retention removed its files")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"model {self.pk}"


class AliasMove(models.Model):
    """Append-only: the newest row of an alias says which model it names. The `gate` of going back is
    {"back_from": the model that was left}."""

    class Alias(models.TextChoices):
        CHAMPION = "champion"
        CHALLENGER = "challenger"
        PREVIOUS = "previous"

    alias = models.CharField(max_length=10, choices=Alias)
    model = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="alias_moves")
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    note = models.CharField(max_length=300, blank=True)
    gate = models.JSONField(
        default=dict,
        db_default={},
        help_text="of a promotion: {report, verdict, said}, what the gate said of it then",
    )
    override = models.TextField(
        blank=True, default="", db_default="", help_text="why the actor promoted it without a passed gate"
    )
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]
