"""What the API answers about runs, samples and yields."""

from typing import Any

from rest_framework import serializers

from synthesis.models import Sample, SynthesisRun
from synthesis.samples import tell_why

Out = serializers.Serializer[Any]
Texts = serializers.ListField(child=serializers.CharField())


class Counted(Out):
    name = serializers.CharField()
    count = serializers.IntegerField()


class Progress(Out):
    """Of a run's job. `rate`: samples a second; `seconds_left`: null when unknown."""

    state = serializers.CharField()
    done = serializers.IntegerField()
    total = serializers.IntegerField()
    rate = serializers.FloatField()
    seconds_left = serializers.IntegerField(allow_null=True)
    error = serializers.CharField()
    error_code = serializers.CharField()


class RunRow(Out):
    id = serializers.IntegerField(source="pk")
    branch = serializers.ChoiceField(SynthesisRun.Branch.choices)
    writer = serializers.CharField(help_text="offline, or llm:model")
    domain = serializers.CharField(source="params.domain", default="")
    rule = serializers.CharField(source="params.rule", default="")
    seed = serializers.IntegerField()
    job = Progress(allow_null=True)
    planned = serializers.IntegerField()
    ready = serializers.IntegerField()
    dropped = serializers.IntegerField()
    approved = serializers.IntegerField()
    created_by = serializers.CharField(source="created_by.username", default=None, allow_null=True)
    created_at = serializers.DateTimeField()


class FunnelCounts(Out):
    """`filtered`, `judged_out`, `errors` and `retries` count attempts, the rest samples."""

    planned = serializers.IntegerField()
    written = serializers.IntegerField()
    attempts = serializers.IntegerField()
    filtered = serializers.IntegerField()
    judged_out = serializers.IntegerField()
    errors = serializers.IntegerField()  # type: ignore[assignment]
    retries = serializers.IntegerField()
    ready = serializers.IntegerField()
    dropped = serializers.IntegerField()
    approved = serializers.IntegerField()
    rejected = serializers.IntegerField()


class FunnelGroup(FunnelCounts):
    domain = serializers.CharField(source="slice.domain")
    rule = serializers.CharField(source="slice.rule")
    style = serializers.CharField(source="slice.style")  # type: ignore[assignment]
    tier = serializers.CharField(source="slice.tier")


class FunnelOut(Out):
    total = FunnelCounts()
    checks = Counted(many=True, help_text="attempts that each check of filter V refused")
    axes = Counted(many=True, help_text="attempts that scored too low on each axis of judge J")
    errors = Counted(many=True, help_text="attempts by error code")  # type: ignore[assignment]
    groups = FunnelGroup(many=True, help_text="by what `by` names; empty without it")


class Skipped(Out):
    rule = serializers.CharField(default="")
    style = serializers.CharField()  # type: ignore[assignment]
    reason = serializers.CharField()


class Spent(Out):
    calls = serializers.IntegerField()
    tokens = serializers.IntegerField()
    money = serializers.FloatField()


class RunDetail(Out):
    run = RunRow()
    next_step = serializers.CharField(help_text="what to do about a run that stopped")
    started_with = serializers.JSONField(help_text="recipe, budget, models and other options")
    spent = Spent()
    skipped = Skipped(many=True, help_text="styles that rules cannot support")
    funnel = FunnelOut()


class FigureOut(Out):
    value = serializers.FloatField(allow_null=True, help_text="null: unknown")
    basis = serializers.CharField(help_text="what it rests on")


class PlanRow(Out):
    domain = serializers.CharField()
    rule = serializers.CharField()
    style = serializers.CharField(help_text="or tier")  # type: ignore[assignment]
    new = serializers.IntegerField()
    content_stale = serializers.IntegerField()
    outdated = serializers.IntegerField()
    kept = serializers.IntegerField()
    skipped = serializers.CharField(help_text="why the style is not written, if so")


class PlanOut(Out):
    """`content_stale`: rule or tools changed. `outdated`: only prompt, model or recipe did. `samples`: to write."""

    new = serializers.IntegerField()
    content_stale = serializers.IntegerField(default=0)
    outdated = serializers.IntegerField(default=0)
    kept = serializers.IntegerField(default=0)
    skipped = serializers.IntegerField(help_text="styles that rules cannot support")
    samples = serializers.IntegerField()
    rows = PlanRow(many=True)


class EstimateOut(Out):
    samples = FigureOut()
    calls = FigureOut()
    tokens = FigureOut()
    money = FigureOut()
    seconds = FigureOut()
    plan = PlanOut()
    over = serializers.ListField(child=serializers.CharField(), help_text="what the budget does not cover")


