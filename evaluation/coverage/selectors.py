"""Coverage per domain over its newest clustering: what rules tell apart, what nobody has written down yet.

The arithmetic is `core/coverage.py`, what it reads is `facts.py`. Every number has the list behind it. A process
keeps what it computed until one of the stamps moves; reading it costs two queries.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from django.db.models import Q

from evaluation.benchmarks.selectors import RESULTS, TIERS
from evaluation.core import coverage as core
from evaluation.core.coverage import ClusterCoverage, QueryGroups, Totals
from evaluation.coverage import facts
from evaluation.coverage.facts import RuleName, Stamps, ToolName
from evaluation.models import Evaluation
from trace_site.lib.files import content_hash
from training.models import AliasMove, Model


@dataclass(frozen=True)
class ClusterRow:
    id: int
    label: str
    state: str
    size: int
    edges: int
    covered: int
    open: int
    mean_similarity: float
    gap_score: float
    tools: list[ToolName]  # by name
    rules: list[RuleName]
    drafts: list[RuleName]
    dismissed_reason: str
    coverage: ClusterCoverage

    @cached_property
    def words(self) -> str:
        """What a search looks in."""
        return " ".join([self.label, *(tool.name for tool in self.tools)]).casefold()


@dataclass(frozen=True)
class OutsideRow:
    """A published rule with pairs (target, confusable) that no cluster holds."""

    rule: RuleName
    pairs: int
    outside: list[str]


@dataclass(frozen=True)
class DomainCoverage:
    domain: str
    title: str
    clustering: int | None  # version; None: the domain has no clusters yet
    clustering_id: int | None
    tau: float | None
    tools: int  # active
    rules: int  # published
    totals: Totals
    clusters: list[ClusterRow]
    gaps: list[ClusterRow]  # the costliest first
    ranked: list[ClusterRow]  # gaps, then the rest in the clustering's order
    by_id: dict[int, ClusterRow]
    outside: list[OutsideRow]
    recall: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The machine form of `manage.py coverage --json`."""
        return {
            "clustering": self.clustering,
            "tau": self.tau,
            "tools": self.tools,
            "rules": self.rules,
            "clusters": self.totals.clusters,
            "states": dict(self.totals.states),
            "resolved": self.totals.done,
            "edges": self.totals.edges,
            "edges_covered": self.totals.edges_covered,
            "clustered_tools": self.totals.tools,
            "tools_covered": self.totals.tools_covered,
            "rules_outside": [
                {"code": row.rule.code, "pairs": row.pairs, "outside": row.outside} for row in self.outside
            ],
            "gaps": [
                {
                    "id": gap.id,
                    "label": gap.label,
                    "state": gap.state,
                    "score": round(gap.gap_score, 3),
                    "uncovered_edges": gap.open,
                    "edges": gap.edges,
                    "tools": [tool.name for tool in gap.tools],
                }
                for gap in self.gaps
            ],
            "recall": self.recall,
        }


def coverage(domain: str | None = None, *, recall: bool = True) -> list[DomainCoverage]:
    """Every domain, or one; the number of queries does not depend on how much there is."""
    pages = _pages(facts.stamps(), facts.champion_versions())
    chosen = [page for slug, page in pages.items() if domain in (None, slug)]
    recalls = recall_by_domain() if recall and chosen else {}
    return [replace(page, recall=recalls.get(page.domain, {})) for page in chosen]


def query_groups() -> tuple[QueryGroups, dict[str, int]]:
    """How benchmark queries are grouped now, over all domains, and the clustering versions behind it."""
    pages = coverage(recall=False)
    rows = [row.coverage for page in pages for row in page.clusters]
    return QueryGroups.build(rows), {page.domain: page.clustering for page in pages if page.clustering}


def edition() -> str:
    """A name for what coverage says now; it changes whenever the pages would."""
    return content_hash([facts.stamps(), sorted(facts.champion_versions())])[:16]


