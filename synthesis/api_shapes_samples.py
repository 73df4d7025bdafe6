"""What the API answers about samples and the yield per rule."""

from typing import Any

from rest_framework import serializers

from synthesis.api_shapes import Out
from synthesis.models import Sample, SynthesisRun
from synthesis.samples import tell_why

Texts = serializers.ListField(child=serializers.CharField())


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
    approved_how = serializers.ChoiceField(
        Sample.How.choices, allow_blank=True, help_text="empty unless it is approved"
    )
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
    ready = serializers.IntegerField(help_text="whose rule and tools still say what they said")
    stale = serializers.IntegerField(help_text="made ready, but a tool of the pool changed since")
    missing = serializers.IntegerField()
    waiting = serializers.IntegerField(help_text="planned by a run under way")
    approved = serializers.IntegerField()
    dropped = serializers.IntegerField()
    attempts = serializers.IntegerField()
    attempts_per_ready = serializers.FloatField(source="per_ready", allow_null=True)
    near_duplicates = serializers.IntegerField(source="near", help_text="attempts refused as near-duplicates")
    last_run = serializers.IntegerField(allow_null=True)
