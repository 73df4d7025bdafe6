"""What the API reads and answers about reviewing: an item to read, a decision, why the queue is empty."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter

from synthesis.models import Decision, ReviewItem, Sample, SynthesisRun
from synthesis.samples.rejections import REASONS
from trace_site.rest.schema import InputSerializer, finite
from trace_site.rest.shapes import Shape, field

LONGEST = 20_000
TEXT: dict[str, Any] = {"required": False, "max_length": LONGEST}
VERDICTS = [choice for choice in Decision.Verdict.choices if choice[0] != Decision.Verdict.UNDO]


class QueueFiltersIn(InputSerializer, total=False):
    """A part of the review queue; what is left out does not narrow."""

    domain: str = field("slug", max_length=60)
    branch: SynthesisRun.Branch
    style: Sample.Style
    tier: Sample.Tier
    round: ReviewItem.Round
    rule: str = field("code", max_length=200)
    batch: int = field(min_value=1, max_value=2**62)


class ClaimIn(QueueFiltersIn):
    """The part of the queue that is meant; nothing means all of it."""

    besides: list[Annotated[int, field(min_value=0, max_value=2**62)]] = field(
        "items you hold already and do not mean", default=list, max_length=50
    )


class ToolOut(Shape):
    name: str
    description: str


class SideOut(Shape):
    """One of two readings that differ; whose it was is not told."""

    verdict: str = field(source="decision.verdict", choices=VERDICTS)
    query: str = field(source="decision.after.query")
    trace: str = field(source="decision.after.trace")
    answer: list[str] = field(source="decision.after.answer")
    reason: str = field(source="decision.reason")
    note: str = field(source="decision.note")


class ItemOut(Shape):
    claim: UUID = field("a decision names it", source="item.claim")
    lease_seconds: int = field("send a heartbeat before they are over")
    item: int = field(source="item.pk")
    round: ReviewItem.Round = field(source="item.round")
    sample: int = field(source="sample.pk")
    seen: str = field("names these texts; a decision that brings it is about no others")
    branch: SynthesisRun.Branch = field(source="sample.branch")
    domain: str = field(source="sample.domain_id")
    style: str = field(source="sample.style")
    tier: str = field(source="sample.tier")
    rule: str | None = field("code", source="sample.rule_version.rule.code")
    rule_version: int | None = field(source="sample.rule_version.number")
    rule_text: str
    writer: str = field(source="sample.writer")
    query: str = field(source="sample.query")
    trace: str = field(source="sample.trace")
    answer: list[str] = field(source="sample.answer")
    pool: list[ToolOut]
    readings: list[SideOut] = field("what the two readers asked for; in an adjudication only", source="sides")


class QueueOut(Shape):
    left: int = field("open or claimed in this part")
    claimed_by_others: int
    frees_at: datetime | None = field("when the oldest of their claims ends")
    assigned_to_others: int
    read_by_you: int = field("wait for a reading by somebody else")
    adjudications_read_by_you: int
    held: int = field("kept by batches that read only a part")
    elsewhere: int = field("open or claimed in other parts")


class ClaimOut(Shape):
    item: ItemOut | None = field("null: see queue")
    queue: QueueOut | None = field("why there is nothing; null with an item")


class LeaseOut(Shape):
    claim: UUID
    item: int
    lease_seconds: int


class DecisionIn(InputSerializer):
    claim: UUID
    verdict: str = field(choices=VERDICTS)
    query: str = field("of an edit", **TEXT)
    trace: str = field("of an edit", allow_blank=True, **TEXT)
    answer: list[Annotated[str, field(max_length=300)]] = field("of an edit", required=False, max_length=50)
    reason: str = field("of a rejection", required=False, choices=list(REASONS))
    follow_up: Decision.FollowUp = field(
        "of a rejection: written again with the reason as critique, or dropped (the default)", required=False
    )
    note: str = field(required=False, max_length=2000, allow_blank=True)
    seen: str = field("as it came with the item", required=False, max_length=64)
    seconds: float = field("of reading", required=False, min_value=0, max_value=86_400, validators=[finite])


class DecidedOut(Shape):
    sample: int = field(source="pk")
    human: Sample.Human = field("second or disputed: another person reads it next")
    approved_by: str
    approved_how: str


class UndoneOut(Shape):
    sample: int
    item: ItemOut | None = field("claimed again; null where the sample no longer waits")


SKIP = OpenApiParameter("skip", bool, description="put it off: it comes to you again after all others")
