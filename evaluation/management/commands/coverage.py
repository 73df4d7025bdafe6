"""manage.py coverage: what published rules tell apart, per domain."""

import math
from collections.abc import Iterator
from typing import Any

from django.core.management import CommandParser

from catalog.models import Domain
from evaluation.core.coverage import STATES
from evaluation.core.stats import interval_words
from evaluation.coverage import gaps
from evaluation.coverage.counted import ClusterCount
from evaluation.coverage.grouped import recall_by_domain
from evaluation.coverage.selectors import DomainCoverage, coverage
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
        recalls = recall_by_domain()
        told: dict[str, Any] = {"domains": {}}
        if options["recount"]:
            told["rollups"] = rollups.refresh()
        for row in rows:
            costs = {one.pk: one for one in gaps.clusters(row.domain)}
            recall = recalls.get(row.domain, {})
            found = told["domains"][row.domain] = {**row.as_dict(), "recall": recall}
            found["gaps"] = with_costs(found["gaps"], costs)
            for line in (*coverage_lines(row), *recall_lines(recall), *gap_lines(found["gaps"])):
                self.echo(line)
        if options["recount"]:
            parts = ", ".join(f"{many:,} {what}" for what, many in told["rollups"].items())
            self.echo(f"counted anew; rows that differed: {parts or 'something moved meanwhile, try again'}")
        return told, ""


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


def recall_lines(recall: dict[str, Any]) -> Iterator[str]:
    """Of the model shown, in each group."""
    if groups := recall.get("groups"):
        metric = "recall@gen" if recall["decode"] in ("trace", "trace-free") else "recall@1"
        tier = f", {recall['tier']} tier" if recall["tier"] else ""
        yield f"  {recall['benchmark']}{tier}, {recall['decode']}"
        for group, found in groups.items():
            base = recall["embedding"].get(group, {}).get("metrics", {}).get("recall@1")
            beside = f"   embedding recall@1 {interval_words(base)}" if base else ""
            yield f"  {group}: {metric} {interval_words(found['metrics'][metric])} n {found['n']}{beside}"


def with_costs(found: list[dict[str, Any]], costs: dict[int, ClusterCount]) -> list[dict[str, Any]]:
    """By rank, with the wrong answers to expect; null where nothing was measured, or not counted yet."""

    def rank(row: dict[str, Any]) -> float:
        return costs[row["id"]].rank if row["id"] in costs else math.inf

    names = ("score", "score_low", "score_high")
    return [
        {**row, **{name: getattr(costs.get(row["id"]), name, None) for name in names}}
        for row in sorted(found, key=rank)
    ]


def gap_lines(found: list[dict[str, Any]]) -> Iterator[str]:
    for gap in found[:MOST_GAPS]:
        wrong = "not measured" if gap["score"] is None else f"{gap['score']:.1f} wrong answers expected"
        yield f"  gap {gap['uncovered_edges']} of {gap['edges']} edges  {gap['state']:<8} {wrong}  {gap['label']}"
    if len(found) > MOST_GAPS:
        yield f"  ... and {len(found) - MOST_GAPS} more"
