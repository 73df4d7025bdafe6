"""Frozen benchmarks and evaluations; labelled requests and the answers to them, from which every figure is computed."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from catalog.models import Cluster, Domain, LabelledQuery
from rules.models import RuleVersion
from synthesis.models import Sample
from trace_site.database import Changed
from trace_site.jobs import Job
from training.models import AliasMove, Model


class Benchmark(models.Model):
    class Kind(models.TextChoices):
        PRB = "prb", "PRB"
        MCQ = "mcq", "MCQ_ts"
        QA = "qa", "QA_ts"
        MCQ_EXPERT = "mcq_expert", "MCQ_expert"
        OUTSIDE = "outside", "outside every tool"

    class Tier(models.TextChoices):
        HARD = "hard", "hard: as people hint at it"
        PLAIN = "plain", "plain: the deciding fact is stated"

    name = models.CharField(max_length=100)
    version = models.PositiveIntegerField(default=1)
    kind = models.CharField(max_length=10, choices=Kind)
    tier = models.CharField(max_length=10, choices=Tier, blank=True)
    is_development = models.BooleanField(
        default=False, help_text="thresholds are chosen on it, so its figures are never shown as a result"
    )
    hash = models.CharField(max_length=64)
    count = models.PositiveIntegerField()
    random_baseline = models.FloatField(
        null=True, help_text="mean chance of guessing right; null but for probes"
    )
    source = models.CharField(
        max_length=300, blank=True, help_text="file, or 'built offline from the catalog'"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["name", "-version"]
        constraints = [models.UniqueConstraint(fields=["name", "version"], name="one_benchmark_version")]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    @property
    def title(self) -> str:
        """With its tier, which belongs to every figure of it."""
        return f"{self}, {self.tier} tier" if self.tier else str(self)


class Evaluation(models.Model):
    """One model (or the embedding baseline, when model is null) on one benchmark with one decoding."""

    class Decode(models.TextChoices):
        TRACE = "trace"
        TRACE_FREE = "trace-free"
        FAST = "fast"
        BEAM = "beam"
        LETTERS = "letters"
        EMBEDDING = "embedding", "embedding baseline"
        # asked for the tools of the label's domain alone, as a caller may who knows it
        FAST_DOMAIN = "fast-domain", "fast, domain given"
        EMBEDDING_DOMAIN = "embedding-domain", "embedding baseline, domain given"

    key = models.CharField(
        max_length=64, unique=True, help_text="hash of model digest, benchmark hash, decoding"
    )
    model = models.ForeignKey(Model, null=True, on_delete=models.PROTECT, related_name="evaluations")
    benchmark = models.ForeignKey(Benchmark, on_delete=models.PROTECT, related_name="evaluations")
    decode = models.CharField(max_length=20, choices=Decode)
    job = models.ForeignKey(Job, null=True, on_delete=models.PROTECT, related_name="evaluations")
    metrics = models.JSONField(
        null=True,
        help_text="null until finished; evaluation.core.report, without the groups of rules and clusters, which are "
        "told at the look",
    )
    seed = models.BigIntegerField(default=0)
    hardware = models.JSONField(default=dict)
    clauses = models.JSONField(
        null=True,
        help_text="{clauses, rules, untrained}: how many it answered with, of how many rules, and how many of them it "
        "was not trained on; null: of a probe or the baseline, or measured before this was kept",
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"evaluation {self.pk}"

    @property
    def backend(self) -> str:
        """The server that answered in place of our own engine; empty: that did."""
        return str(self.hardware.get("backend", ""))


# what is asked of the engine and of the embedding where the domain is given
GIVEN_DOMAIN: dict[str, str] = {
    Evaluation.Decode.FAST_DOMAIN: Evaluation.Decode.FAST,
    Evaluation.Decode.EMBEDDING_DOMAIN: Evaluation.Decode.EMBEDDING,
}


class Calibration(models.Model):
    """How far answers of a model can be trusted, fitted on the development benchmarks it has answered."""

    model = models.ForeignKey(Model, on_delete=models.CASCADE, related_name="calibrations")
    decode = models.CharField(max_length=20, choices=Evaluation.Decode)
    features = models.JSONField(help_text="names of the features that are read")
    fit = models.JSONField(help_text="evaluation.core.confidence.Fit: the coefficients of both regressions")
    threshold = models.FloatField(
        null=True, help_text="requests whose chance to have a tool is lower are refused; null: none is"
    )
    development = models.JSONField(help_text="keys of the evaluations it was fitted on")
    n = models.PositiveIntegerField(help_text="requests it was fitted on")
    n_outside = models.PositiveIntegerField(help_text="of them those that no tool answers")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["model", "decode"]
        constraints = [models.UniqueConstraint(fields=["model", "decode"], name="one_calibration_per_decode")]


class GateReport(models.Model):
    """Append-only: whether a model may take the champion's place, slice by slice (evaluation.core.gate)."""

    class Verdict(models.TextChoices):
        PASS = "pass", "pass"
        FAIL = "fail", "fail"
        CANNOT_TELL = "cannot tell", "cannot tell"

    key = models.CharField(
        max_length=64,
        unique=True,
        help_text="hash of both models, of all that was counted, and of the report before: made once",
    )
    candidate = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="gate_reports")
    champion = models.ForeignKey(
        Model, null=True, on_delete=models.PROTECT, related_name="+", help_text="null: there was none"
    )
    verdict = models.CharField(max_length=11, choices=Verdict)
    report = models.JSONField(help_text="evaluation.core.gate.Gate: rows, rules, margin, level, draws, seed")
    counted_from = models.JSONField(
        default=dict,
        help_text="{rule: of deciding, weights: [digests], backends, evaluations: [keys], benchmarks: [ids], "
        "rule_tests: [ids of versions], groups: hash of what sorts them, answers: hash of groups and scores}",
    )
    job = models.ForeignKey(Job, null=True, on_delete=models.PROTECT, related_name="gate_reports")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]

    @property
    def moves(self) -> models.QuerySet[AliasMove]:
        """The promotions that rest on it."""
        return AliasMove.objects.filter(gate__report=self.pk).select_related("actor")

    @property
    def override(self) -> AliasMove | None:
        """The promotion that went through against it, with who and why; None: there was none."""
        return self.moves.exclude(override="").first()


