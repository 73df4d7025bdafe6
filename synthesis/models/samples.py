"""Runs, samples, every attempt behind a sample, the ledger of calls, and frozen datasets."""

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.contrib.postgres.search import SearchVector
from django.db import models
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Now

from catalog.models import Domain, LabelledQuery, Tool
from rules.models import RuleVersion
from trace_site.database import Changed
from trace_site.jobs import Job

USER = settings.AUTH_USER_MODEL
# What lists filter on, as one number (the SQL function synthesis_facet): few values, and one index over them serves
# every combination of filters at any depth.
FACET = models.Func(
    *("branch", "domain", "style", "tier", "machine", "human", "approved_how", "writer"),
    function="synthesis_facet",
    output_field=models.BigIntegerField(),
)
WORDS = SearchVector("query", config="simple")


class SynthesisRun(models.Model):
    class Branch(models.TextChoices):
        RRB = "rrb", "RRB"
        RULE = "rule"
        IMPORTED = "imported"

    job = models.OneToOneField(Job, null=True, on_delete=models.PROTECT, related_name="synthesis_run")
    branch = models.CharField(max_length=8, choices=Branch)
    writer = models.CharField(max_length=120, help_text="offline, or llm:model")
    seed = models.BigIntegerField(default=0)
    params = models.JSONField(default=dict)
    skipped = models.JSONField(default=list, help_text="[{rule, style, reason}] styles a rule cannot support")
    units = models.BigIntegerField(
        null=True, help_text="how many samples it planned; none: as many as it has"
    )
    created_by = models.ForeignKey(USER, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"synthesis {self.pk} ({self.branch})"


class Sample(models.Model):
    """(q, z, A) with its provenance. Machine status and human status are two fields."""

    class Style(models.TextChoices):
        EXPLICIT = "explicit"
        IMPLICIT = "implicit"
        EXCEPTION = "exception"
        UNDERSPECIFIED = "underspecified"

    class Tier(models.TextChoices):
        EASY = "easy"
        MEDIUM = "medium"
        HARD = "hard"

    class Machine(models.TextChoices):
        PENDING = "pending", "being written"
        READY = "ready"
        DROPPED = "dropped"

    class Human(models.TextChoices):
        PENDING = "pending", "to review"
        SECOND = "second", "second reading"
        DISPUTED = "disputed", "to adjudicate"
        APPROVED = "approved"
        REJECTED = "rejected"

    class How(models.TextChoices):
        READ = "read", "read"
        EDITED = "edited", "edited"
        SECOND = "second", "read twice"
        ADJUDICATED = "adjudicated"
        BULK = "bulk", "read in bulk"
        BATCH = "batch", "accepted with its batch, not read"
        POLICY = "policy", "by policy, not read"
        IMPORT = "import", "imported as approved"

    run = models.ForeignKey(SynthesisRun, on_delete=models.PROTECT, related_name="samples", db_index=False)
    key = models.CharField(
        max_length=64, unique=True, help_text="content key over everything that makes the sample"
    )
    slot = models.CharField(
        max_length=300,
        blank=True,
        help_text="its place in the plan, kept while rule, tools and prompts change: `rule:hr:PAYOUT:explicit:3`",
    )
    branch = models.CharField(max_length=8, choices=SynthesisRun.Branch)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="+", db_index=False)
    rule_version = models.ForeignKey(
        RuleVersion, null=True, on_delete=models.PROTECT, related_name="samples", db_index=False
    )
    anchor = models.ForeignKey(Tool, null=True, on_delete=models.PROTECT, related_name="+")
    labelled_query = models.ForeignKey(LabelledQuery, null=True, on_delete=models.PROTECT, related_name="+")
    style = models.CharField(max_length=14, choices=Style, blank=True)
    tier = models.CharField(max_length=6, choices=Tier, blank=True)
    seed = models.BigIntegerField()
    pool = models.JSONField(default=list, help_text="tool names, in the shuffled order the writers saw")
    answer = models.JSONField(default=list, help_text="tool names, A")
    query = models.TextField(blank=True)
    explanation = models.TextField(blank=True)
    trace = models.TextField(blank=True, help_text="with tool names; tokens replace them at training time")
    permissions = models.JSONField(
        default=list, help_text="the request's permission targets, if it carries any"
    )
    writer = models.CharField(max_length=120)
    machine = models.CharField(max_length=8, choices=Machine, default=Machine.PENDING)
    human = models.CharField(max_length=8, choices=Human, default=Human.PENDING)
    approved_by = models.CharField(
        max_length=200, blank=True, help_text="person, or the policy and its numbers"
    )
    approved_how = models.CharField(max_length=11, choices=How, blank=True, db_default="")
    made_from = models.JSONField(
        default=dict, help_text="the inputs behind the key, so that 'why stale' has an answer"
    )
    content = models.GeneratedField(
        expression=KeyTextTransform("content", "made_from"),
        output_field=models.CharField(max_length=64),
        db_persist=True,
    )
    created_at = models.DateTimeField(db_default=Now())
    updated_at = Changed()

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["human", "machine", "id"]),
            models.Index(fields=["branch", "slot"], name="samples_by_slot"),
            models.Index(fields=["rule_version", "style", "human"]),
            models.Index(
                fields=["rule_version"],
                condition=models.Q(machine="ready", human="approved"),
                name="approved_of_rule_version",
            ),
            models.Index(  # the funnel of a run is counted without reading the samples' texts
                fields=["run", "id"],
                include=["machine", "human", "domain", "rule_version", "style", "tier"],
                name="funnel_of_run",
            ),
            models.Index(fields=["rule_version", "anchor", "content"], name="content_of_samples"),
            GinIndex(fields=["pool"], name="samples_by_pool"),  # which samples hold a tool
            models.Index(FACET, "id", name="samples_by_facet"),
            GinIndex(WORDS, name="samples_by_words"),
        ]

    def __str__(self) -> str:
        return f"sample {self.pk}"


