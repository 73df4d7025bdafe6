"""What the API answers about rules and reads about rules and change requests, in the words of the exchange format."""

from collections.abc import Mapping
from typing import Any, get_args

from rest_framework import serializers

from rules.core import rules_file as schema
from rules.core.draft import FIELDS
from rules.core.pairs import PAIR_STATES
from rules.core.reading import Stance
from rules.models import ChangeRequest, RuleChange
from trace_site.rest.schema import ID, InputSerializer, TextList

Out = serializers.Serializer[Any]


class Clause(Out):
    when = serializers.CharField()
    route_to = serializers.CharField()
    exception = serializers.BooleanField()
    signals = TextList()


class RuleTest(Out):
    query = serializers.CharField()
    tools = TextList()


class Content(Out):
    tool_name = serializers.CharField(help_text="the target")
    confusables = TextList()
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
    path = TextList(help_text="codes of the rules on a cycle")


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


class PairCorrection(Out):
    apart = serializers.BooleanField()
    reason = serializers.CharField()
    by = serializers.CharField(allow_blank=True, help_text="empty: a command")
    at = serializers.DateTimeField()


class RulePair(Out):
    tools = TextList(help_text="two tools of the rule's set")
    state = serializers.ChoiceField(PAIR_STATES, help_text="as it counts: only `apart` is covered")
    read = serializers.ChoiceField(PAIR_STATES, help_text="as it was read")
    words = TextList(help_text="what the rule says of the one, and of the other")
    add = serializers.CharField(help_text="what would tell them apart, if anything is missing")
    correction = PairCorrection(allow_null=True)


class Statement(Out):
    token = serializers.CharField(
        allow_blank=True, help_text="for good; empty: no version with it was published"
    )
    text = serializers.CharField(help_text="as it stands in the rule")
    stance = serializers.ChoiceField(
        get_args(Stance), help_text="use, tells, limits: it leads to its tools; not, dead: away from them"
    )
    tools = TextList()
    in_force = serializers.BooleanField(help_text="whether the published version has it")


class VersionRead(VersionDetail):
    statements = Statement(many=True, help_text="what its text says of its tools, clause by clause")
    pairs = RulePair(many=True, help_text="which tools its words tell apart")


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
    changed = TextList(help_text="names of the fields that differ")
    target = TextList(allow_null=True, help_text="[before, after]")
    confusables_added = TextList()
    confusables_removed = TextList()
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
    errors = TextList(  # type: ignore[assignment]
        help_text="place and sentence of each mistake"
    )
    ignored = serializers.DictField(
        child=serializers.IntegerField(), help_text="fields that are not part of a rule: in how many rules"
    )
    changes = ImportedRule(many=True)


# texts that no exchange format knows are checked by the services, which say what they may hold; here they only must be
# text, and not without end
TEXT: dict[str, Any] = {"required": False, "allow_blank": True, "trim_whitespace": False}
NAME = {**TEXT, "max_length": schema.LONGEST_NAME}
SENTENCE = {**TEXT, "max_length": schema.LONGEST_SENTENCE}
SAID = {**TEXT, "max_length": 10_000}
REVISION: dict[str, Any] = {"min_value": 0, "max_value": 2**31 - 1}
FILTER: dict[str, Any] = {"default": "", "allow_blank": True}
MOST_CHANGES = 500  # that a request begins with; more come by file


class ClauseIn(InputSerializer):
    when = serializers.CharField(**SENTENCE)
    route_to = serializers.CharField(**NAME)
    exception = serializers.BooleanField(default=False)
    signals = serializers.ListField(
        child=serializers.CharField(**{**TEXT, "max_length": schema.LONGEST_SIGNAL}),
        default=list,
        max_length=schema.MOST_SIGNALS,
    )


class RuleTestIn(InputSerializer):
    query = serializers.CharField(**SENTENCE)
    tools = serializers.ListField(
        child=serializers.CharField(**NAME), default=list, max_length=schema.MOST_EXPECTED
    )