class ClusterPlace(models.Model):
    """Where a cluster lies on the map of its clustering; computed once, when somebody first looks."""

    cluster = models.OneToOneField(Cluster, primary_key=True, on_delete=models.CASCADE, related_name="place")
    x = models.IntegerField()
    y = models.IntegerField()
    radius = models.IntegerField()


# Requests that programs asked the endpoint: a share of them in a log, and the counts of all.


class RequestLogPolicy(models.Model):
    """One row; without it the defaults hold."""

    share = models.FloatField(default=0.1, help_text="of the requests, drawn by chance: 0 to 1")
    keeps_texts = models.BooleanField(
        default=True, help_text="query and trace, with personal data replaced; off: neither"
    )
    days = models.PositiveIntegerField(default=30, help_text="how long a request is kept")
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    changed_at = Changed()

    def __str__(self) -> str:
        return f"{self.share:.0%} for {self.days} days"


class RequestDay(models.Model):
    """One day (UTC): how many queries came in, how many of them were kept, and how many were drawn and lost."""

    day = models.DateField(primary_key=True)
    asked = models.BigIntegerField(default=0)
    kept = models.BigIntegerField(default=0)
    lost = models.BigIntegerField(default=0, help_text="the log was full or away")


class RetrievalRequest(models.Model):
    """One request and its answer. Texts are scrubbed before they come here; a caller is kept as a keyed hash."""

    class Via(models.TextChoices):
        SINGLE = "single"
        BATCH = "batch"
        STREAM = "stream"
        REPORT = "report"  # known by its report alone

    class Verdict(models.TextChoices):
        RIGHT = "right"
        WRONG = "wrong"

    key = models.UUIDField(unique=True, help_text="the id that the answer carries")
    at = models.DateTimeField()
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    token = models.BigIntegerField(null=True, help_text="id of the service token; no foreign key: tokens go")
    token_name = models.CharField(max_length=100, blank=True)
    caller = models.CharField(max_length=32, blank=True, help_text="keyed hash of the caller that was named")
    via = models.CharField(max_length=6, choices=Via)
    mode = models.CharField(max_length=5, blank=True)
    k = models.PositiveIntegerField(default=0)
    domain = models.CharField(max_length=60, blank=True)
    permissions = models.JSONField(null=True, help_text="what counted for the call; null: all")
    outcome = models.CharField(max_length=40, blank=True, help_text="answered, or the code of the error")
    query = models.TextField(blank=True)
    replaced = models.JSONField(default=list, help_text="kinds of personal data that were replaced")
    trace = models.TextField(blank=True)
    model = models.ForeignKey(Model, null=True, on_delete=models.SET_NULL, related_name="+")
    tools = models.JSONField(default=list, help_text="names in the order of the answer")
    withheld = models.JSONField(default=list, help_text="names")
    cited = models.JSONField(default=list, help_text="[[code, version]]")
    clause = models.CharField(
        max_length=700,
        blank=True,
        db_default="",
        help_text="token of the clause of a rule that decided; empty: none did",
    )
    confidence = models.FloatField(null=True)
    fits = models.BooleanField(null=True)
    total_ms = models.FloatField(null=True)
    engine_ms = models.FloatField(null=True)
    verdict = models.CharField(
        max_length=5, choices=Verdict, blank=True, help_text="as the caller reported it"
    )
    expected = models.JSONField(default=list, help_text="the tools that would have been right")
    comment = models.TextField(blank=True)
    reported_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["at"], name="request_by_age"),
            models.Index(fields=["owner"], name="request_by_owner"),
            models.Index(fields=["caller"], condition=~models.Q(caller=""), name="request_by_caller"),
            models.Index(fields=["-id"], condition=~models.Q(verdict=""), name="request_reported"),
            models.Index(fields=["clause"], condition=~models.Q(clause=""), name="request_by_clause"),
        ]