class Attempt(models.Model):
    """One try at a sample, kept whether it passed or not."""

    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, related_name="attempts")
    number = models.PositiveIntegerField()
    query = models.TextField(blank=True)
    trace = models.TextField(blank=True)
    answer = models.JSONField(default=list)
    outcome = models.CharField(max_length=10, help_text="ready, filtered, judged_out or error")
    filter_failures = models.JSONField(default=list, help_text="[{check, message, evidence}]")
    judge = models.JSONField(default=dict, help_text="{axis: score, critique}")
    critique = models.TextField(blank=True, help_text="what the next attempt is told")
    error = models.TextField(blank=True)
    error_code = models.CharField(max_length=60, blank=True)
    calls = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["sample", "number"]
        constraints = [
            models.UniqueConstraint(
                fields=["sample", "number"], include=["outcome"], name="one_attempt_number"
            )
        ]
        indexes = [  # what the lists' filters name; attempts that passed are in none of them
            models.Index(
                fields=["outcome", "sample"], condition=~models.Q(outcome="ready"), name="attempts_refused"
            ),
            models.Index(fields=["sample"], condition=models.Q(number__gt=1), name="attempts_again"),
            models.Index(
                fields=["error_code", "sample"], condition=models.Q(outcome="error"), name="attempts_by_error"
            ),
            GinIndex(
                OpClass("filter_failures", "jsonb_path_ops"),
                condition=models.Q(outcome="filtered"),
                name="attempts_by_check",
            ),
            GinIndex(
                OpClass(KeyTransform("failed", "judge"), "jsonb_path_ops"),
                condition=models.Q(outcome="judged_out"),
                name="attempts_by_axis",
            ),
        ]


# Rollups: rows are deltas that triggers write, their sum is the count; `counts.fold` makes them few again.


class Level(models.IntegerChoices):
    """Of a rollup's row. A count is the sum of the rows of LOOSE and of one of the other two."""

    LOOSE = 0, "what one statement changed"
    FINE = 1, "folded"
    COARSE = 2, "folded, all rules together"


