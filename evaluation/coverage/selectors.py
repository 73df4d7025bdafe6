"""Coverage per domain over its newest clustering: what rules tell apart, what nobody has written down yet.

The arithmetic is `core/coverage.py`, what it reads is `coverage_facts.py`. Every number has the list behind it. A
process keeps what it computed until one of the stamps moves; reading it costs a fixed number of queries.
"""

from dataclasses import replace
from typing import Any

from django.db.models import Q

from evaluation.benchmarks.selectors import RESULTS, TIERS
from evaluation.core import coverage as core
from evaluation.core.coverage import ClusterCoverage, QueryGroups, RuleFacts
from evaluation.coverage import facts
from evaluation.coverage.facts import ClusterBook, Keeper, RuleSets, Stamps, ToolBook
from evaluation.coverage.rows import ClusterRow, DomainCoverage, Names
from evaluation.models import Evaluation
from trace_site.lib.files import content_hash
from training.models import AliasMove, Model

# The recall that stands beside coverage: of the champion, per domain, inside and outside what rules cover.


DECODES = ("trace", "trace-free", "fast", "beam")  # which evaluation of a model is shown, best first


def shown_model() -> tuple[Model | None, str]:
    """Whose recall the page shows: the champion, else the newest evaluated model; and which of the two it is."""
    move = (
        AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION)
        .select_related("model__run")
        .order_by("-id")
        .first()
    )
    if move is not None:
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
    model, alias = shown_model()
    finished = Evaluation.objects.filter(RESULTS, Q(model=model) | Q(model=None)).select_related("benchmark")
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(finished, key=_preference, reverse=True):
        metrics: dict[str, Any] = row.metrics or {}
        for domain, groups in metrics["slices"].items():
            entry = found.setdefault(domain, {})
            if row.model_id is None:
                embedding = entry.setdefault("embeddings", {})
                embedding.setdefault(row.benchmark_id, groups)  # the first is the preferred one
            elif model is not None and "groups" not in entry:
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
    for entry in found.values():
        embeddings = entry.pop("embeddings", {})
        chosen = entry.get("benchmark_id") or next(iter(embeddings), None)
        entry["embedding"] = embeddings.get(chosen, {})
    return found


def _preference(row: Evaluation) -> tuple[int, int, int, int]:
    """The hard tier first, its newest benchmark, then the decode that is served with a trace."""
    rank = DECODES.index(row.decode) if row.decode in DECODES else len(DECODES)
    return -TIERS.index(row.benchmark.tier), row.benchmark_id, -rank, row.pk


_tools: Keeper[ToolBook] = Keeper()
_clusters: Keeper[ClusterBook] = Keeper()
_dismissals: Keeper[dict[int, str]] = Keeper()
_published: Keeper[RuleSets] = Keeper()
_drafts: Keeper[RuleSets] = Keeper()
_apart: Keeper["Apart"] = Keeper()
_samples: Keeper[dict[int, int]] = Keeper()
_pages: Keeper[dict[str, DomainCoverage]] = Keeper()


def coverage(domain: str | None = None, *, recall: bool = True) -> list[DomainCoverage]:
    """Every domain, or one; the number of queries does not depend on how much there is."""
    pages = _pages_now()
    chosen = [page for slug, page in pages.items() if domain in (None, slug)]
    recalls = recall_by_domain() if recall and chosen else {}
    return [replace(page, recall=recalls.get(page.domain, {})) for page in chosen]


def query_groups() -> tuple[QueryGroups, dict[str, int]]:
    """How benchmark queries are grouped now, over all domains, and the clustering versions behind it."""
    pages = _pages_now().values()
    rows = [row.coverage for page in pages for row in page.clusters]
    return QueryGroups.build(rows), {page.domain: page.clustering for page in pages if page.clustering}


def edition() -> str:
    """A name for what coverage says now; it changes whenever the pages would."""
    return content_hash([facts.stamps(), sorted(facts.champion_versions())])[:16]


def _pages_now() -> dict[str, DomainCoverage]:
    """{domain: its page} without recall: two queries when nothing has moved."""
    now, champion = facts.stamps(), facts.champion_versions()
    return _pages.at((now, champion), lambda: _computed(now, champion))


def _computed(now: Stamps, champion: frozenset[int]) -> dict[str, DomainCoverage]:
    tools = _tools.at((now.tools, now.clusters), facts.read_tools)
    clusters = _clusters.at((now.tools, now.clusters), facts.read_clusters)
    structure = (now.tools, now.clusters, now.rules, now.drafts)
    published = _published.at(now.rules, facts.read_published)
    drafts = _drafts.at(structure, lambda: facts.read_drafts(tools))
    apart = _apart.at(structure, lambda: Apart(clusters, published, drafts, _apart.last))
    dismissals = _dismissals.at((now.clusters, now.dismissals), lambda: facts.read_dismissals(clusters))
    samples = _samples.at(now.samples, facts.approved_samples)
    names = Names(tools.tools, clusters, dismissals, {**published.names, **drafts.names}, samples)
    return {
        domain.slug: _page(
            domain,
            names,
            core.judged(
                apart.rows.get(domain.slug, ()), samples=samples, in_champion=champion, dismissed=dismissals
            ),
            published.facts.get(domain.slug, []),
        )
        for domain in tools.domains
    }


class Apart:
    """Every cluster's covered edges; of the last result it keeps the clusters that no changed rule reaches."""

    def __init__(
        self, clusters: ClusterBook, published: RuleSets, drafts: RuleSets, last: "Apart | None"
    ) -> None:
        self.clusters = clusters
        self.rules = {
            slug: {rule.id: rule for rule in (*published.facts.get(slug, ()), *drafts.facts.get(slug, ()))}
            for slug in clusters.clusters
        }
        self.rows = {slug: self._told_apart(slug, last) for slug in clusters.clusters}

    def _told_apart(self, slug: str, last: "Apart | None") -> list[ClusterCoverage]:
        rules = self.rules[slug]
        if last is None or last.clusters is not self.clusters:
            return core.told_apart(self.clusters.clusters[slug], rules.values())
        before = last.rules[slug]
        moved = [old for pk, old in before.items() if rules.get(pk) != old]
        moved += [new for pk, new in rules.items() if before.get(pk) != new]
        reached = {self.clusters.home.get(tool) for rule in moved for tool in rule.tools}
        touched = [row.cluster for row in last.rows[slug] if row.cluster.id in reached]
        fresh = {row.cluster.id: row for row in core.told_apart(touched, rules.values())} if touched else {}
        return [fresh.get(row.cluster.id, row) for row in last.rows[slug]]


def _page(
    domain: Any, names: Names, covered: list[ClusterCoverage], rules: list[RuleFacts]
) -> DomainCoverage:
    clustering = names.clusters.clusterings.get(domain.slug)
    rows = {row.cluster.id: ClusterRow(row, names) for row in covered}
    gaps = [rows[row.cluster.id] for row in core.ranked_gaps(covered)]
    return DomainCoverage(
        domain=domain.slug,
        title=domain.title,
        clustering=clustering.version if clustering else None,
        clustering_id=clustering.pk if clustering else None,
        tau=clustering.tau if clustering else None,
        tools=domain.active,
        totals=core.totals(covered),
        clusters=list(rows.values()),
        gaps=gaps,
        ranked=[*gaps, *(row for row in rows.values() if not row.gap_score)],
        rules=len(rules),
        sets=rules,
        by_id=rows,
        names=names,
    )
