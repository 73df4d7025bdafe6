"""What the API answers about rejections and about the lineage of a sample."""

from typing import Any

from rest_framework import serializers

from synthesis.api_shapes import Out
from synthesis.api_shapes_samples import AttemptOut, SampleRow
from synthesis.lineage import Lineage


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
    aliases = serializers.ListField(child=serializers.CharField())


class LineageOut(Out):
    sample = SampleRow()
    key = serializers.CharField(source="sample.key")
    seed = serializers.IntegerField(source="sample.seed")
    approved_how = serializers.CharField(source="sample.approved_how")
    rule = RuleThenOut(source="sample.rule_version", allow_null=True)
    tools = ToolThenOut(many=True)
    stages = StageThenOut(many=True)
    few_shots = serializers.ListField(child=serializers.CharField())
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
