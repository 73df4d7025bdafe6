"""What the API reads and answers about rules and change requests, in the words of the exchange format."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from rules.core.draft import FIELDS
from rules.models import ChangeRequest, RuleChange
from trace_site.api_input import InputSerializer

Out = serializers.Serializer[Any]
# texts are checked by the services, which name the place of a mistake; here they only must be text
TEXT: dict[str, Any] = {"required": False, "allow_blank": True, "trim_whitespace": False}


class ClauseIn(InputSerializer):
    when = serializers.CharField(**TEXT)
    route_to = serializers.CharField(**TEXT)
    exception = serializers.BooleanField(default=False)
    signals = serializers.ListField(child=serializers.CharField(**TEXT), default=list)


class RuleTestIn(InputSerializer):
    query = serializers.CharField(**TEXT)
    tools = serializers.ListField(child=serializers.CharField(**TEXT), default=list)


class ContentIn(InputSerializer):
    tool_name = serializers.CharField(**TEXT, help_text="the target")
    confusables = serializers.ListField(child=serializers.CharField(**TEXT), required=False)
    rule_text = serializers.CharField(**TEXT)
    clauses = ClauseIn(many=True, required=False)
    tests = RuleTestIn(many=True, required=False)


class CheckIn(ContentIn):
    rule = serializers.IntegerField(
        required=False, allow_null=True, help_text="the rule it will be a version of, if any"
    )


class ChangePut(ContentIn):
    """The whole change as it shall be: what is left out is empty."""

    domain = serializers.CharField(**TEXT, help_text="of a new rule; empty means its target's")
    code = serializers.CharField(**TEXT, help_text="of a new rule; empty means made from its target")
    note = serializers.CharField(**TEXT)


class ChangeIn(ChangePut):
    """A change of `rule`, or of a new rule. Without content it begins from the rule's newest version."""

    rule = serializers.IntegerField(required=False, allow_null=True)
    action = serializers.ChoiceField(choices=RuleChange.Action.choices, default=RuleChange.Action.SAVE)
    base = serializers.IntegerField(
        required=False, allow_null=True, help_text="number of the version it begins from; the newest"
    )


class RequestIn(InputSerializer):
    title = serializers.CharField(**TEXT)
    description = serializers.CharField(**TEXT, help_text="why the rules change, for who approves")
    changes = ChangeIn(many=True, required=False)


class RequestPatch(InputSerializer):
    title = serializers.CharField(**TEXT)
    description = serializers.CharField(**TEXT)


class ListIn(InputSerializer):
    """Filters of the list of rules."""

    q = serializers.CharField(
        default="", allow_blank=True, help_text="every word occurs in code, target or text"
    )
    domain = serializers.CharField(default="", allow_blank=True)
    state = serializers.ChoiceField(
        ["published", "changed", "draft"], default="", allow_blank=True,
        help_text="changed: published, with a newer draft",
    )  # fmt: skip
    light = serializers.ChoiceField(
        ["ok", "warning", "error"], default="", allow_blank=True, help_text="what the checks say"
    )


class ExportIn(ListIn):
    format = serializers.ChoiceField(["json", "csv"], default="json")