# The ledger: requests of which the right tools are known, and what was answered to them.

# what a labelled request is of, by its origin
REFERENCES = {"benchmark": "benchmark", "rule_test": "version", "sample": "sample", "report": "request"}
OF_ITS_ORIGIN = models.Q(
    *(
        models.Q(origin=origin, **{f"{one}__isnull": one != of for one in REFERENCES.values()})
        for origin, of in REFERENCES.items()
    ),
    _connector=models.Q.OR,
)


class LabelledRequest(models.Model):
    """Append-only; that of a sample or a report goes with it, and has its text and its right tools there."""

    class Origin(models.TextChoices):
        BENCHMARK = "benchmark"
        RULE_TEST = "rule_test", "test of a rule"
        SAMPLE = "sample", "kept-out sample"
        REPORT = "report"

    origin = models.CharField(max_length=9, choices=Origin, default=Origin.BENCHMARK)
    benchmark = models.ForeignKey(Benchmark, null=True, on_delete=models.CASCADE, related_name="items")
    version = models.ForeignKey(
        RuleVersion, null=True, db_index=False, on_delete=models.PROTECT, related_name="+"
    )
    sample = models.ForeignKey(Sample, null=True, db_index=False, on_delete=models.CASCADE, related_name="+")
    request = models.ForeignKey(
        RetrievalRequest, null=True, db_index=False, on_delete=models.CASCADE, related_name="+"
    )
    position = models.PositiveIntegerField(null=True, help_text="in its benchmark, or among the tests")
    text_key = models.CharField(max_length=64, blank=True, help_text="of the text of a sample or report")
    domain = models.CharField(max_length=60, blank=True)
    query = models.ForeignKey(LabelledQuery, null=True, on_delete=models.PROTECT, related_name="+")
    data = models.JSONField(
        default=dict,
        help_text="a benchmark's as imported, MCQ options already in their shuffled order; of a test {query, tools}",
    )

    class Meta:
        ordering = ["benchmark", "position"]
        constraints = [
            models.UniqueConstraint(fields=["benchmark", "position"], name="one_item_per_position"),
            models.UniqueConstraint(fields=["version", "position"], name="one_request_per_test"),
            models.UniqueConstraint(fields=["sample", "text_key"], name="one_request_per_sample_text"),
            models.UniqueConstraint(fields=["request", "text_key"], name="one_request_per_report_text"),
            models.CheckConstraint(condition=OF_ITS_ORIGIN, name="request_of_its_origin"),
        ]


class Answer(models.Model):
    """Append-only: what was answered in an evaluation, or by a model (null: the embedding) that was asked outside of
    benchmarks, in fast decoding. Those of the model and of the embedding that one job asked belong together."""

    evaluation = models.ForeignKey(Evaluation, null=True, on_delete=models.CASCADE, related_name="answers")
    item = models.ForeignKey(LabelledRequest, on_delete=models.CASCADE, related_name="answers")
    model = models.ForeignKey(Model, null=True, db_index=False, on_delete=models.PROTECT, related_name="+")
    backend = models.CharField(
        max_length=20,
        blank=True,
        db_default="",
        help_text="empty: our own engine; completions: a server in its place; of an evaluation: see its hardware",
    )
    job = models.ForeignKey(Job, null=True, on_delete=models.PROTECT, related_name="+")
    output = models.JSONField(
        help_text="{tools, ranked, scores, trace, raw, off_vocabulary, letter, clause}; outside of evaluations {tools, "
        "scores, clause}, without words of the request"
    )
    scores = models.JSONField(default=dict, help_text="{metric: value}; of a rule's test {passed}")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["evaluation", "item"]
        constraints = [
            models.UniqueConstraint(fields=["evaluation", "item"], name="one_answer_per_item"),
            models.UniqueConstraint(fields=["model", "item", "backend"], name="one_answer_of_a_model"),
            models.UniqueConstraint(
                fields=["item", "job"],
                condition=models.Q(evaluation=None, model=None),
                name="one_answer_of_the_embedding",
            ),
            models.CheckConstraint(
                condition=models.Q(evaluation=None) | models.Q(model=None, job=None, backend=""),
                name="asked_once_or_in_an_evaluation",
            ),
        ]


