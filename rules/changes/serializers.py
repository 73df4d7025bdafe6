"""What the API answers about change requests."""

from datetime import datetime
from typing import Any, Literal

from drf_spectacular.utils import extend_schema_field

from rules.changes import proposals
from rules.core.rule import keyed
from rules.models import ChangeComment, ChangeRequest, Rule, RuleChange
from rules.serializers import Content, Diff, RuleFinding
from trace_site.impact import Impact
from trace_site.rest.shapes import Shape, field


class Conflict(Shape, of=proposals.Conflict):
    fields = "sentence blocks"


class RulePart(Shape, of=Rule):
    fields = "id code domain"


class Change(Shape, of=RuleChange):
    """One change of a request. Its ETag is its revision."""

    fields = "id request revision action rule domain code note content base edited_by edited_at version"
    revision: int = field("what If-Match names, in quotes")
    rule: RulePart | None = field("null: a new rule")
    domain: str
    content: dict[str, Any] | None = field("null for a withdrawal")
    base: int | None = field(source="base.number", default=None)
    version: int | None = field("what it became", source="version.number", default=None)

    @extend_schema_field(Content(allow_null=True))
    def get_content(self, change: RuleChange) -> dict[str, Any] | None:
        if change.action == RuleChange.Action.WITHDRAW:
            return None
        return keyed(change.content)


class Problem(Shape):
    pointer: str = field("JSON pointer in the exchange format")
    message: str

    def to_representation(self, problem: tuple[str, str]) -> dict[str, str]:
        return dict(zip(self.fields, problem, strict=True))


class ChangeView(Shape):
    """A change with what helps to decide on it."""

    change: Change
    diff: Diff = field("against the version it began from")
    problems: list[Problem] = field("why it is no complete rule yet")
    findings: list[RuleFinding] | None = field("null while it is incomplete or has ended")
    conflicts: list[Conflict]


class RequestRow(Shape, of=ChangeRequest):
    """A change request. Its ETag is its revision."""

    fields = (
        "id title description state revision author reason apply_at blocked bypassed applied_at "
        "created_at updated_at"
    )
    revision: int = field("what verbs name, so that nobody approves what they did not see")
    reason: str = field("why it was rejected, cancelled or applied without approval")
    blocked: str = field("why it could not be applied on schedule")


class ReviewWord(Shape):
    reviewer: str = field(source="approval.reviewer.username")
    verdict: Literal["approve", "reject"] = field(source="approval.verdict")
    revision: int = field(source="approval.revision")
    comment: str = field(source="approval.comment")
    at: datetime = field(source="approval.at")
    counts: bool


class Comment(Shape, of=ChangeComment):
    fields = "id author text at"


class RequestMore(Shape):
    changes: list[ChangeView]
    approvals: list[ReviewWord]
    approvals_missing: int
    comments: list[Comment]
    may: list[str] = field("the verbs that you may use now")


class RequestDetail(RequestRow, RequestMore):
    """A change request with its changes and what helps to decide."""


class ImpactLine(Shape, of=Impact):
    fields = "name count label"
    name: str = field("a stable key such as samples")


class RuleImpact(Shape):
    rule: str
    lines: list[ImpactLine]


class RequestImpact(Shape):
    total: list[ImpactLine]
    rules: list[RuleImpact]