class SampleCount(models.Model):
    """Rollup: samples by what lists filter on. Loose rows are written by triggers and folded by `counts.fold`
    (migration `counts`). An id of 0 means none.
    """

    branch = models.CharField(max_length=8)
    domain = models.CharField(max_length=60)
    rule_version = models.BigIntegerField()
    style = models.CharField(max_length=14)
    tier = models.CharField(max_length=6)
    machine = models.CharField(max_length=8)
    human = models.CharField(max_length=8)
    approved_how = models.CharField(max_length=11)
    writer = models.CharField(max_length=120, help_text="offline, llm or import")
    n = models.BigIntegerField()
    level = models.PositiveSmallIntegerField(choices=Level, db_default=0)

    class Meta:
        indexes = [models.Index(fields=["level", "rule_version"], name="sample_counts_of_level")]


class ReviewCount(models.Model):
    """Rollup: items that wait (open, claimed or held) by what the queue filters on, as above; a claim changes none."""

    round = models.PositiveSmallIntegerField()
    branch = models.CharField(max_length=8)
    domain = models.CharField(max_length=60)
    rule = models.BigIntegerField()
    style = models.CharField(max_length=14)
    tier = models.CharField(max_length=6)
    held = models.BooleanField()
    calibration = models.BooleanField()
    assigned_to = models.BigIntegerField()
    first_by = models.BigIntegerField()
    n = models.BigIntegerField()
    level = models.PositiveSmallIntegerField(choices=Level, db_default=0)

    class Meta:
        indexes = [models.Index(fields=["level", "rule"], name="review_counts_of_level")]


# What of a run its samples do not tell.


class RunUnit(models.Model):
    """A unit that a run planned and that is not, or no longer, its own sample.

    A sample is of the run that writes it (`Sample.run`). Another run that planned the same sample has a unit of it
    here, and one that will not be written any more stands here with the reason, without its sample.
    """

    run = models.ForeignKey(SynthesisRun, on_delete=models.PROTECT, related_name="+", db_index=False)
    sample = models.ForeignKey(Sample, null=True, on_delete=models.SET_NULL, related_name="shared_by")
    why = models.CharField(max_length=300, blank=True, help_text="why it is not written any more")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "sample"], name="one_unit_of_a_run")]


# What was asked of language models: prompts by hash, replies by content, and the ledger of calls.


class PromptVersion(models.Model):
    """The text of every prompt that ever made something, by its hash: what a changed prompt is compared with."""

    hash = models.CharField(max_length=64, primary_key=True)
    name = models.CharField(max_length=40)
    source = models.TextField()
    first_used = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-first_used"]

    def __str__(self) -> str:
        return f"{self.name} {self.hash[:8]}"


class ModelReply(models.Model):
    """Valid answers by content key: what has been paid once is not asked again."""

    key = models.CharField(
        max_length=64, unique=True, help_text="hash of model, messages, schema and parameters"
    )
    purpose = models.CharField(max_length=20)
    model = models.CharField(max_length=200)
    prompt_hash = models.CharField(max_length=64)
    response = models.JSONField()
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]


class ModelCall(models.Model):
    """The ledger: one row per HTTP exchange, committed before it is sent and again before its answer is used.

    A row still `sent` whose job is not running was lost with its process: sent, perhaps paid, never read.
    """

    class State(models.TextChoices):
        SENT = "sent"
        ANSWERED = "answered"
        FAILED = "failed"

    uid = models.UUIDField(
        unique=True, help_text="sent as X-Client-Request-Id: the endpoint's own books name it"
    )
    key = models.CharField(max_length=64, help_text="content key of what was asked")
    purpose = models.CharField(max_length=20)
    endpoint = models.CharField(max_length=200)
    model = models.CharField(max_length=200)
    prompt_hash = models.CharField(max_length=64)
    state = models.CharField(max_length=8, choices=State, default=State.SENT)
    error_code = models.CharField(max_length=60, blank=True)
    error_text = models.TextField(
        blank=True,
        db_default="",
        help_text="the server's own sentence, without keys, cut; or what it sent instead",
    )
    unwrapped = models.BooleanField(db_default=False, help_text="its answer stood in a wrapping")
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    cost = models.FloatField(default=0.0, help_text="in the currency of the endpoint's prices")
    seconds = models.FloatField(default=0.0)
    job = models.ForeignKey(Job, null=True, on_delete=models.PROTECT, related_name="+")
    sent_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["job", "state"], name="synthesis_m_job_id_state")]


