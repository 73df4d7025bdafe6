"""Yield per rule: what the writers made of each published rule, what it supports, and how far it is from its target.

Counts are of the published version: samples of an older one teach nobody any more. Nor do those whose tools say
something else since: they are counted apart.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

from django.db.models import Count, F, Max, Q

from catalog.models import Tool
from synthesis.core.clauses import reasons_unsupported
from synthesis.core.queries import RULE_STYLES, ToolText
from synthesis.models import Attempt, Sample
from synthesis.samples.sources import published_rules
from synthesis.samples.staleness import GONE, REPLACED, content_stale
from trace_site.jobs import Job

TARGET = 12
NEAR = "near_duplicate"
ACTIVE = [Job.State.QUEUED, Job.State.RUNNING]
SHOWS = ("all", "below", "unsupported")
# how each column sorts; the first is the order one starts with
ORDERS = (
    *("missing", "rule", "domain", "target", "ready", "stale", "approved", "dropped"),
    *("per_ready", "near", "last_run"),
)


@dataclass(slots=True)
class RuleYield:
    """One published rule. `reasons`: {style: why it is not supported}."""

    rule_id: int
    code: str
    domain: str
    version: int
    target: Annotated[int, "0 where no style is supported"]
    reasons: dict[str, str] = field(default_factory=dict)
    ready: Annotated[int, "whose rule and tools still say what they said"] = 0
    stale: Annotated[int, "made ready, but a tool of the pool changed since"] = 0
    waiting: Annotated[int, "planned by a run under way"] = 0
    approved: int = 0
    dropped: int = 0
    attempts: int = 0
    near: int = 0
    last_run: int | None = None
    rejections: str = ""  # why readers refused; the page fills it for the rows it shows

    @property
    def styles(self) -> list[str]:
        return [style for style in RULE_STYLES if style not in self.reasons]

    @property
    def missing(self) -> int:
        return max(0, self.target - self.ready)

    @property
    def per_ready(self) -> float | None:
        """Attempts that one ready sample took, dropped ones counted in."""
        return self.attempts / self.ready if self.ready else None


def chosen_rows(rows: list[RuleYield], show: str, order: str) -> list[RuleYield]:
    """The rows of one view in one order; `-name` turns it round."""
    if show == "below":
        rows = [row for row in rows if row.missing]
    elif show == "unsupported":
        rows = [row for row in rows if row.reasons]
    name = order.removeprefix("-")
    if name not in ORDERS:
        name = ORDERS[0]
    down = order.startswith("-") != (name == "missing")
    column = "code" if name == "rule" else name
    # what is not known comes first
    return sorted(rows, key=lambda row: ((value := getattr(row, column)) is not None, value), reverse=down)


def rule_yields(domain: str = "", target: int = TARGET, *, code: str = "") -> list[RuleYield]:
    """Of every published rule, or of one. Seven queries whatever the number of rules, six more once tools moved."""
    pairs = published_rules(domain, code)
    wanted = {pk for version, _ in pairs for pk in version.tool_ids}
    live = Tool.objects.filter(pk__in=wanted, status=Tool.Status.ACTIVE)
    tools = {
        name: ToolText(name, description, deprecated=deprecated)
        for name, description, deprecated in live.values_list("name", "description", "deprecated")
    }
    rows: dict[int, RuleYield] = {}
    for version, rule in pairs:
        reasons = reasons_unsupported(rule, tools)
        goal = target if set(RULE_STYLES) - set(reasons) else 0
        row = RuleYield(version.rule_id, rule.code, rule.domain, rule.version, goal, reasons)
        rows[version.pk] = row
    samples = Sample.objects.filter(rule_version__in=list(rows)).order_by()
    attempts = Attempt.objects.filter(sample__rule_version__in=list(rows)).order_by()
    made = Q(machine=Sample.Machine.READY) & ~GONE & Q(~REPLACED)
    stale = content_stale(samples)
    of_samples = samples.values(version=F("rule_version_id")).annotate(
        ready=Count("id", filter=made & ~stale),
        stale=Count("id", filter=made & stale),
        waiting=Count("id", filter=Q(machine=Sample.Machine.PENDING, run__job__state__in=ACTIVE)),
        approved=Count("id", filter=Q(human=Sample.Human.APPROVED)),
        dropped=Count("id", filter=Q(machine=Sample.Machine.DROPPED)),
        last_run=Max("run_id"),
    )
    of_attempts = attempts.values(version=F("sample__rule_version_id")).annotate(
        attempts=Count("id"), near=Count("id", filter=Q(filter_failures__contains=[{"check": NEAR}]))
    )
    counted: list[Any] = [*of_samples, *of_attempts]
    for counts in counted:
        row = rows[counts.pop("version")]
        for name, value in counts.items():
            setattr(row, name, value)
    return list(rows.values())
