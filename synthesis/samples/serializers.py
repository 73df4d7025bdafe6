"""What the API answers about samples and the yield per rule."""

from typing import Any

from rest_framework import serializers

from synthesis.core.queries import AXES, WRITERS
from synthesis.models import Sample, SynthesisRun
from synthesis.samples.forms import CHECKS, OUTCOMES
from synthesis.samples.lineage import Lineage
from synthesis.samples.selectors import tell_why
from synthesis.samples.staleness import LEVELS
from trace_site.rest.schema import InputSerializer, Out, TextList

Texts = TextList()


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


# What the API answers about rejections and about the lineage of a sample.


class SaidOut(Out):
    sample = serializers.IntegerField()
    style = serializers.CharField()  # type: ignore[assignment]
    note = serializers.CharField()


class RejectionReasonOut(Out):
    reason = serializers.CharField(source="code")
    text = serializers.CharField(source="label")
    count = serializers.IntegerField()
    said = SaidOut(many=True)


class RejectionsOut(Out):
    rule = serializers.IntegerField()
    code = serializers.CharField()
    domain = serializers.CharField()
    version = serializers.IntegerField(source="number")
    rejected = serializers.IntegerField()
    decided = serializers.IntegerField(help_text="samples that somebody read to the end")
    sentence = serializers.CharField()
    reasons = RejectionReasonOut(many=True)
    styles = serializers.SerializerMethodField()

    def get_styles(self, one: Any) -> dict[str, dict[str, int]]:
        return {style: {"rejected": r, "decided": d} for style, (r, d) in one.styles.items()}


class RuleThenOut(Out):
    rule = serializers.IntegerField(source="rule_id")
    code = serializers.CharField(source="rule.code")
    version = serializers.IntegerField(source="number")
    hash = serializers.CharField(source="content_hash")
    text = serializers.CharField()
    published = serializers.IntegerField(
        source="rule.published.number", default=None, allow_null=True, help_text="the version published now"
    )
    author = serializers.CharField(source="author.username", default=None, allow_null=True)


class ToolThenOut(Out):
    name = serializers.CharField()
    role = serializers.ChoiceField(["answer", "rule", "pool"])
    state = serializers.ChoiceField(["same", "changed", "retired", "not recorded"])
    then = serializers.CharField(allow_null=True)
    now = serializers.CharField(allow_null=True)
    since = serializers.DateTimeField(allow_null=True)


class StageThenOut(Out):
    stage = serializers.CharField()
    by = serializers.CharField(help_text="model, or version of the offline writer")
    prompt = serializers.CharField()
    prompt_hash = serializers.CharField()
    key = serializers.CharField()
    parameters = serializers.JSONField()


class DecisionThenOut(Out):
    round = serializers.IntegerField()
    verdict = serializers.CharField()
    reviewer = serializers.CharField(source="reviewer.username", default=None, allow_null=True)
    policy = serializers.CharField()
    reason = serializers.CharField()
    note = serializers.CharField()
    follow_up = serializers.CharField()
    batch = serializers.IntegerField(source="item.batch_id", default=None, allow_null=True)
    at = serializers.DateTimeField()


class PlaceOut(Out):
    sample = serializers.IntegerField(source="pk")
    machine = serializers.CharField()
    human = serializers.CharField()
    again_for = serializers.IntegerField(
        source="made_from.again.of",
        default=None,
        allow_null=True,
        help_text="the rejected one it was written for",
    )
    critique = serializers.CharField(source="made_from.again.critique", default=None, allow_null=True)


class MembershipOut(Out):
    snapshot = serializers.IntegerField(source="snapshot_id")
    hash = serializers.CharField(source="snapshot.hash")
    position = serializers.IntegerField()


class MadeOut(Out):
    kind = serializers.ChoiceField(["run", "model", "evaluation"])
    id = serializers.IntegerField()
    of = serializers.IntegerField(
        help_text="the snapshot of a run, the run of a model, the model of an evaluation"
    )
    label = serializers.CharField()  # type: ignore[assignment]
    state = serializers.CharField()
    about = serializers.CharField()
    aliases = TextList()


class LineageOut(Out):
    sample = SampleRow()
    key = serializers.CharField(source="sample.key")
    seed = serializers.IntegerField(source="sample.seed")
    approved_how = serializers.CharField(source="sample.approved_how")
    rule = RuleThenOut(source="sample.rule_version", allow_null=True)
    tools = ToolThenOut(many=True)
    stages = StageThenOut(many=True)
    few_shots = TextList()
    recipe = serializers.SerializerMethodField()
    attempts = AttemptOut(many=True)
    calls = serializers.IntegerField(
        source="calls.own", help_text="of its attempts; which ones is not recorded"
    )
    place = PlaceOut(many=True, help_text="every sample that stood in its place, in order")
    decisions = DecisionThenOut(many=True)
    decisions_hidden = serializers.IntegerField(source="hidden")
    snapshots = MembershipOut(source="memberships", many=True)
    made = MadeOut(many=True, help_text="what was made of these snapshots")

    def get_recipe(self, line: Lineage) -> dict[str, Any] | None:
        recipe: dict[str, Any] | None = line.sample.run.params.get("recipe")
        return recipe


class SampleListIn(InputSerializer):
    """The filters of the samples page."""

    q = serializers.CharField(required=False, max_length=200, help_text="words of the query")
    run = serializers.IntegerField(required=False, min_value=1, max_value=2**62)
    branch = serializers.ChoiceField(choices=SynthesisRun.Branch.choices, required=False)
    domain = serializers.CharField(required=False, max_length=60)
    rule = serializers.CharField(required=False, max_length=200, help_text="code")
    style = serializers.ChoiceField(choices=Sample.Style.choices, required=False)  # type: ignore[assignment]
    tier = serializers.ChoiceField(choices=Sample.Tier.choices, required=False)
    machine = serializers.ChoiceField(choices=Sample.Machine.choices, required=False)
    human = serializers.ChoiceField(choices=Sample.Human.choices, required=False)
    approved_how = serializers.ChoiceField(choices=Sample.How.choices, required=False)
    writer = serializers.ChoiceField(choices=WRITERS, required=False)
    outcome = serializers.ChoiceField(
        choices=list(OUTCOMES), required=False, help_text="of one of its attempts"
    )
    check = serializers.ChoiceField(choices=list(CHECKS), required=False, help_text="that refused an attempt")
    axis = serializers.ChoiceField(choices=list(AXES), required=False, help_text="that refused an attempt")
    error = serializers.CharField(required=False, max_length=60, help_text="error code of an attempt")
    tries = serializers.ChoiceField(choices=["first", "again"], required=False)
    stale = serializers.ChoiceField(choices=list(LEVELS), required=False)
