"""What pages show of coverage: a domain, its clusters as rows, and the rules whose pairs lie outside."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from evaluation.core import coverage as core
from evaluation.core.coverage import ClusterCoverage, RuleFacts, Totals
from evaluation.coverage.facts import ClusterBook, RuleName, ToolName


@dataclass(frozen=True)
class Names:
    """Turns ids into names."""

    tools: Mapping[int, ToolName]
    clusters: ClusterBook
    dismissals: Mapping[int, str]
    rules: Mapping[int, RuleName]
    samples: Mapping[int, int]

    def rule(self, version: int) -> RuleName:
        return replace(self.rules[version], samples=self.samples.get(version, 0))

    def tool(self, tool: int) -> str:
        return self.tools[tool].name


@dataclass(frozen=True)
class ClusterRow:
    """One cluster as pages show it; lists of names are made when somebody looks."""

    coverage: ClusterCoverage
    names: Names = field(repr=False)

    @property
    def id(self) -> int:
        return self.coverage.cluster.id

    @property
    def label(self) -> str:
        return self.names.clusters.labels[self.id]

    @cached_property
    def words(self) -> str:
        """What a search looks in."""
        return " ".join([self.label, *map(self.names.tool, self.coverage.cluster.tools)]).casefold()

    @property
    def dismissed_reason(self) -> str:
        return self.names.dismissals.get(self.id, "")

    @property
    def state(self) -> str:
        return self.coverage.state

    @property
    def size(self) -> int:
        return len(self.coverage.cluster.tools)

    @property
    def edges(self) -> int:
        return len(self.coverage.cluster.edges)

    @property
    def covered(self) -> int:
        return len(self.coverage.covered)

    @property
    def open(self) -> int:
        return len(self.coverage.uncovered)

    @property
    def mean_similarity(self) -> float:
        return self.coverage.cluster.mean_similarity

    @property
    def gap_score(self) -> float:
        return self.coverage.gap_score

    @property
    def tools(self) -> list[ToolName]:
        """By name."""
        found = (self.names.tools[tool] for tool in self.coverage.cluster.tools)
        return sorted(found, key=lambda tool: tool.name)

    @property
    def rules(self) -> list[RuleName]:
        return [self.names.rule(version) for version in self.coverage.rules]

    @property
    def drafts(self) -> list[RuleName]:
        return [self.names.rule(version) for version in self.coverage.drafts]

    @property
    def uncovered_pairs(self) -> list[tuple[str, str]]:
        """The edges no published rule holds."""
        return [(self.names.tool(a), self.names.tool(b)) for a, b in self.coverage.uncovered]


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
    totals: Totals
    clusters: list[ClusterRow]
    gaps: list[ClusterRow]  # the costliest first
    ranked: list[ClusterRow]  # gaps, then the rest in the clustering's order
    rules: int  # published
    sets: list[RuleFacts]  # T(r) of each
    by_id: dict[int, ClusterRow]
    names: Names
    recall: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def outside(self) -> list[OutsideRow]:
        found = core.pairs_outside(self.sets, self.names.clusters.home)
        return [
            OutsideRow(self.names.rule(row.rule), row.pairs, list(map(self.names.tool, row.outside)))
            for row in found
        ]

    def cluster_of(self, tool: int) -> ClusterRow | None:
        """The cluster of this domain that holds the tool."""
        return self.by_id.get(self.names.clusters.home.get(tool, 0))

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
            "gaps": [_gap(gap) for gap in self.gaps],
            "recall": self.recall,
        }


def _gap(gap: ClusterRow) -> dict[str, Any]:
    return {
        "id": gap.id,
        "label": gap.label,
        "state": gap.state,
        "score": round(gap.gap_score, 3),
        "uncovered_edges": gap.open,
        "edges": gap.edges,
        "tools": [tool.name for tool in gap.tools],
    }
