"""Which look-alikes do published rules tell apart: the arithmetic over edges of confusable clusters.

In: the clusters of one clustering (tools, edges) and rules with their sets T(r). Out: each cluster's state and gap
score, and the group (covered, uncovered, outside) of a benchmark query.

An edge joins two tools of a cluster that are mutual neighbours at or above tau. It is covered when ONE published
rule's T(r) holds both its tools. A tool is covered when at least one of its edges is.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

RESOLVED_SHARE = 0.8  # of a cluster's edges
TAUGHT_SAMPLES = 10  # approved samples of every rule that covers an edge of the cluster
# from the least to the most done; `dismissed` clusters leave the denominator
STATES = ("no_rule", "draft", "touched", "resolved", "taught", "in_champion", "dismissed")
DONE = ("resolved", "taught", "in_champion")
COVERED, UNCOVERED, OUTSIDE = GROUPS = ("covered", "uncovered", "outside")
GROUP_DEFINITION = (
    "covered: at least one gold tool lies in a confusable cluster, and each one that does shares a published rule's "
    "set T(r) with a look-alike it has an edge to. uncovered: some gold tool lies in a cluster and shares no published "
    "rule with any of its look-alikes. outside: no gold tool lies in a cluster (dismissed clusters do not count)."
)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    id: int
    tools: frozenset[int]
    edges: tuple[tuple[int, int, float], ...]
    mean_similarity: float
    dismissed: bool = False


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """One version of a rule: the published one, or a draft: a newer version, or a change somebody has asked for."""

    id: int
    tools: tuple[int, ...]  # T(r), the target first
    published: bool = True
    samples: int = 0  # approved samples of this version
    in_champion: bool = False  # the champion was trained on samples of this version


@dataclass(frozen=True, slots=True)
class ClusterCoverage:
    cluster: ClusterFacts
    state: str
    covered: tuple[tuple[int, int], ...]
    uncovered: tuple[tuple[int, int], ...]
    rules: tuple[int, ...]  # published rules that cover an edge here
    drafts: tuple[int, ...]  # drafts that hold two tools of it

    @property
    def gap_score(self) -> float:
        """Uncovered edges x mean similarity x (1 + production misses); misses are not recorded yet, so 0."""
        return 0.0 if self.state == "dismissed" else len(self.uncovered) * self.cluster.mean_similarity


@dataclass(frozen=True, slots=True)
class Totals:
    """Dismissed clusters are counted as such and nowhere else."""

    states: Mapping[str, int]
    clusters: int
    edges: int
    edges_covered: int
    tools: int
    tools_covered: int

    @property
    def done(self) -> int:
        return sum(self.states[state] for state in DONE)


@dataclass(frozen=True)
class RuleIndex:
    """Rules by tool, so that an edge is one set intersection."""

    rules: Mapping[int, RuleFacts]
    of_tool: Mapping[int, frozenset[int]]

    @classmethod
    def build(cls, rules: Iterable[RuleFacts]) -> "RuleIndex":
        by_tool: dict[int, set[int]] = {}
        known = {rule.id: rule for rule in rules}
        for rule in known.values():
            for tool in rule.tools:
                by_tool.setdefault(tool, set()).add(rule.id)
        return cls(known, {tool: frozenset(ids) for tool, ids in by_tool.items()})

    def holding(self, a: int, b: int) -> frozenset[int]:
        """The rules whose set holds both tools."""
        return self.of_tool.get(a, frozenset()) & self.of_tool.get(b, frozenset())

    def holding_two(self, tools: Iterable[int]) -> tuple[int, ...]:
        """The rules whose set holds any two of the tools, by id."""
        counts = Counter(chain.from_iterable(self.of_tool.get(tool, ()) for tool in tools))
        return tuple(sorted(rule for rule, count in counts.items() if count > 1))


def cover(clusters: Iterable[ClusterFacts], rules: Iterable[RuleFacts]) -> list[ClusterCoverage]:
    """`told_apart` and `judged` in one step."""
    clusters, rules = list(clusters), list(rules)
    return judged(
        told_apart(clusters, rules),
        samples={rule.id: rule.samples for rule in rules},
        in_champion={rule.id for rule in rules if rule.in_champion},
        dismissed={cluster.id for cluster in clusters if cluster.dismissed},
    )


def told_apart(clusters: Iterable[ClusterFacts], rules: Iterable[RuleFacts]) -> list[ClusterCoverage]:
    """What the rules' sets alone say; no state goes beyond `resolved`."""
    rules = list(rules)
    published = RuleIndex.build(rule for rule in rules if rule.published)
    drafts = RuleIndex.build(rule for rule in rules if not rule.published)
    return [_told_apart(cluster, published, drafts) for cluster in clusters]


