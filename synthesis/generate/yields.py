"""Yield per rule: what the writers made of each published rule, what it supports, and how far it is from its target.

Counts are of the published version: samples of an older one teach nobody any more. Nor do those whose tools say
something else since: they are counted apart.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, F, Max, Q

from catalog.models import Tool
from synthesis.core.clauses import reasons_unsupported
from synthesis.core.queries import RULE_STYLES, ToolText
from synthesis.llm.ledger import job_books
from synthesis.models import Attempt, Sample, SynthesisRun
from synthesis.samples.sources import published_rules
from synthesis.samples.staleness import content_stale
from synthesis.samples.standing import GONE, REPLACED
from synthesis.samples.units import equation, of_run
from trace_site.jobs import Job

TARGET = 12
NEAR = "near_duplicate"
ACTIVE = [Job.State.QUEUED, Job.State.RUNNING]
SHOWS = ("all", "below", "unsupported")
# how each column sorts; the first is the order one starts with
ORDERS = (
    "missing",
    "rule",
    "domain",
    "target",
    "ready",
    "stale",
    "approved",
    "dropped",
    "per_ready",
    "near",
    "last_run",
)


@dataclass(slots=True)
class RuleYield:
    """One published rule. `stale` samples would be ready, had no tool changed.

    `target` is 0 where it supports no style; `reasons`: {style: why it is not supported}.
    """

    rule_id: int
    code: str
    domain: str
    version: int
    target: int
    reasons: dict[str, str] = field(default_factory=dict)
    ready: int = 0
    stale: int = 0
    waiting: int = 0
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


@dataclass(frozen=True, slots=True)
class Book:
    """Every rule of a domain. `met` rules reached their target, of `able` that support a style at all."""

    rows: list[RuleYield]

    @property
    def able(self) -> int:
        return sum(row.target > 0 for row in self.rows)

    @property
    def met(self) -> int:
        return sum(row.target > 0 and not row.missing for row in self.rows)

    @property
    def below(self) -> int:
        return self.able - self.met

    @property
    def unsupported(self) -> int:
        return sum(bool(row.reasons) for row in self.rows)

    def chosen(self, show: str, order: str) -> list[RuleYield]:
        """The rows of one view in one order; `-name` turns it round."""
        rows = self.rows
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
        return sorted(
            rows, key=lambda row: ((value := getattr(row, column)) is not None, value), reverse=down
        )


def rule_book(domain: str = "", target: int = TARGET, *, code: str = "") -> Book:
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
    return Book(list(rows.values()))


def run_counts(run: SynthesisRun) -> dict[str, Any]:
    """The yield funnel of a run, from rows alone.

    written, ready, dropped: samples; filtered, judged_out: attempts refused.

    planned = ready + dropped + those given up, by reason, + missing; whoever wrote them.
    calls: HTTP exchanges, lost and failed ones too; tokens and cost: what they took.
    """
    attempts = Attempt.objects.filter(of_run(run.pk, "sample__"))
    outcomes = Counter(dict(attempts.values_list("outcome").annotate(n=Count("pk"))))
    units = equation(run)
    paid = job_books(run.job).total
    checks: Counter[str] = Counter()
    axes: Counter[str] = Counter()
    for failures, judge in attempts.filter(Q(outcome="filtered") | Q(outcome="judged_out")).values_list(
        "filter_failures", "judge"
    ):
        checks.update({failure["check"] for failure in failures})
        axes.update(judge.get("failed", ()))
    return {
        "planned": units.planned,
        "given_up": units.given_up,
        "missing": units.missing,
        "written": units.ready + units.dropped,
        "filtered": outcomes["filtered"],
        "judged_out": outcomes["judged_out"],
        "ready": units.ready,
        "dropped": units.dropped,
        "calls": paid.calls,
        "tokens": paid.tokens,
        "cost": paid.cost,
        "attempts": sum(outcomes.values()),
        "errors": outcomes["error"],
        "checks": dict(checks.most_common()),
        "axes": dict(axes.most_common()),
        "skipped": len(run.skipped),
        "run": run.pk,
    }


def funnel_lines(counts: dict[str, Any]) -> list[str]:
    """The funnel for a terminal."""
    share = counts["ready"] / counts["written"] if counts["written"] else 0.0

    def listed(reasons: dict[str, int]) -> str:
        return f" ({', '.join(f'{name} {number:,}' for name, number in reasons.items())})" if reasons else ""

    given_up = sum(counts["given_up"].values())
    return [
        f"  planned     {counts['planned']:>7,} samples, {given_up:,} given up{listed(counts['given_up'])}",
        f"  written     {counts['written']:>7,} samples, {counts['attempts']:,} attempts",
        f"  asked       {counts['calls']:>7,} calls, {counts['tokens']:,} tokens, cost {counts['cost']:,.4f}",
        f"  filter V    {counts['filtered']:>7,} attempts refused{listed(counts['checks'])}",
        f"  judge J     {counts['judged_out']:>7,} attempts refused{listed(counts['axes'])}",
        f"  errors      {counts['errors']:>7,} attempts",
        f"  dropped     {counts['dropped']:>7,} samples after all retries",
        f"  ready       {counts['ready']:>7,} samples ({share:.1%})",
    ]
