"""manage.py coverage: what published rules tell apart, per domain."""

from collections.abc import Iterator
from typing import Any

from django.core.management import CommandParser

from catalog.models import Domain
from evaluation.core.coverage import STATES
from evaluation.core.stats import interval_words
from evaluation.coverage.gaps import clusters
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
            "--recount", action="store_true", help="count the rollups anew; says how many rows differed"
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        rows = coverage(options["domain"])
        if options["domain"] and not rows:
            slugs = Domain.objects.values_list("slug", flat=True)
            raise not_found(f"domain {options['domain']!r}", "domains", slugs)
        for row in rows:
            for line in coverage_lines(row):
                self.echo(line)
        told: dict[str, Any] = {"domains": {row.domain: row.as_dict() for row in rows}}
        if options["recount"]:
            differed = told["rollups"] = rollups.refresh()
            parts = ", ".join(f"{many:,} {what}" for what, many in differed.items())
            self.echo(f"rollups counted anew; rows that differed: {parts or 'a recount is still to come'}")
        return told, ""


def coverage_lines(row: DomainCoverage) -> Iterator[str]:
    """The state of a domain, and its gaps as they were counted last."""
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
    if groups := row.recall.get("groups"):
        metric = "recall@gen" if row.recall["decode"] in ("trace", "trace-free") else "recall@1"
        tier = f", {row.recall['tier']} tier" if row.recall["tier"] else ""
        yield f"  {row.recall['benchmark']}{tier}, {row.recall['decode']}"
        for group, found in groups.items():
            base = row.recall["embedding"].get(group, {}).get("metrics", {}).get("recall@1")
            beside = f"   embedding recall@1 {interval_words(base)}" if base else ""
            yield f"  {group}: {metric} {interval_words(found['metrics'][metric])} n {found['n']}{beside}"
    for gap in clusters(row.domain, size=MOST_GAPS):
        cost = "not measured" if gap.score is None else f"{gap.score:.1f} wrong expected of {gap.requests}"
        yield f"  gap {gap.rank}: {cost}  {gap.uncovered} of {gap.pairs} edges  {gap.state:<8} {gap.cluster.label}"
    if len(row.gaps) > MOST_GAPS:
        yield f"  ... of {len(row.gaps)} gaps"
