"""Reads behind the synthesis pages: runs with their funnel, samples, one sample with everything that made it."""

import json
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.db.models import Count, Max, Q, QuerySet

from catalog.models import Tool
from rules.models import Rule
from synthesis.core.queries import Verdict
from synthesis.models import Attempt, Sample, SynthesisRun
from trace_site.paging import Page, keyset

APPROVED = Q(human=Sample.Human.APPROVED)
READY = Q(machine=Sample.Machine.READY)
GONE = Q(machine=Sample.Machine.DROPPED) | Q(human=Sample.Human.REJECTED)


@dataclass(slots=True)
class FunnelRow:
    """Counts of one group of samples, in the order a sample passes them."""

    domain: str = ""
    rule: str = ""
    rule_id: int | None = None
    style: str = ""
    planned: int = 0
    written: int = 0
    filtered: int = 0
    judged_out: int = 0
    retries: int = 0
    errors: int = 0
    ready: int = 0
    dropped: int = 0
    approved: int = 0
    rejected: int = 0

    @property
    def label(self) -> str:
        return " ".join(part for part in (self.rule or self.domain, self.style) if part)


@dataclass(slots=True)
class Funnel:
    total: FunnelRow
    domains: list[FunnelRow]
    rows: list[FunnelRow]
    checks: list[tuple[str, int]] = field(default_factory=list)
    axes: list[tuple[str, int]] = field(default_factory=list)


def runs() -> QuerySet[SynthesisRun]:
    return SynthesisRun.objects.select_related("job", "created_by").annotate(
        planned=Count("samples"),
        ready=Count("samples", filter=Q(samples__machine=Sample.Machine.READY)),
        dropped=Count("samples", filter=Q(samples__machine=Sample.Machine.DROPPED)),
        approved=Count("samples", filter=Q(samples__human=Sample.Human.APPROVED)),
    )


def funnel(run: SynthesisRun) -> Funnel:
    """The run's live funnel, from rows alone; four queries whatever its size."""
    rows: dict[tuple[Any, ...], FunnelRow] = {}
    keys = ("domain_id", "rule_version__rule_id", "rule_version__rule__code", "style", "tier")
    counts = (
        Sample.objects.filter(run=run)
        .values(*keys)
        .annotate(
            planned=Count("id"),
            ready=Count("id", filter=READY),
            dropped=Count("id", filter=Q(machine=Sample.Machine.DROPPED)),
            approved=Count("id", filter=APPROVED),
            rejected=Count("id", filter=Q(human=Sample.Human.REJECTED)),
        )
        .order_by(*keys)
    )
    for row in counts:
        key = tuple(row.pop(name) for name in keys)
        rows[key] = FunnelRow(key[0], key[2] or "", key[1], key[3] or key[4], **row)
    tried = (
        Attempt.objects.filter(sample__run=run)
        .values(*(f"sample__{name}" for name in keys))
        .annotate(
            tries=Count("id"),
            written=Count("sample_id", distinct=True),
            filtered=Count("id", filter=Q(outcome="filtered")),
            judged_out=Count("id", filter=Q(outcome="judged_out")),
            errors=Count("id", filter=Q(outcome="error")),
        )
        .order_by()
    )
    for row in tried:
        entry = rows[tuple(row[f"sample__{name}"] for name in keys)]
        entry.written, entry.filtered, entry.judged_out = row["written"], row["filtered"], row["judged_out"]
        entry.errors, entry.retries = row["errors"], row["tries"] - row["written"]
    listed = list(rows.values())
    return Funnel(
        total=added("", listed),
        domains=[
            added(name, [row for row in listed if row.domain == name])
            for name in sorted({row.domain for row in listed})
        ],
        rows=listed,
        checks=failed_checks(run),
        axes=failed_axes(run),
    )


def added(domain: str, rows: list[FunnelRow]) -> FunnelRow:
    names = "planned written filtered judged_out retries errors ready dropped approved rejected"
    return FunnelRow(domain, **{name: sum(getattr(row, name) for row in rows) for name in names.split()})


def failed_checks(run: SynthesisRun) -> list[tuple[str, int]]:
    """How many attempts each check of filter V refused; one attempt may fail several."""
    return counted(
        """SELECT failure->>'check', count(*) FROM synthesis_attempt a
           JOIN synthesis_sample s ON s.id = a.sample_id, jsonb_array_elements(a.filter_failures) failure
           WHERE s.run_id = %s GROUP BY 1 ORDER BY 2 DESC, 1""",
        run.pk,
    )


def failed_axes(run: SynthesisRun) -> list[tuple[str, int]]:
    """How many judged-out attempts scored under the threshold of each axis of judge J."""
    thresholds = Verdict(id="", scores={}).thresholds
    return counted(
        """SELECT axis.key, count(*) FROM synthesis_attempt a
           JOIN synthesis_sample s ON s.id = a.sample_id, jsonb_each(a.judge) axis
           WHERE s.run_id = %s AND a.outcome = 'judged_out' AND jsonb_typeof(axis.value) = 'number'
             AND axis.value::numeric < (%s::jsonb->>axis.key)::numeric GROUP BY 1 ORDER BY 2 DESC, 1""",
        run.pk,
        json.dumps(thresholds),
    )


