"""What the API reads and answers about samples."""

from typing import Any, Literal

from synthesis.core.filters import Failure
from synthesis.core.queries import AXES, WRITERS
from synthesis.models import Attempt, Decision, Sample, SnapshotSample, SynthesisRun
from synthesis.samples.forms import CHECKS, OUTCOMES
from synthesis.samples.lineage import Lineage, Made, StageThen, ToolThen
from synthesis.samples.rejections import RejectionReason, Rejections
from synthesis.samples.staleness import LEVELS, Staleness, StaleReason
from trace_site.rest.schema import InputSerializer
from trace_site.rest.shapes import Shape, field


class SampleRow(Shape, of=Sample):
    fields = (
        "id run branch domain rule rule_version style tier query answer machine human approved_how why "
        "writer created_at"
    )

    rule: str | None = field(source="rule_version.rule.code", default=None)
    rule_version: int | None = field(source="rule_version.number", default=None)
    style: str
    tier: str
    answer: list[str]
    approved_how: Sample.How = field("empty unless it is approved", allow_blank=True)
    why: str = field("what the last attempt of a dropped sample ended with")


class AttemptOut(Shape, of=Attempt):
    fields = "number outcome query trace answer filter_failures judge critique error error_code calls at"
    outcome: Literal["ready", "filtered", "judged_out", "error"]
    answer: list[str]
    filter_failures: list[Failure]
    judge: Any = field("{axis: score, critique, failed}; empty when it was not asked")
    critique: str = field("what the next attempt was told")


class ReasonOut(Shape, of=StaleReason):
    fields = "kind what was now content text"
    text: str = field(source="*")


class StaleOut(Shape, of=Staleness):
    fields = "level reasons"
    level: Literal["current", "outdated", "content"]


class SampleDetail(Shape):
    sample: SampleRow = field(source="*")
    trace: str
    explanation: str
    permissions: list[str]
    pool: list[str]
    seed: int
    slot: str
    key: str
    made_from: Any = field("the inputs behind the key")
    thresholds: dict[str, int] = field("least score of each axis")
    attempts: list[AttemptOut] = field(source="attempts.all")
    stale: StaleOut


# What the API answers about rejections and about the lineage of a sample.


class RejectionReasonOut(Shape, of=RejectionReason):
    fields = "reason text count said"
    reason: str = field(source="code")
    text: str = field(source="label")


class RejectionsOut(Shape, of=Rejections):
    fields = "rule code domain version rejected decided sentence reasons styles"
    version: int = field(source="number")
    styles: dict[str, dict[str, int]]

    def get_styles(self, one: Any) -> dict[str, dict[str, int]]:
        return {style: {"rejected": r, "decided": d} for style, (r, d) in one.styles.items()}


class RuleThenOut(Shape):
    rule: int = field(source="rule_id")
    code: str = field(source="rule.code")
    version: int = field(source="number")
    hash: str = field(source="content_hash")
    text: str
    published: int | None = field("the version published now", source="rule.published.number", default=None)
    author: str | None = field(source="author.username", default=None)


class ToolThenOut(Shape, of=ToolThen):
    role: Literal["answer", "rule", "pool"]
    state: Literal["same", "changed", "retired", "not recorded"]


class StageThenOut(Shape, of=StageThen):
    fields = "stage by prompt prompt_hash key parameters"
    parameters: Any


class DecisionThenOut(Shape, of=Decision):
    fields = "round verdict reviewer policy reason note follow_up batch at"
    round: int
    verdict: str
    follow_up: str
    batch: int | None = field(source="item.batch_id", default=None)


class PlaceOut(Shape):
    sample: int = field(source="pk")
    machine: str
    human: str
    again_for: int | None = field(
        "the rejected one it was written for", source="made_from.again.of", default=None
    )
    critique: str | None = field(source="made_from.again.critique", default=None)


class MembershipOut(Shape, of=SnapshotSample):
    fields = "snapshot hash position"
    hash: str = field(source="snapshot.hash")


class MadeOut(Shape, of=Made):
    fields = "kind id of label state about aliases"


class LineageOut(Shape):
    sample: SampleRow
    key: str = field(source="sample.key")
    seed: int = field(source="sample.seed")
    approved_how: str = field(source="sample.approved_how")
    rule: RuleThenOut | None = field(source="sample.rule_version")
    tools: list[ToolThenOut]
    stages: list[StageThenOut]
    few_shots: list[str]
    recipe: dict[str, Any] | None
    attempts: list[AttemptOut]
    calls: int = field("of its attempts; which ones is not recorded", source="calls.own")
    place: list[PlaceOut] = field("every sample that stood in its place, in order")
    decisions: list[DecisionThenOut]
    decisions_hidden: int = field(source="hidden")
    snapshots: list[MembershipOut] = field(source="memberships")
    made: list[MadeOut] = field("what was made of these snapshots")

    def get_recipe(self, line: Lineage) -> dict[str, Any] | None:
        recipe: dict[str, Any] | None = line.sample.run.params.get("recipe")
        return recipe


class SampleListIn(InputSerializer, total=False):
    """The filters of the samples page."""

    q: str = field("words of the query", max_length=200)
    run: int = field(min_value=1, max_value=2**62)
    branch: SynthesisRun.Branch
    domain: str = field(max_length=60)
    rule: str = field("code", max_length=200)
    style: Sample.Style
    tier: Sample.Tier
    machine: Sample.Machine
    human: Sample.Human
    approved_how: Sample.How
    writer: str = field(choices=WRITERS)
    outcome: str = field("of one of its attempts", choices=list(OUTCOMES))
    check: str = field("that refused an attempt", choices=list(CHECKS))
    axis: str = field("that refused an attempt", choices=list(AXES))
    error: str = field("error code of an attempt", max_length=60)
    tries: Literal["first", "again"]
    stale: str = field(choices=list(LEVELS))