# What look-alikes cost, as counted last.


class Count(models.Model):
    """Coverage and confusion as counted last, of all domains at once; only the newest is kept. `coverage.counted` reads
    it."""

    edition = models.PositiveIntegerField(help_text="of the arithmetic and of the rows; others are not read")
    key = models.CharField(
        max_length=64, help_text="hash of all that was counted from: another one makes a count due"
    )
    basis = models.CharField(
        max_length=64,
        help_text="hash of its rules, clusters and model: another one makes a count due at once",
    )
    counted = models.JSONField(
        help_text="{outcomes, tools, clusters, domains}: rows of evaluation.coverage.counted"
    )
    at = models.DateTimeField(help_text="when it was counted")

    class Meta:
        ordering = ["-id"]


class DomainPoint(models.Model):
    """Append-only: the figures of a domain, by rules and clusters of one moment and for one model, whenever one of
    these moved; unsaved, those of now."""

    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="+")
    clustering = models.PositiveIntegerField(null=True, help_text="version; null: it has no clusters yet")
    versions = ArrayField(
        models.BigIntegerField(), default=list, help_text="ids of the published rule versions"
    )
    model = models.ForeignKey(
        Model,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="champion, else the newest evaluated one; null: there is none, the embedding answers",
    )
    alias = models.CharField(max_length=10, blank=True, help_text="champion or newest; empty: no model")
    tools = models.PositiveIntegerField(help_text="active")
    rules = models.PositiveIntegerField(help_text="published")
    clusters = models.PositiveIntegerField(help_text="not dismissed")
    states = models.JSONField(help_text="{state: clusters}")
    clustered_tools = models.PositiveIntegerField()
    tools_covered = models.PositiveIntegerField()
    pairs = models.PositiveIntegerField()
    covered = models.PositiveIntegerField()
    named = models.PositiveIntegerField()
    pairs_outside = models.PositiveIntegerField(
        help_text="(target, confusable) of rules that no cluster holds"
    )
    groups = models.JSONField(
        help_text="{all, covered, exceptions, uncovered, outside: {n, wrong, n_embedding, wrong_embedding, answer}}; "
        "answer: whether the model is better than the embedding there"
    )
    sources = models.JSONField(
        help_text="{benchmark, sample, production: {n, wrong, n_embedding, wrong_embedding}}"
    )
    covered_n = models.PositiveIntegerField(help_text="labelled requests of tools with a covered pair")
    covered_wrong = models.PositiveIntegerField(help_text="of them, wrong at a covered pair")
    tools_measured = models.PositiveIntegerField(help_text="with a labelled request")
    gaps = models.PositiveIntegerField(help_text="clusters with an uncovered pair, not dismissed")
    gaps_measured = models.PositiveIntegerField()
    score = models.FloatField(null=True, help_text="wrong answers to expect at all uncovered pairs")
    score_low = models.FloatField(null=True)
    score_high = models.FloatField(null=True)
    requests = models.PositiveIntegerField(help_text="that the score is of")
    recorded = models.PositiveIntegerField(
        help_text="requests in the log of the window that concern its tools"
    )
    window_from = models.DateField(help_text="first day (UTC) of the recorded requests that count")
    window_to = models.DateField(help_text="last day (UTC)")
    why = models.JSONField(
        default=dict,
        help_text="{rules: {added, gone} version ids, clustering: [old, new], model: [old, new], counted: true where "
        "pairs count otherwise for another reason}; empty: the first",
    )
    at = models.DateTimeField(help_text="when it was counted")

    class Meta:
        ordering = ["domain", "id"]
        indexes = [models.Index(fields=["domain", "id"], name="points_of_domain")]

    @property
    def uncovered(self) -> int:
        return self.pairs - self.covered

    @property
    def done(self) -> int:
        return sum(self.states.get(state, 0) for state in ("resolved", "taught", "in_champion"))