# Frozen datasets and what is in them.


class Snapshot(models.Model):
    """A frozen dataset. Database triggers refuse UPDATE, DELETE and TRUNCATE here, on its members, and on what its
    members say; no member comes in after the transaction that made it (migration `triggers`).
    """

    hash = models.CharField(max_length=64, unique=True)
    strategy = models.CharField(max_length=10)
    per_rule = models.PositiveIntegerField()
    params = models.JSONField(default=dict)
    counts = models.JSONField(default=dict)
    manifest = models.JSONField(default=dict)
    parts = models.JSONField(
        default=dict,
        help_text="{file: digests of its FrozenLines}: every file that is not made from the members",
    )
    store_key = models.CharField(max_length=200)
    store_digest = models.CharField(max_length=64)
    catalog_hash = models.CharField(
        max_length=64, help_text="over tools, neighbours and tokens: Stage 1 depends on it"
    )
    created_by = models.ForeignKey(USER, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    txid = models.BigIntegerField(
        db_default=models.Func(function="txid_current", output_field=models.BigIntegerField()),
        help_text="the transaction that made it: members come in with it and never after",
    )

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"snapshot {self.pk}"


class SnapshotSample(models.Model):
    snapshot = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="members")
    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, related_name="memberships")
    position = models.PositiveIntegerField()
    sample_key = models.CharField(max_length=64)

    class Meta:
        ordering = ["snapshot", "position"]
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "sample"], name="sample_once_per_snapshot"),
            models.UniqueConstraint(fields=["snapshot", "position"], name="one_sample_a_position"),
        ]


class FrozenLines(models.Model):
    """A part of a snapshot's file as it was written, kept once however many snapshots hold it; append-only."""

    digest = models.CharField(max_length=64, primary_key=True, help_text="sha256 of the lines")
    rows = models.PositiveIntegerField()
    data = models.BinaryField(help_text="the lines, zlib")


# What goes on by itself from a published rule to a model that a person may promote.


class LoopSettings(models.Model):
    """One row, which admins change. Without it (a database that no migration filled) nothing is written by itself."""

    ROW = 1

    write = models.BooleanField(
        default=False, help_text="samples that published rules lack are written by themselves"
    )
    per_rule = models.PositiveSmallIntegerField(default=12, help_text="samples a rule is filled up to")
    budget = models.JSONField(
        default=dict,
        help_text="{calls, tokens, money}: the most that automatic runs may spend in a calendar month; empty: nothing",
    )
    train = models.BooleanField(default=True, help_text="policies that are on start by themselves")
    most_load = models.FloatField(
        default=0.0, help_text="load a core from which on no training starts by itself; 0: not asked"
    )
    evaluate = models.BooleanField(
        default=True, help_text="a new model is evaluated, and the champion asked the tests of new rules"
    )
    answer = models.BooleanField(
        default=True, help_text="the clauses of a published rule decide before a model has learned them"
    )
    changed_by = models.ForeignKey(USER, null=True, on_delete=models.PROTECT, related_name="+")
    changed_at = Changed()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(pk=1), name="one_row_of_loop_settings"),
            models.CheckConstraint(condition=models.Q(most_load__gte=0), name="load_is_not_negative"),
        ]

    def __str__(self) -> str:
        return "what goes on by itself"

    @classmethod
    def now(cls) -> "LoopSettings":
        return cls.objects.select_related("changed_by").filter(pk=cls.ROW).first() or cls(pk=cls.ROW)