def _told_apart(cluster: ClusterFacts, published: RuleIndex, drafts: RuleIndex) -> ClusterCoverage:
    by_edge = {(a, b): published.holding(a, b) for a, b, _ in cluster.edges}
    covered = tuple(edge for edge, ids in by_edge.items() if ids)
    uncovered = tuple(edge for edge, ids in by_edge.items() if not ids)
    ids = sorted(set(chain.from_iterable(by_edge.values())))
    waiting = drafts.holding_two(cluster.tools)
    state = _state(len(cluster.edges), len(covered), bool(waiting))
    return ClusterCoverage(cluster, state, covered, uncovered, tuple(ids), waiting)


def _state(edges: int, covered: int, has_draft: bool) -> str:
    if not covered:
        return "draft" if has_draft else "no_rule"
    return "touched" if covered < RESOLVED_SHARE * edges else "resolved"


def judged(
    rows: Iterable[ClusterCoverage],
    *,
    samples: Mapping[int, int],
    in_champion: Collection[int],
    dismissed: Collection[int],
) -> list[ClusterCoverage]:
    """Resolved clusters move on by the approved samples of their rules, and by what the champion was trained on."""

    def state(row: ClusterCoverage) -> str:
        if row.cluster.id in dismissed:
            return "dismissed"
        if row.state != "resolved" or any(samples.get(rule, 0) < TAUGHT_SAMPLES for rule in row.rules):
            return row.state
        return "in_champion" if all(rule in in_champion for rule in row.rules) else "taught"

    return [row if (now := state(row)) == row.state else replace(row, state=now) for row in rows]


def totals(rows: Sequence[ClusterCoverage]) -> Totals:
    """Of one clustering: no tool lies in two of its clusters."""
    counted = [row for row in rows if row.state != "dismissed"]
    return Totals(
        states=dict.fromkeys(STATES, 0) | Counter(row.state for row in rows),
        clusters=len(counted),
        edges=sum(len(row.cluster.edges) for row in counted),
        edges_covered=sum(len(row.covered) for row in counted),
        tools=sum(len(row.cluster.tools) for row in counted),
        tools_covered=sum(len(set(chain.from_iterable(row.covered))) for row in counted if row.covered),
    )


def ranked_gaps(rows: Iterable[ClusterCoverage]) -> list[ClusterCoverage]:
    """Clusters that still have uncovered edges, the costliest first; ties by id."""
    gaps = [row for row in rows if row.gap_score > 0]
    return sorted(gaps, key=lambda row: (-row.gap_score, row.cluster.id))


@dataclass(frozen=True, slots=True)
class OutsidePairs:
    """A rule's pairs (target, confusable) that no cluster holds: they measure how good tau is."""

    rule: int
    pairs: int
    outside: tuple[int, ...]  # the confusables whose pair no cluster holds


def pairs_outside(rules: Iterable[RuleFacts], home: Mapping[int, int]) -> list[OutsidePairs]:
    """`home`: tool -> its cluster."""
    found = []
    for rule in rules:
        target, *confusables = rule.tools
        at = home.get(target)
        lost = tuple(tool for tool in confusables if at is None or home.get(tool) != at)
        if rule.published and lost:
            found.append(OutsidePairs(rule.id, len(confusables), lost))
    return found


@dataclass(frozen=True)
class QueryGroups:
    """Sorts benchmark queries into covered, uncovered and outside; see GROUP_DEFINITION."""

    clustered: frozenset[int] = field(default_factory=frozenset)
    covered: frozenset[int] = field(default_factory=frozenset)

    @classmethod
    def build(cls, rows: Sequence[ClusterCoverage]) -> "QueryGroups":
        counted = [row for row in rows if row.state != "dismissed"]
        return cls(
            frozenset(tool for row in counted for a, b, _ in row.cluster.edges for tool in (a, b)),
            frozenset(tool for row in counted for edge in row.covered for tool in edge),
        )

    def group(self, gold: Iterable[int]) -> str:
        inside = [tool for tool in gold if tool in self.clustered]
        if not inside:
            return OUTSIDE
        return COVERED if all(tool in self.covered for tool in inside) else UNCOVERED
