"""manage.py coverage: what published rules tell apart, per domain."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management import CommandParser

from catalog.models import Domain
from evaluation.core.coverage import STATES
from evaluation.core.stats import interval_words
from evaluation.coverage.counted import ClusterCount, counted, figures_by_domain
from evaluation.coverage.gaps import right
from evaluation.coverage.pages import model_words
from evaluation.coverage.selectors import DomainCoverage, coverage
from evaluation.models import DomainPoint
from evaluation.results import rollups
from trace_site.commands import TraceCommand
from trace_site.lib.errors import not_found

MOST_GAPS = 10


class Command(TraceCommand):
    help = "Show how much of each domain's confusable clusters published rules cover."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--domain", help="a domain's slug; default: all")
        parser.add_argument(
            "--recount", action="store_true", help="count it anew; says how many rows differed"
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        rows = coverage(options["domain"])
        if options["domain"] and not rows:
            slugs = Domain.objects.values_list("slug", flat=True)
            raise not_found(f"domain {options['domain']!r}", "domains", slugs)
        told: dict[str, Any] = {"domains": {}}
        if options["recount"]:
            told["rollups"] = rollups.refresh()
        figures = figures_by_domain()
        for row in rows:
            point = figures.get(row.domain)
            found: dict[str, Any] = {"recall": first_tools(point), "gaps": gaps_by_rank(row)}
            told["domains"][row.domain] = {**coverage_now(row), **found}
            for line in (*coverage_lines(row), *recall_lines(point), *gap_lines(found["gaps"])):
                self.echo(line)
        if options["recount"]:
            parts = ", ".join(f"{many:,} {what}" for what, many in told["rollups"].items())
            self.echo(f"counted anew; rows that differed: {parts or 'something moved meanwhile, try again'}")
        return told, ""


def coverage_now(row: DomainCoverage) -> dict[str, Any]:
    """As rules and clusters stand."""
    done = row.totals
    return {
        "clustering": row.clustering,
        "tau": row.tau,
        "tools": row.tools,
        "rules": row.rules,
        "clusters": done.clusters,
        "states": dict(done.states),
        "resolved": done.done,
        "edges": done.edges,
        "edges_covered": done.edges_covered,
        "edges_named": done.edges_named,
        "clustered_tools": done.tools,
        "tools_covered": done.tools_covered,
        "rules_outside": [
            {"code": one.rule.code, "pairs": one.pairs, "outside": one.outside} for one in row.outside
        ],
    }


def first_tools(point: DomainPoint | None) -> dict[str, Any]:
    """Shares of labelled requests whose first tool is right, as counted last; empty where nothing was counted."""
    if point is None:
        return {}
    groups = right_by_group(point.groups) if point.model_id else {}
    beside = right_by_group(point.groups, "_embedding")
    return {"model": point.model_id, "alias": point.alias, "groups": groups, "embedding": beside}


def right_by_group(groups: Mapping[str, Mapping[str, int]], side: str = "") -> dict[str, dict[str, Any]]:
    """{group: {n, metrics: {hit@1: mean and Wilson's interval}}} of the groups that were asked."""
    found = {}
    for group, counts in groups.items():
        if rate := right(counts, side):
            figure = {"mean": rate.value, "low": rate.low, "high": rate.high, "n": rate.n}
            found[group] = {"n": rate.n, "metrics": {"hit@1": figure}}
    return found


def gaps_by_rank(row: DomainCoverage) -> list[dict[str, Any]]:
    """With the wrong answers to expect; null where nothing was measured, or not counted yet."""
    counts: dict[int, ClusterCount] = {one.pk: one for one in counted().clusters.get(row.domain, ())}
    found = [
        {
            "id": gap.id,
            "label": gap.label,
            "why": gap.why,
            "state": gap.state,
            "expected_rules": round(gap.coverage.expected_rules, 4),
            "uncovered_edges": len(gap.coverage.uncovered),
            "edges": len(gap.coverage.cluster.edges),
            "tools": [tool.name for tool in gap.tools],
            **{
                name: getattr(counts.get(gap.id), name, None) for name in ("score", "score_low", "score_high")
            },
        }
        for gap in row.ranked
        if gap.coverage.is_gap
    ]
    return sorted(found, key=lambda gap: counts[gap["id"]].rank if gap["id"] in counts else math.inf)


def coverage_lines(row: DomainCoverage) -> Iterator[str]:
    """The state of a domain."""
    if row.clustering is None:
        yield f"{row.domain}: {row.tools:,} tools, no clusters yet (run manage.py catalog_clusters)"
        return
    done = row.totals
    yield f"{row.domain}: {row.tools:,} tools, {row.rules} published rules"
    tau = f", cosine at least {row.tau:.2f}" if row.tau else ""
    yield f"  clustering v{row.clustering}{tau}"
    counts = [f"{state.replace('_', ' ')} {done.states[state]}" for state in STATES if done.states[state]]
    yield f"  {done.done} of {done.clusters} clusters resolved ({'  '.join(counts)})"
    yield f"  {done.edges_covered:,} of {done.edges:,} edges, {done.tools_covered:,} of {done.tools:,} clustered tools"
    if done.edges_named:
        yield f"  {done.edges_named:,} more edges are only named by rules"
    lost = sum(len(one.outside) for one in row.outside)
    yield f"  {lost} pairs of {len(row.outside)} rules lie outside every cluster"


def recall_lines(point: DomainPoint | None) -> Iterator[str]:
    """The first tools of who answers, in each group, and of the embedding beside a model."""
    found = first_tools(point)
    if point is None or not (shown := found["groups"] or found["embedding"]):
        return
    yield f"  first tools of {model_words(point)}"
    for group, of in shown.items():
        base = found["embedding"].get(group, {}).get("metrics", {}).get("hit@1")
        beside = f"   embedding {interval_words(base)}" if base and found["groups"] else ""
        yield f"  {group}: {interval_words(of['metrics']['hit@1'])} n {of['n']}{beside}"


def gap_lines(found: list[dict[str, Any]]) -> Iterator[str]:
    for gap in found[:MOST_GAPS]:
        wrong = "not measured" if gap["score"] is None else f"{gap['score']:.1f} wrong answers expected"
        yield f"  gap {gap['uncovered_edges']} of {gap['edges']} edges  {gap['state']:<8} {wrong}  {gap['label']}"
    if len(found) > MOST_GAPS:
        yield f"  ... and {len(found) - MOST_GAPS} more"
