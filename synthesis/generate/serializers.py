"""What the API reads and answers about runs: progress, funnel, estimates, books, and the yield per rule."""

from collections.abc import Mapping
from typing import Any, Literal

from rest_framework import serializers

from synthesis.core.queries import WRITERS
from synthesis.core.recipe import read_recipe
from synthesis.generate.estimates import Estimate
from synthesis.generate.selectors import SliceCounts, tell_counts
from synthesis.generate.services import ANCHORS, PER_RULE
from synthesis.generate.yields import RuleYield
from synthesis.llm.ledger import MOST_SPENT
from synthesis.models import ModelCall, Sample, SynthesisRun
from trace_site.jobs import Job
from trace_site.lib.llm import limiter
from trace_site.rest.schema import InputSerializer, few_values, finite
from trace_site.rest.shapes import Shape, field


class Counted(Shape):
    name: str
    count: int

    def to_representation(self, pair: tuple[str, int]) -> dict[str, Any]:
        return dict(zip(("name", "count"), pair, strict=True))


class Progress(Shape, of=Job):
    """Of a run's job. `rate`: samples a second; `seconds_left`: null when unknown."""

    fields = "state done total rate seconds_left error error_code"
    state: str
    seconds_left: int | None


class RunRows(serializers.ListSerializer[Any]):
    """Counts once for all rows."""

    def to_representation(self, data: Any) -> Any:
        rows = list(data)
        tell_counts(rows)
        return super().to_representation(rows)


class RunRow(Shape, of=SynthesisRun):
    fields = "id branch writer domain rule seed job planned ready dropped approved created_by created_at"
    writer: str = field("offline, or llm:model")
    domain: str = field(source="params.domain", default="")
    rule: str = field(source="params.rule", default="")
    job: Progress | None
    planned: int
    ready: int
    dropped: int
    approved: int

    class Meta:
        list_serializer_class = RunRows


class FunnelCounts(Shape, of=SliceCounts):
    """`filtered`, `judged_out`, `errors` and `retries` count attempts, the rest samples.

    A run that is done has `planned` = `ready` + `dropped` + those given up.
    """

    fields = "planned written attempts filtered judged_out errors retries ready dropped approved rejected"


class FunnelGroup(FunnelCounts):
    domain: str = field(source="slice.domain")
    rule: str = field(source="slice.rule")
    style: str = field(source="slice.style")
    tier: str = field(source="slice.tier")


class FunnelOut(Shape):
    total: FunnelCounts
    checks: list[Counted] = field("attempts that each check of filter V refused")
    axes: list[Counted] = field("attempts that scored too low on each axis of judge J")
    errors: list[Counted] = field("attempts by error code")
    given_up: list[Counted] = field(
        "planned samples of the whole run that are not written any more, by reason"
    )
    groups: list[FunnelGroup] = field("by what `by` names; empty without it")


class Skipped(Shape):
    rule: str = ""
    style: str
    reason: str


class Spent(Shape, of=limiter.Spent):
    pass


class RunDetail(Shape):
    run: RunRow
    next_step: str = field("what to do about a run that stopped")
    started_with: Any = field("recipe, budget, models and other options")
    spent: Spent
    skipped: list[Skipped] = field("styles that rules cannot support")
    funnel: FunnelOut


class PlanRow(Shape):
    domain: str
    rule: str
    style: str = field("or tier")
    new: int
    content_stale: int
    outdated: int
    kept: int
    skipped: str = field("why the style is not written, if so")


class PlanOut(Shape):
    """`content_stale`: rule or tools changed. `outdated`: only prompt, model or recipe did. `samples`: to write."""

    new: int
    content_stale: int = 0
    outdated: int = 0
    kept: int = 0
    skipped: int = field("styles that rules cannot support")
    samples: int
    rows: list[PlanRow]


class EstimateOut(Shape, of=Estimate):
    plan: PlanOut