class BookLine(Out):
    """`p50` and `p95`: seconds of answered calls."""

    purpose = serializers.CharField()
    model = serializers.CharField()
    calls = serializers.IntegerField()
    answered = serializers.IntegerField()
    failed = serializers.IntegerField()
    under_way = serializers.IntegerField()
    lost = serializers.IntegerField(help_text="sent by a process that died")
    prompt_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    cost = serializers.FloatField()
    p50 = serializers.FloatField()
    p95 = serializers.FloatField()


class BooksOut(Out):
    total = BookLine()
    lines = BookLine(many=True, help_text="one per purpose and model")
    errors = Counted(many=True)  # type: ignore[assignment]


class Call(Out):
    """One exchange of the ledger. `uid` went out as X-Client-Request-Id."""

    uid = serializers.UUIDField()
    purpose = serializers.CharField()
    endpoint = serializers.CharField()
    model = serializers.CharField()
    prompt_hash = serializers.CharField()
    state = serializers.CharField()
    error_code = serializers.CharField()
    prompt_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    cost = serializers.FloatField()
    seconds = serializers.FloatField()
    sent_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class SampleRows(serializers.ListSerializer[Any]):
    """Reads once for all rows why the dropped ones were dropped."""

    def to_representation(self, data: Any) -> Any:
        rows = list(data)
        tell_why(rows)
        return super().to_representation(rows)


class SampleRow(Out):
    class Meta:
        list_serializer_class = SampleRows

    id = serializers.IntegerField(source="pk")
    run = serializers.IntegerField(source="run_id")
    branch = serializers.ChoiceField(SynthesisRun.Branch.choices)
    domain = serializers.CharField(source="domain_id")
    rule = serializers.CharField(source="rule_version.rule.code", default=None, allow_null=True)
    rule_version = serializers.IntegerField(source="rule_version.number", default=None, allow_null=True)
    style = serializers.CharField()  # type: ignore[assignment]
    tier = serializers.CharField()
    query = serializers.CharField()
    answer = Texts
    machine = serializers.ChoiceField(Sample.Machine.choices)
    human = serializers.ChoiceField(Sample.Human.choices)
    why = serializers.CharField(help_text="what the last attempt of a dropped sample ended with")
    writer = serializers.CharField()
    created_at = serializers.DateTimeField()


class FailureOut(Out):
    check = serializers.CharField()
    message = serializers.CharField()
    evidence = serializers.CharField()
    span = serializers.ListField(
        child=serializers.IntegerField(), help_text="start and end in the trace, or in the query without one"
    )


class AttemptOut(Out):
    number = serializers.IntegerField()
    outcome = serializers.ChoiceField(["ready", "filtered", "judged_out", "error"])
    query = serializers.CharField()
    trace = serializers.CharField()
    answer = Texts
    filter_failures = FailureOut(many=True)
    judge = serializers.JSONField(help_text="{axis: score, critique, failed}; empty when it was not asked")
    critique = serializers.CharField(help_text="what the next attempt was told")
    error = serializers.CharField()
    error_code = serializers.CharField()
    calls = serializers.IntegerField()
    at = serializers.DateTimeField()


class ReasonOut(Out):
    kind = serializers.CharField()
    what = serializers.CharField()
    was = serializers.CharField()
    now = serializers.CharField()
    content = serializers.BooleanField(help_text="true: the sample may be wrong now")
    text = serializers.CharField(source="*")


class StaleOut(Out):
    level = serializers.ChoiceField(["current", "outdated", "content"])
    reasons = ReasonOut(many=True)


class SampleDetail(Out):
    sample = SampleRow()
    trace = serializers.CharField()
    explanation = serializers.CharField()
    permissions = Texts
    pool = Texts
    seed = serializers.IntegerField()
    slot = serializers.CharField()
    key = serializers.CharField()
    made_from = serializers.JSONField(help_text="the inputs behind the key")
    thresholds = serializers.DictField(child=serializers.IntegerField(), help_text="least score of each axis")
    attempts = AttemptOut(many=True)
    stale = StaleOut()


class YieldRow(Out):
    rule = serializers.IntegerField(source="rule_id")
    code = serializers.CharField()
    domain = serializers.CharField()
    version = serializers.IntegerField()
    styles = Texts
    unsupported = serializers.DictField(
        child=serializers.CharField(), source="reasons", help_text="{style: why}"
    )
    target = serializers.IntegerField(help_text="0 where no style is supported")
    ready = serializers.IntegerField()
    missing = serializers.IntegerField()
    waiting = serializers.IntegerField(help_text="planned by a run under way")
    approved = serializers.IntegerField()
    dropped = serializers.IntegerField()
    attempts = serializers.IntegerField()
    attempts_per_ready = serializers.FloatField(source="per_ready", allow_null=True)
    near_duplicates = serializers.IntegerField(source="near", help_text="attempts refused as near-duplicates")
    last_run = serializers.IntegerField(allow_null=True)