class DiffIn(InputSerializer):
    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of Python."""
        return {"from": serializers.IntegerField(), "to": serializers.IntegerField()}


class ImportIn(InputSerializer):
    dry_run = serializers.BooleanField(default=False, help_text="only say what the file would change")
    skip_bad_rows = serializers.BooleanField(
        default=False, help_text="leave rules with a mistake out instead of refusing the file"
    )
    drafts = serializers.BooleanField(
        default=False, help_text="also publish what the file repeats of drafts and withdrawn rules"
    )
    title = serializers.CharField(default="", allow_blank=True, max_length=200)
    filename = serializers.CharField(
        default="", allow_blank=True, max_length=200, help_text="used in messages"
    )


class SubmitIn(InputSerializer):
    revision = serializers.IntegerField(help_text="the revision of the request that you saw")


class ApproveIn(SubmitIn):
    comment = serializers.CharField(**TEXT)


class RejectIn(SubmitIn):
    reason = serializers.CharField(**TEXT)


class SeenIn(InputSerializer):
    revision = serializers.IntegerField(required=False, help_text="refused when it is not the current one")


class ReasonIn(SeenIn):
    reason = serializers.CharField(**TEXT)


class ScheduleIn(SeenIn):
    at = serializers.DateTimeField(help_text="a time to come")


class CommentIn(InputSerializer):
    text = serializers.CharField(**TEXT)


class RequestListIn(InputSerializer):
    q = serializers.CharField(
        default="", allow_blank=True, help_text="every word occurs in title, author or a rule"
    )
    state = serializers.ChoiceField(ChangeRequest.State.choices, default="", allow_blank=True)
    whose = serializers.ChoiceField(
        ["mine", "waiting"], default="", allow_blank=True, help_text="waiting: for your decision"
    )


class Clause(Out):
    when = serializers.CharField()
    route_to = serializers.CharField()
    exception = serializers.BooleanField()
    signals = serializers.ListField(child=serializers.CharField())


class RuleTest(Out):
    query = serializers.CharField()
    tools = serializers.ListField(child=serializers.CharField())


class Content(Out):
    tool_name = serializers.CharField(help_text="the target")
    confusables = serializers.ListField(child=serializers.CharField())
    rule_text = serializers.CharField()
    clauses = Clause(many=True)
    tests = RuleTest(many=True)


class ExchangeRule(Content):
    """One rule of the exchange format."""

    code = serializers.CharField()
    domain = serializers.CharField()


class RuleFinding(Out):
    code = serializers.CharField()
    level = serializers.ChoiceField(["error", "warning"])
    sentence = serializers.CharField()
    fix = serializers.CharField()
    other = serializers.CharField(help_text="code of the other rule, if any")
    place = serializers.JSONField(help_text="{pointer, start, end} in the exchange format")
    path = serializers.ListField(child=serializers.CharField(), help_text="codes of the rules on a cycle")


class RuleRow(Out):
    id = serializers.IntegerField(source="rule.pk")
    code = serializers.CharField(source="rule.code")
    domain = serializers.CharField(source="rule.domain_id")
    state = serializers.ChoiceField(["published", "changed", "draft"])
    light = serializers.ChoiceField(["ok", "warning", "error"])
    target = serializers.CharField(source="version.target.name")
    version = serializers.IntegerField(source="version.number", help_text="the newest version")
    published = serializers.SerializerMethodField(help_text="the version that is taught")
    changed_at = serializers.DateTimeField(source="version.created_at")

    def get_published(self, row: Any) -> int | None:
        """`numbers` of the context: published versions by id, read once for all rows."""
        number: int | None = self.context["numbers"].get(row.rule.published_id)
        return number


class Version(Out):
    number = serializers.IntegerField()
    published = serializers.SerializerMethodField(help_text="whether it is the version that is taught")
    note = serializers.CharField()
    author = serializers.CharField(source="author.username", default=None, allow_null=True)
    created_at = serializers.DateTimeField()
    content_hash = serializers.CharField()

    def get_published(self, version: Any) -> bool:
        return bool(version.rule.published_id == version.pk)


class VersionDetail(Version):
    content = Content()


class RuleDetail(Out):
    id = serializers.IntegerField()
    code = serializers.CharField()
    domain = serializers.CharField()
    published = serializers.IntegerField(allow_null=True)
    newest = VersionDetail()
    findings = RuleFinding(many=True, help_text="about the newest version")


class Piece(Out):
    kind = serializers.ChoiceField(["same", "added", "removed"])
    words = serializers.CharField()


class Diff(Out):
    changed = serializers.ListField(
        child=serializers.CharField(), help_text="names of the fields that differ"
    )
    target = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="[before, after]"
    )
    confusables_added = serializers.ListField(child=serializers.CharField())
    confusables_removed = serializers.ListField(child=serializers.CharField())
    text = Piece(many=True)
    clauses_added = Clause(many=True)
    clauses_removed = Clause(many=True)
    tests_added = RuleTest(many=True)
    tests_removed = RuleTest(many=True)


class VersionDiff(Out):
    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of Python."""
        return {"from": serializers.IntegerField(), "to": serializers.IntegerField(), "diff": Diff()}


class Checked(Out):
    light = serializers.ChoiceField(["ok", "warning", "error"], help_text="error: it cannot be published")
    findings = RuleFinding(many=True)


class ImportedRule(Out):
    kind = serializers.ChoiceField(["added", "changed", "draft"])
    domain = serializers.CharField()
    code = serializers.CharField()


class Imported(Out):
    request = serializers.IntegerField(allow_null=True, help_text="the change request; null for a dry run")
    format = serializers.ChoiceField(["json", "csv"])
    added = serializers.IntegerField()
    changed = serializers.IntegerField()
    unpublished = serializers.IntegerField(help_text="drafts and withdrawn rules that the file repeats")
    unchanged = serializers.IntegerField()
    skipped = serializers.IntegerField(help_text="rules with a mistake, left out")
    errors = serializers.ListField(  # type: ignore[assignment]
        child=serializers.CharField(), help_text="place and sentence of each mistake"
    )
    ignored = serializers.DictField(
        child=serializers.IntegerField(), help_text="fields that are not part of a rule: in how many rules"
    )
    changes = ImportedRule(many=True)


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
    may = serializers.ListField(child=serializers.CharField(), help_text="the verbs that you may use now")


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


def draft_input(given: Mapping[str, Any]) -> dict[str, Any]:
    """The content fields of a body, as the services name them."""
    return {key: given[name] for key, name in FIELDS.items() if name in given}