class BookLine(Shape):
    """`p50` and `p95`: seconds of answered calls."""

    purpose: str
    model: str
    calls: int
    answered: int
    failed: int
    under_way: int
    lost: int = field("sent by a process that died")
    prompt_tokens: int
    completion_tokens: int
    cost: float
    p50: float
    p95: float


class BooksOut(Shape):
    total: BookLine
    lines: list[BookLine] = field("one per purpose and model")
    errors: list[Counted]
    error_texts: dict[str, str] = field("what the server said of one of them, by error code")


class Call(Shape, of=ModelCall):
    """One exchange of the ledger. `uid` went out as X-Client-Request-Id."""

    fields = (
        "uid purpose endpoint model prompt_hash state error_code error_text unwrapped prompt_tokens "
        "completion_tokens cost seconds sent_at ended_at"
    )
    state: str
    error_text: str = field("the server's own sentence; empty where it answered")
    unwrapped: bool = field("the answer stood in a wrapping, which was taken off")
    cost: float


class YieldRow(Shape, of=RuleYield):
    fields = (
        "rule code domain version styles unsupported target ready stale missing waiting approved dropped "
        "attempts attempts_per_ready near_duplicates last_run"
    )
    rule: int = field(source="rule_id")
    unsupported: dict[str, str] = field("{style: why}", source="reasons")
    attempts_per_ready: float | None = field(source="per_ready")
    near_duplicates: int = field("attempts refused as near-duplicates", source="near")


# What the API reads about synthesis: options of a run, limits, and filters of lists.


TEXT: dict[str, Any] = {"default": "", "allow_blank": True, "max_length": 200}
SPENT: dict[str, Any] = {"min_value": 0, "max_value": MOST_SPENT}


class BudgetIn(InputSerializer, total=False):
    calls: int | None = field(**SPENT)
    tokens: int | None = field("prompts and answers together", **SPENT)
    money: float | None = field("in the currency of the endpoint's prices", validators=[finite], **SPENT)


class RunOptions(InputSerializer):
    """What a run may choose; what is left out takes its default."""

    branch: SynthesisRun.Branch
    writer: str = field(default="offline", choices=WRITERS)
    domain: str = field("slug; empty means every domain", **TEXT)
    rule: str = field("code of one published rule; empty means all of the domain", **TEXT)
    per_rule: int = field(
        "samples per rule, over the styles it supports", default=12, min_value=1, max_value=PER_RULE
    )
    anchors: int = field("RRB samples, one anchor tool each", default=100, min_value=1, max_value=ANCHORS)
    seed: int = field(default=0, min_value=0, max_value=2**53)
    underspecified: bool = field("also the fourth style", default=False)
    outdated: Literal["rewrite", "keep"] = field(
        "what to do with samples that are right but were written with other prompts or models",
        default="rewrite",
    )
    budget: BudgetIn = field(required=False)
    recipe: Any = field(
        "fields of the recipe that differ from the default, as in recipes/default.yaml",
        required=False,
        validators=[few_values],
    )

    def validate_recipe(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise serializers.ValidationError("Send an object.")
        return read_recipe(value)


class ResumeIn(InputSerializer):
    budget: BudgetIn = field("new limits in place of those named", required=False)


class RunListIn(InputSerializer, total=False):
    branch: SynthesisRun.Branch
    state: Job.State


class SliceIn(InputSerializer):
    domain: str = field(**TEXT)
    rule: str = field("code", **TEXT)
    style: Sample.Style = field(default="")
    tier: Sample.Tier = field(default="")
    by: Literal["domain", "rule", "style"] = field("`groups` by this", default="")


class CallListIn(InputSerializer, total=False):
    error: str = field("an error code", max_length=60)
    purpose: str = field(max_length=20)


class YieldIn(InputSerializer):
    domain: str = field(**TEXT)
    target: int = field(default=12, min_value=1, max_value=1000)
    show: Literal["all", "below", "unsupported"] = "all"