class ContentIn(InputSerializer):
    tool_name = serializers.CharField(**NAME, help_text="the target")
    confusables = serializers.ListField(
        child=serializers.CharField(**NAME), required=False, max_length=schema.MOST_CONFUSABLES
    )
    rule_text = serializers.CharField(**TEXT, max_length=schema.LONGEST_RULE)
    clauses = ClauseIn(many=True, required=False, max_length=schema.MOST_CLAUSES)  # type: ignore[call-arg]
    tests = RuleTestIn(many=True, required=False, max_length=schema.MOST_TESTS)  # type: ignore[call-arg]


class CheckIn(ContentIn):
    rule = serializers.IntegerField(
        required=False, allow_null=True, **ID, help_text="the rule it will be a version of, if any"
    )


class ChangePut(ContentIn):
    """The whole change as it shall be: what is left out is empty."""

    domain = serializers.CharField(**SAID, help_text="of a new rule; empty means its target's")
    code = serializers.CharField(**SAID, help_text="of a new rule; empty means made from its target")
    note = serializers.CharField(**SAID)


class ChangeIn(ChangePut):
    """A change of `rule`, or of a new rule. Without content it begins from the rule's newest version."""

    rule = serializers.IntegerField(required=False, allow_null=True, **ID)
    action = serializers.ChoiceField(choices=RuleChange.Action.choices, default=RuleChange.Action.SAVE)
    base = serializers.IntegerField(
        required=False,
        allow_null=True,
        **REVISION,
        help_text="number of the version it begins from; the newest",
    )


class RequestPatch(InputSerializer):
    title = serializers.CharField(**SAID)
    description = serializers.CharField(**SAID, help_text="why the rules change, for who approves")


class RequestIn(RequestPatch):
    changes = ChangeIn(many=True, required=False, max_length=MOST_CHANGES)  # type: ignore[call-arg]


class ListIn(InputSerializer):
    """Filters of the list of rules."""

    q = serializers.CharField(**FILTER, max_length=200, help_text="every word occurs in code, target or text")
    domain = serializers.CharField(**FILTER, max_length=60)
    state = serializers.ChoiceField(
        ["published", "changed", "draft"], **FILTER, help_text="changed: published, with a newer draft"
    )
    light = serializers.ChoiceField(["ok", "warning", "error"], **FILTER, help_text="what the checks say")


class ExportIn(ListIn):
    format = serializers.ChoiceField(["json", "csv"], default="json")


class DiffIn(InputSerializer):
    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of Python."""
        return {name: serializers.IntegerField(**REVISION) for name in ("from", "to")}


class ImportIn(InputSerializer):
    dry_run = serializers.BooleanField(default=False, help_text="only say what the file would change")
    skip_bad_rows = serializers.BooleanField(
        default=False, help_text="leave rules with a mistake out instead of refusing the file"
    )
    drafts = serializers.BooleanField(
        default=False, help_text="also publish what the file repeats of drafts and withdrawn rules"
    )
    title = serializers.CharField(**FILTER, max_length=200)
    filename = serializers.CharField(**FILTER, max_length=200, help_text="used in messages")


class SubmitIn(InputSerializer):
    revision = serializers.IntegerField(**REVISION, help_text="the revision of the request that you saw")


class ApproveIn(SubmitIn):
    comment = serializers.CharField(**SAID)


class RejectIn(SubmitIn):
    reason = serializers.CharField(**SAID)


class SeenIn(InputSerializer):
    revision = serializers.IntegerField(
        required=False, **REVISION, help_text="refused when it is not the current one"
    )


class ReasonIn(SeenIn):
    reason = serializers.CharField(**SAID)


class ScheduleIn(SeenIn):
    at = serializers.DateTimeField(help_text="a time to come")


class CommentIn(InputSerializer):
    text = serializers.CharField(**SAID)


class RequestListIn(InputSerializer):
    q = serializers.CharField(
        **FILTER, max_length=200, help_text="every word occurs in title, author or a rule"
    )
    state = serializers.ChoiceField(ChangeRequest.State.choices, **FILTER)
    whose = serializers.ChoiceField(["mine", "waiting"], **FILTER, help_text="waiting: for your decision")


def draft_input(given: Mapping[str, Any]) -> dict[str, Any]:
    """The content fields of a body, as the services name them."""
    return {key: given[name] for key, name in FIELDS.items() if name in given}