@lru_cache(maxsize=1)
def _pages(now: Stamps, champion: frozenset[int]) -> dict[str, DomainCoverage]:
    """{domain: its page} without recall."""
    tools, book = facts.read_tools(now.tools), facts.read_clusters(now.tools, now.clusters)
    dismissals = facts.read_dismissals(now.clusters, now.dismissals)
    published, drafts = facts.read_published(now.rules), facts.read_drafts(now.tools, now.rules, now.drafts)
    samples = facts.read_samples(now.samples)
    names = {
        version: replace(name, samples=samples.get(version, 0))
        for version, name in (published.names | drafts.names).items()
    }

    def row_of(found: ClusterCoverage) -> ClusterRow:
        cluster = found.cluster
        return ClusterRow(
            id=cluster.id,
            label=book.labels[cluster.id],
            state=found.state,
            size=len(cluster.tools),
            edges=len(cluster.edges),
            covered=len(found.covered),
            open=len(found.uncovered),
            mean_similarity=cluster.mean_similarity,
            gap_score=found.gap_score,
            tools=sorted(
                (tools[tool] for tool in cluster.tools if tool in tools), key=lambda tool: tool.name
            ),
            rules=[names[version] for version in found.rules],
            drafts=[names[version] for version in found.drafts],
            dismissed_reason=dismissals.get(cluster.id, ""),
            coverage=found,
        )

    pages = {}
    for domain in facts.read_domains(now.tools):
        rules = published.facts.get(domain.slug, [])
        known = [
            replace(rule, samples=samples.get(rule.id, 0), in_champion=rule.id in champion)
            for rule in (*rules, *drafts.facts.get(domain.slug, ()))
        ]
        clusters = book.clusters.get(domain.slug, ())
        covered = core.cover(
            [replace(one, dismissed=True) if one.id in dismissals else one for one in clusters], known
        )
        rows = {found.cluster.id: row_of(found) for found in covered}
        gaps = [rows[gap.cluster.id] for gap in core.ranked_gaps(covered)]
        clustering = book.clusterings.get(domain.slug)
        pages[domain.slug] = DomainCoverage(
            domain=domain.slug,
            title=domain.title,
            clustering=clustering.version if clustering else None,
            clustering_id=clustering.pk if clustering else None,
            tau=clustering.tau if clustering else None,
            tools=domain.active,
            rules=len(rules),
            totals=core.totals(covered),
            clusters=list(rows.values()),
            gaps=gaps,
            ranked=[*gaps, *(row for row in rows.values() if not row.gap_score)],
            by_id=rows,
            outside=[
                OutsideRow(names[rule], pairs, [tools[tool].name for tool in outside if tool in tools])
                for rule, pairs, outside in core.pairs_outside(rules, book.home)
            ],
        )
    return pages


# The recall that stands beside coverage: of the champion, per domain, inside and outside what rules cover.

DECODES = ("trace", "trace-free", "fast", "beam")  # which evaluation of a model is shown, best first


def shown_model() -> tuple[Model | None, str]:
    """Whose recall is shown: ("champion"), else that of the newest evaluated model ("newest")."""
    champions = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION).order_by("-id")
    if move := champions.select_related("model__run").first():
        return move.model, "champion"
    evaluated = Evaluation.objects.filter(RESULTS, model__isnull=False).values("model")
    return Model.objects.filter(pk__in=evaluated).select_related("run").order_by("-id").first(), "newest"


def recall_by_domain() -> dict[str, dict[str, Any]]:
    """The recall of each domain, for programs; two queries.

    {domain: {"model", "alias", "cell", "base", "benchmark", "tier", "decode", "groups", "embedding", "same_length"}},
    from the newest benchmark of the hard tier (else without a tier, else plain) that has queries in the domain.
    `groups` and `embedding` map all, covered, uncovered and outside to
    {"n", "metrics": {metric: {mean, low, high, n}}}.
    """

    def preference(row: Evaluation) -> tuple[int, int, int, int]:
        """The hard tier first, its newest benchmark, then the decode that is served with a trace."""
        rank = DECODES.index(row.decode) if row.decode in DECODES else len(DECODES)
        return -TIERS.index(row.benchmark.tier), row.benchmark_id, -rank, row.pk

    model, alias = shown_model()
    finished = Evaluation.objects.filter(RESULTS, Q(model=model) | Q(model=None)).select_related("benchmark")
    found: dict[str, dict[str, Any]] = {}
    baselines: dict[str, dict[int, Any]] = {}  # {domain: {benchmark: groups}}, the preferred one first
    for row in sorted(finished, key=preference, reverse=True):
        metrics: dict[str, Any] = row.metrics or {}
        for domain, groups in metrics["slices"].items():
            entry = found.setdefault(domain, {})
            if row.model_id is None:
                baselines.setdefault(domain, {}).setdefault(row.benchmark_id, groups)
            elif model is not None and not entry:
                entry |= {
                    "model": model.pk,
                    "alias": alias,
                    "cell": model.run.cell,
                    "base": model.run.base,
                    "benchmark": str(row.benchmark),
                    "benchmark_id": row.benchmark_id,
                    "tier": row.benchmark.tier,
                    "evaluation": row.pk,
                    "decode": row.decode,
                    "groups": groups,
                    "same_length": metrics.get("same_length", {}).get(domain, {}),
                }
    for domain, entry in found.items():
        known = baselines.get(domain, {})
        entry["embedding"] = known.get(entry.get("benchmark_id") or next(iter(known), 0), {})
    return found
