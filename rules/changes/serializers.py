"""What the API answers about change requests."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from rules.core.draft import FIELDS
from rules.models import ChangeRequest, RuleChange
from rules.serializers import Content, Diff, Out, RuleFinding
from trace_site.rest.schema import TextList


class Conflict(Out):
    sentence = serializers.CharField()
    blocks = serializers.BooleanField()


class RulePart(Out):
    id = serializers.IntegerField(source="pk")
    code = serializers.CharField()
    domain = serializers.CharField(source="domain_id")


class Change(Out):
    """One change of a request. Its ETag is its revision."""

    id = serializers.IntegerField(source="pk")
    request = serializers.IntegerField(source="request_id")
    revision = serializers.IntegerField(help_text="what If-Match names, in quotes")
    action = serializers.ChoiceField(RuleChange.Action.choices)
    rule = RulePart(allow_null=True, help_text="null: a new rule")
    domain = serializers.CharField()
    code = serializers.CharField()
    note = serializers.CharField()
    content = serializers.SerializerMethodField(help_text="null for a withdrawal")
    base = serializers.IntegerField(source="base.number", default=None, allow_null=True)
    edited_by = serializers.CharField(source="edited_by.username")
    edited_at = serializers.DateTimeField()
    version = serializers.IntegerField(
        source="version.number", default=None, allow_null=True, help_text="what it became"
    )

    @extend_schema_field(Content(allow_null=True))
    def get_content(self, change: RuleChange) -> dict[str, Any] | None:
        if change.action == RuleChange.Action.WITHDRAW:
            return None
        return {name: change.content.get(key) for key, name in FIELDS.items()}


class Problem(Out):
    pointer = serializers.CharField(help_text="JSON pointer in the exchange format")
    message = serializers.CharField()


class ChangeView(Out):
    """A change with what helps to decide on it."""

    change = Change()
    diff = Diff(help_text="against the version it began from")
    problems = Problem(many=True, help_text="why it is no complete rule yet")
    findings = RuleFinding(many=True, allow_null=True, help_text="null while it is incomplete or has ended")
    conflicts = Conflict(many=True)


class RequestRow(Out):
    """A change request. Its ETag is its revision."""

    id = serializers.IntegerField(source="pk")
    title = serializers.CharField()
    description = serializers.CharField()
    state = serializers.ChoiceField(ChangeRequest.State.choices)
    revision = serializers.IntegerField(
        help_text="what verbs name, so that nobody approves what they did not see"
    )
    author = serializers.CharField(source="author.username")
    reason = serializers.CharField(help_text="why it was rejected, cancelled or applied without approval")
    apply_at = serializers.DateTimeField(allow_null=True)
    blocked = serializers.CharField(help_text="why it could not be applied on schedule")
    bypassed = serializers.BooleanField()
    applied_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class ReviewWord(Out):
    reviewer = serializers.CharField(source="approval.reviewer.username")
    verdict = serializers.ChoiceField(["approve", "reject"], source="approval.verdict")
    revision = serializers.IntegerField(source="approval.revision")
    comment = serializers.CharField(source="approval.comment")
    at = serializers.DateTimeField(source="approval.at")
    counts = serializers.BooleanField()


class Comment(Out):
    id = serializers.IntegerField(source="pk")
    author = serializers.CharField(source="author.username")
    text = serializers.CharField()
    at = serializers.DateTimeField()


class RequestMore(Out):
    changes = ChangeView(many=True)
    approvals = ReviewWord(many=True)
    approvals_missing = serializers.IntegerField()
    comments = Comment(many=True)
    may = TextList(help_text="the verbs that you may use now")


class RequestDetail(RequestRow, RequestMore):
    """A change request with its changes and what helps to decide."""


class ImpactLine(Out):
    name = serializers.CharField(help_text="a stable key such as samples")
    count = serializers.IntegerField()
    label = serializers.CharField()  # type: ignore[assignment]


class RuleImpact(Out):
    rule = serializers.CharField()
    lines = ImpactLine(many=True)


class RequestImpact(Out):
    total = ImpactLine(many=True)
    rules = RuleImpact(many=True)