def counted(sql: str, *values: int | str) -> list[tuple[str, int]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [(str(name), int(count)) for name, count in cursor.fetchall()]


def samples(filters: dict[str, Any], after: str = "") -> tuple[Page, int]:
    """One page of samples, newest first, and how many match in all."""
    found = filtered_samples(filters)
    return keyset(found.select_related("rule_version__rule", "domain"), after, newest=True), found.count()


def filtered_samples(filters: dict[str, Any]) -> QuerySet[Sample]:
    found = Sample.objects.all()
    for name in ("run", "branch", "domain", "style", "tier", "machine", "human"):
        if filters.get(name):
            found = found.filter(**{name: filters[name]})
    if code := filters.get("rule"):
        found = found.filter(rule_version__rule__code=code)
    if writer := filters.get("writer"):
        found = found.filter(writer__startswith=writer)
    if text := filters.get("q"):
        found = found.filter(query__icontains=text)
    return found


def attempts(of: Sample) -> QuerySet[Attempt]:
    return of.attempts.order_by("number")


def pool_tools(of: Sample) -> list[Tool]:
    """The pool's tools, answer first, then T(r), then in the order the writers saw."""
    tools = {tool.name: tool for tool in Tool.objects.filter(name__in={*of.pool, *of.answer}).defer("search")}
    own = set(of.rule_version.tool_ids) if of.rule_version else set()
    order = [tools[name] for name in dict.fromkeys([*of.answer, *of.pool]) if name in tools]
    return sorted(order, key=lambda tool: (tool.name not in of.answer, tool.pk not in own))


def rule_yields(rule: Rule) -> list[dict[str, Any]]:
    """Samples of one rule by version and style: how many were planned, are ready, were approved."""
    rows = (
        Sample.objects.filter(rule_version__rule=rule)
        .values("rule_version__number", "style")
        .annotate(
            planned=Count("id"),
            ready=Count("id", filter=READY),
            dropped=Count("id", filter=Q(machine=Sample.Machine.DROPPED)),
            approved=Count("id", filter=APPROVED),
            rejected=Count("id", filter=Q(human=Sample.Human.REJECTED)),
        )
        .order_by("-rule_version__number", "style")
    )
    return [dict(row) for row in rows]


def tool_samples(tool: Tool) -> dict[str, Any]:
    """How many samples answer with this tool, by human status, and the newest of them."""
    found = Sample.objects.filter(answer__contains=[tool.name])
    counts = found.aggregate(
        total=Count("id"),
        approved=Count("id", filter=APPROVED),
        waiting=Count("id", filter=READY & Q(human=Sample.Human.PENDING)),
        newest=Max("created_at"),
    )
    return {**counts, "samples": list(found.select_related("rule_version__rule").order_by("-pk")[:5])}


def planned(branch: str, *, per_rule: int, anchors: int, domain: str = "") -> dict[str, Any]:
    """What a run with these settings would set out to write, before anything is started."""
    if branch == SynthesisRun.Branch.RULE:
        rules = Rule.objects.filter(published__isnull=False)
        rules = rules.filter(domain=domain) if domain else rules
        count, kept = rules.count(), _kept(branch, domain).filter(rule_version__in=rules.values("published"))
        parts = [(count, "published rules"), (per_rule, "samples each"), (kept.count(), "are there already")]
        return {"count": count * per_rule, "parts": parts}
    if branch == SynthesisRun.Branch.RRB:
        tools = Tool.objects.filter(status=Tool.Status.ACTIVE, deprecated=False)
        count = (tools.filter(domain=domain) if domain else tools).count()
        parts = [(count, "tools to draw from"), (_kept(branch, domain).count(), "samples are there already")]
        return {"count": anchors if count else 0, "parts": parts}
    waiting = Sample.objects.filter(
        branch=branch, trace="", machine=Sample.Machine.READY, attempts__isnull=True
    )
    waiting = waiting.exclude(human=Sample.Human.REJECTED)
    count = (waiting.filter(domain=domain) if domain else waiting).count()
    return {"count": count, "parts": [(count, "imported queries without a trace")]}


def _kept(branch: str, domain: str) -> QuerySet[Sample]:
    """Samples that a further run does not write again."""
    rows = Sample.objects.filter(branch=branch).exclude(GONE)
    return rows.filter(domain=domain) if domain else rows


def rules_with_samples() -> list[str]:
    return list(
        Rule.objects.filter(versions__samples__isnull=False)
        .values_list("code", flat=True)
        .distinct()
        .order_by("code")
    )
