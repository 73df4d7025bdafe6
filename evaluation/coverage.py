"""Coverage per domain over its newest clustering: what rules tell apart, what nobody has written down yet.

The arithmetic is `core/coverage.py`; this module reads the rows it needs in a fixed number of queries and gives
every number the list behind it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Q

from catalog.models import Cluster, Clustering, Domain, Tool
from evaluation.core import coverage as core
from evaluation.core.coverage import ClusterCoverage, ClusterFacts, QueryGroups, RuleFacts, Totals
from evaluation.recall import recall_by_domain
from rules.models import Rule, RuleVersion
from synthesis.models import Sample, SnapshotSample
from training.models import AliasMove, Run


@dataclass(frozen=True)
class RuleName:
    id: int
    code: str
    version: int
    published: bool
    samples: int


@dataclass(frozen=True)
class ToolName:
    id: int
    name: str
    deprecated: bool
    version: str


@dataclass(frozen=True)
class ClusterRow:
    """One cluster of the page. `uncovered_pairs` names the edges no published rule holds."""

    id: int
    label: str
    state: str
    edges: int
    covered: int
    mean_similarity: float
    gap_score: float
    tools: list[ToolName]
    rules: list[RuleName]
    drafts: list[RuleName]
    uncovered_pairs: list[tuple[str, str]]
    dismissed_reason: str


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
    tau: float | None
    tools: int  # active
    totals: Totals
    clusters: list[ClusterRow]
    gaps: list[ClusterRow]  # ranked, the costliest first
    rules: int  # published
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
                    "uncovered_edges": gap.edges - gap.covered,
                    "edges": gap.edges,
                    "tools": [tool.name for tool in gap.tools],
                }
                for gap in self.gaps
            ],
            "recall": self.recall,
        }


def coverage(domain: str | None = None) -> list[DomainCoverage]:
    """Every domain, or one; the number of queries does not depend on how much there is."""
    chosen = Domain.objects.filter(slug=domain) if domain else Domain.objects.all()
    domains = list(chosen.annotate(active=Count("tools", filter=Q(tools__status=Tool.Status.ACTIVE))))
    slugs = [row.slug for row in domains]
    clusterings = newest_clusterings(slugs)
    clusters = list(Cluster.objects.filter(clustering__in=clusterings.values()).order_by("position", "id"))
    versions, facts = rule_facts(slugs)
    wanted = {tool for cluster in clusters for tool in cluster.tool_ids} | {t for f in facts for t in f.tools}
    tools = {
        row.pk: ToolName(row.pk, row.name, row.deprecated, row.version)
        for row in Tool.objects.filter(pk__in=wanted).only("name", "deprecated", "version")
    }
    page = _Page(tools, versions, {fact.id: fact for fact in facts})
    recalls = recall_by_domain()
    return [
        page.domain(
            row,
            clusterings.get(row.slug),
            clusters,
            [f for f in facts if versions[f.id].rule.domain_id == row.slug],
            recalls.get(row.slug, {}),
        )
        for row in domains
    ]


def newest_clusterings(slugs: Iterable[str] | None = None) -> dict[str, Clustering]:
    found = Clustering.objects.order_by("domain_id", "-version").distinct("domain_id")
    if slugs is not None:
        found = found.filter(domain__in=list(slugs))
    return {clustering.domain_id: clustering for clustering in found}


def cluster_facts(cluster: Cluster) -> ClusterFacts:
    return ClusterFacts(
        id=cluster.pk,
        tools=frozenset(cluster.tool_ids),
        edges=tuple((a, b, similarity) for a, b, similarity in cluster.edges),
        mean_similarity=cluster.mean_similarity,
        dismissed=bool(cluster.dismissed_reason),
    )


def rule_facts(slugs: Iterable[str] | None = None) -> tuple[dict[int, RuleVersion], list[RuleFacts]]:
    """The published version of every rule, and the newest one where it is not published; four queries."""
    rules = Rule.objects.filter(domain__in=list(slugs)) if slugs is not None else Rule.objects.all()
    published = dict(rules.exclude(published=None).values_list("pk", "published"))
    newest = RuleVersion.objects.filter(rule__in=rules).order_by("rule_id", "-number").distinct("rule_id")
    wanted = set(published.values()) | set(newest.values_list("pk", flat=True))
    versions = {row.pk: row for row in RuleVersion.objects.filter(pk__in=wanted).select_related("rule")}
    samples, taught = approved_samples(published.values()), champion_versions()
    facts = [
        RuleFacts(
            id=row.pk,
            tools=tuple(row.tool_ids),
            published=published.get(row.rule_id) == row.pk,
            samples=samples.get(row.pk, 0),
            in_champion=row.pk in taught,
        )
        for row in sorted(versions.values(), key=lambda row: (row.rule.code, row.pk))
    ]
    return versions, facts


def approved_samples(versions: Iterable[int]) -> dict[int, int]:
    counted = Sample.objects.filter(
        rule_version__in=list(versions), machine=Sample.Machine.READY, human=Sample.Human.APPROVED
    )
    return dict(counted.order_by().values_list("rule_version").annotate(Count("pk")))


def champion_versions() -> frozenset[int]:
    """The rule versions the champion was trained on: those of its snapshot, if its cell trains on rule samples."""
    move = (
        AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION)
        .order_by("-id")
        .values_list("model__run__snapshot", "model__run__retrieval")
        .first()
    )
    if move is None or move[1] != Run.Retrieval.RULES:
        return frozenset()
    members = SnapshotSample.objects.filter(snapshot=move[0], sample__rule_version__isnull=False)
    return frozenset(members.order_by().values_list("sample__rule_version", flat=True).distinct())


def query_groups() -> tuple[QueryGroups, dict[str, int]]:
    """How benchmark queries are grouped now, over all domains, and the clustering versions behind it."""
    clusterings = newest_clusterings()
    clusters = Cluster.objects.filter(clustering__in=clusterings.values())
    _, facts = rule_facts()
    rows = core.cover(map(cluster_facts, clusters), facts)
    return QueryGroups.build(rows), {slug: clustering.version for slug, clustering in clusterings.items()}


@dataclass(frozen=True)
class _Page:
    """Turns ids into names."""

    tools: Mapping[int, ToolName]
    versions: Mapping[int, RuleVersion]
    facts: Mapping[int, RuleFacts]

    def domain(
        self,
        domain: Any,
        clustering: Clustering | None,
        clusters: list[Cluster],
        facts: list[RuleFacts],
        recall: dict[str, Any],
    ) -> DomainCoverage:
        mine = {
            row.pk: row for row in clusters if clustering is not None and row.clustering_id == clustering.pk
        }
        covered = core.cover(map(cluster_facts, mine.values()), facts)
        rows = {row.cluster.id: self.cluster(mine[row.cluster.id], row) for row in covered}
        outside = core.pairs_outside(facts, [row.cluster for row in covered])
        return DomainCoverage(
            domain=domain.slug,
            title=domain.title,
            clustering=clustering.version if clustering else None,
            tau=clustering.tau if clustering else None,
            tools=domain.active,
            totals=core.totals(covered),
            clusters=list(rows.values()),
            gaps=[rows[row.cluster.id] for row in core.ranked_gaps(covered)],
            rules=sum(fact.published for fact in facts),
            outside=[
                OutsideRow(self.rule(row.rule), row.pairs, [self.tools[tool].name for tool in row.outside])
                for row in outside
            ],
            recall=recall,
        )

    def cluster(self, cluster: Cluster, row: ClusterCoverage) -> ClusterRow:
        return ClusterRow(
            id=cluster.pk,
            label=cluster.label,
            state=row.state,
            edges=len(row.cluster.edges),
            covered=len(row.covered),
            mean_similarity=cluster.mean_similarity,
            gap_score=row.gap_score,
            tools=sorted((self.tools[tool] for tool in cluster.tool_ids), key=lambda tool: tool.name),
            rules=[self.rule(rule) for rule in row.rules],
            drafts=[self.rule(rule) for rule in row.drafts],
            uncovered_pairs=[(self.tools[a].name, self.tools[b].name) for a, b in row.uncovered],
            dismissed_reason=cluster.dismissed_reason,
        )

    def rule(self, version: int) -> RuleName:
        row, fact = self.versions[version], self.facts[version]
        return RuleName(row.rule_id, row.rule.code, row.number, fact.published, fact.samples)
