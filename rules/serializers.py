"""What the API answers about rules and reads about rules and change requests, in the words of the exchange format."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from rest_framework import serializers

from rules.core import rule as limits
from rules.core.check import Finding
from rules.core.draft import RuleDiff
from rules.core.reading import Stance
from rules.core.rule import FIELDS, PLAIN
from rules.models import ChangeRequest, RuleChange, RuleVersion
from rules.selectors import PairRow
from trace_site.rest.schema import ID, InputSerializer
from trace_site.rest.shapes import Shape, field, field_of


class Clause(Shape):
    when: str
    route_to: str
    exception: bool
    signals: list[str]


class RuleTest(Shape):
    query: str
    tools: list[str]


def plain_fields(required: bool) -> dict[str, Any]:
    """The serializer's fields of a rule's plain fields, by key."""
    found = {}
    for one in PLAIN.values():
        text = {"max_length": one.schema.get("maxLength"), "trim_whitespace": False}
        options = {"choices": one.choices} if one.choices else text
        options |= {"help_text": one.help, "allow_blank": True, "required": required}
        found[one.key] = field_of(str, options)
    return found


class Content(Shape):
    tool_name: str = field("the target")
    confusables: list[str]
    rule_text: str
    clauses: list[Clause]
    tests: list[RuleTest]

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), **plain_fields(required=True)}


class ExchangeRule(Content):
    """One rule of the exchange format."""

    code: str
    domain: str


class RuleFinding(Shape, of=Finding):
    other: str = field("code of the other rule, if any")
    place: Any = field("{pointer, start, end} in the exchange format")
    path: list[str] = field("codes of the rules on a cycle")

    def to_representation(self, finding: Finding) -> dict[str, Any]:
        return finding.as_dict()


class RuleRow(Shape):
    id: int = field(source="rule.pk")
    code: str = field(source="rule.code")
    domain: str = field(source="rule.domain_id")
    state: Literal["published", "changed", "draft"]
    light: Literal["ok", "warning", "error"]
    target: str = field(source="version.target.name")
    version: int = field("the newest version", source="version.number")
    published: int | None = field("the version that is taught")
    changed_at: datetime = field(source="version.created_at")

    def get_published(self, row: Any) -> int | None:
        """Read with the rows."""
        number: int | None = row.published_number
        return number


class Version(Shape, of=RuleVersion):
    fields = "number published note author created_at content_hash"
    published: bool = field("whether it is the version that is taught")

    def get_published(self, version: Any) -> bool:
        return bool(version.rule.published_id == version.pk)


class VersionDetail(Version):
    content: Content


class PairCorrection(Shape):
    apart: bool
    reason: str
    by: str = field("empty: a command")
    at: datetime


class RulePair(Shape, of=PairRow):
    fields = "tools state read words add correction"
    correction: PairCorrection | None


class Statement(Shape):
    token: str = field("for good; empty: no version with it was published")
    text: str = field("as it stands in the rule", source="clause.text")
    stance: str = field(
        "use, tells, limits: it leads to its tools; not, dead: away from them",
        choices=get_args(Stance),
        source="clause.stance",
    )
    tools: list[str] = field(source="clause.tools")
    in_force: bool = field("whether the published version has it")


class VersionRead(VersionDetail):
    statements: list[Statement] = field("what its text says of its tools, clause by clause")
    pairs: list[RulePair] = field("which tools its words tell apart")


class RuleDetail(Shape):
    id: int = field(source="rule.pk")
    code: str = field(source="rule.code")
    domain: str = field(source="rule.domain_id")
    published: int | None
    newest: VersionDetail
    findings: list[RuleFinding] = field("about the newest version")


class Piece(Shape):
    kind: Literal["same", "added", "removed"]
    words: str


class Diff(Shape):
    changed: list[str] = field("names of the fields that differ")
    target: list[str] | None = field("[before, after]")
    confusables_added: list[str]
    confusables_removed: list[str]
    text: list[Piece]
    clauses_added: list[Clause]
    clauses_removed: list[Clause]
    tests_added: list[RuleTest]
    tests_removed: list[RuleTest]

    def get_fields(self) -> dict[str, Any]:
        plain = {
            one.key: field_of(list[str] | None, {"help_text": "[before, after]"}) for one in PLAIN.values()
        }
        return {**super().get_fields(), **plain}

    def to_representation(self, diff: RuleDiff) -> dict[str, Any]:
        said: dict[str, Any] = {name: getattr(diff, name) for name in diff.__slots__}
        said["text"] = [{"kind": kind, "words": words.strip()} for kind, words in diff.text]
        said |= {one.key: None for one in PLAIN.values()}
        said |= {one.key: (before, after) for one, before, after in diff.plain}
        return {name: said[name] for name in self.fields}


class VersionDiff(Shape):
    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of Python."""
        return {"from": serializers.IntegerField(), "to": serializers.IntegerField(), "diff": Diff()}


class Checked(Shape):
    light: Literal["ok", "warning", "error"] = field("error: it cannot be published")
    findings: list[RuleFinding]


class ImportedRule(Shape):
    kind: Literal["added", "changed", "draft"]
    domain: str = field(source="entry.domain")
    code: str = field(source="entry.code")


class Imported(Shape):
    request: int | None = field("the change request; null for a dry run")
    format: Literal["json", "csv"]
    added: int
    changed: int
    unpublished: int = field("drafts and withdrawn rules that the file repeats")
    unchanged: int
    skipped: int = field("rules with a mistake, left out")
    errors: list[str] = field("place and sentence of each mistake")
    ignored: dict[str, int] = field("fields that are not part of a rule: in how many rules")
    changes: list[ImportedRule]


# texts that no exchange format knows are checked by the services, which say what they may hold; here they only must be
# text, and not without end
TEXT: dict[str, Any] = {"required": False, "allow_blank": True, "trim_whitespace": False}
NAME = {**TEXT, "max_length": limits.LONGEST_NAME}
SENTENCE = {**TEXT, "max_length": limits.LONGEST_SENTENCE}
SAID = {**TEXT, "max_length": 10_000}
REVISION: dict[str, Any] = {"min_value": 0, "max_value": 2**31 - 1}
FILTER: dict[str, Any] = {"default": "", "allow_blank": True}
MOST_CHANGES = 500  # that a request begins with; more come by file


class ClauseIn(InputSerializer):
    when: str = field(**SENTENCE)
    route_to: str = field(**NAME)
    exception: bool = False
    signals: list[Annotated[str, field(**{**TEXT, "max_length": limits.LONGEST_SIGNAL})]] = field(
        default=list, max_length=limits.MOST_SIGNALS
    )


class RuleTestIn(InputSerializer):
    query: str = field(**SENTENCE)
    tools: list[Annotated[str, field(**NAME)]] = field(default=list, max_length=limits.MOST_EXPECTED)


class ContentIn(InputSerializer):
    tool_name: str = field("the target", **NAME)
    confusables: list[Annotated[str, field(**NAME)]] = field(
        required=False, max_length=limits.MOST_CONFUSABLES
    )
    rule_text: str = field(max_length=limits.LONGEST_RULE, **TEXT)
    clauses: list[ClauseIn] = field(required=False, max_length=limits.MOST_CLAUSES)
    tests: list[RuleTestIn] = field(required=False, max_length=limits.MOST_TESTS)

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), **plain_fields(required=False)}


class CheckIn(ContentIn):
    rule: int | None = field("the rule it will be a version of, if any", required=False, **ID)


class ChangePut(ContentIn):
    """The whole change as it shall be: what is left out is empty."""

    domain: str = field("of a new rule; empty means its target's", **SAID)
    code: str = field("of a new rule; empty means made from its target", **SAID)
    note: str = field(**SAID)


class ChangeIn(ChangePut, total=False):
    """A change of `rule`, or of a new rule. Without content it begins from the rule's newest version."""

    rule: int | None = field(**ID)
    action: RuleChange.Action = RuleChange.Action.SAVE
    base: int | None = field("number of the version it begins from; the newest", **REVISION)


class RequestPatch(InputSerializer):
    title: str = field(**SAID)
    description: str = field("why the rules change, for who approves", **SAID)


class RequestIn(RequestPatch):
    changes: list[ChangeIn] = field(required=False, max_length=MOST_CHANGES)


class ListIn(InputSerializer):
    """Filters of the list of rules."""

    q: str = field("every word occurs in code, target or text", max_length=200, **FILTER)
    domain: str = field(max_length=60, **FILTER)
    state: Literal["published", "changed", "draft"] = field(
        "changed: published, with a newer draft", **FILTER
    )
    light: Literal["ok", "warning", "error"] = field("what the checks say", **FILTER)


class ExportIn(ListIn):
    format: Literal["json", "csv"] = "json"


class DiffIn(InputSerializer):
    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of Python."""
        return {name: serializers.IntegerField(**REVISION) for name in ("from", "to")}


class ImportIn(InputSerializer):
    dry_run: bool = field("only say what the file would change", default=False)
    skip_bad_rows: bool = field("leave rules with a mistake out instead of refusing the file", default=False)
    drafts: bool = field("also publish what the file repeats of drafts and withdrawn rules", default=False)
    title: str = field(max_length=200, **FILTER)
    filename: str = field("used in messages", max_length=200, **FILTER)


class SubmitIn(InputSerializer):
    revision: int = field("the revision of the request that you saw", **REVISION)


class ApproveIn(SubmitIn):
    comment: str = field(**SAID)


class RejectIn(SubmitIn):
    reason: str = field(**SAID)


class SeenIn(InputSerializer):
    revision: int = field("refused when it is not the current one", required=False, **REVISION)


class ReasonIn(SeenIn):
    reason: str = field(**SAID)


class ScheduleIn(SeenIn):
    at: datetime = field("a time to come")


class CommentIn(InputSerializer):
    text: str = field(**SAID)


class RequestListIn(InputSerializer):
    q: str = field("every word occurs in title, author or a rule", max_length=200, **FILTER)
    state: ChangeRequest.State = field(**FILTER)
    whose: Literal["mine", "waiting"] = field("waiting: for your decision", **FILTER)


def draft_input(given: Mapping[str, Any]) -> dict[str, Any]:
    """The content fields of a body, as the services name them."""
    return {name: given[one.key] for name, one in FIELDS.items() if one.key in given}
