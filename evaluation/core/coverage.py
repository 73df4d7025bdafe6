"""Which look-alikes do published rules tell apart: the arithmetic over edges of confusable clusters.

In: the clusters of one clustering (tools, edges) and rules with their sets T(r) and the pairs that they tell apart.
Out: each cluster's state and the rules to expect, and the group (covered, uncovered, outside) of a benchmark query.

An edge joins two look-alikes of a cluster (catalog/core/edges.py says which). It is covered when a condition of ONE
published rule separates its two tools (rules/core/pairs.py). Where a rule's T(r) only holds both, the edge is named
only, which counts as open. A tool is covered when at least one of its edges is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from evaluation.core.metrics import ALL

RESOLVED_SHARE = 0.8  # of a cluster's edges
TAUGHT_SAMPLES = 10  # approved samples of every rule that covers an edge of the cluster
# from the least to the most done; `dismissed` clusters leave the denominator
STATES = ("no_rule", "draft", "named", "touched", "resolved", "taught", "in_champion", "dismissed")
DONE = ("resolved", "taught", "in_champion")
COVERED, UNCOVERED, OUTSIDE = GROUPS = ("covered", "uncovered", "outside")
EXCEPTIONS = "exceptions"
LINES = (COVERED, EXCEPTIONS, UNCOVERED, OUTSIDE)  # of a report: an exception counts in its group as well
GROUP_WORDS = {
    ALL: "on all requests",
    COVERED: "where a rule tells look-alikes apart",
    EXCEPTIONS: "on exceptions of rules",
    UNCOVERED: "where no rule tells look-alikes apart",
    OUTSIDE: "outside every cluster",
}
GROUP_DEFINITION = (
    "covered: at least one gold tool lies in a confusable cluster, and a condition of a published rule tells each one "
    "that does apart from a look-alike it has an edge to. uncovered: some gold tool lies in a cluster and no published "
    "rule tells it apart from any of its look-alikes; being named in one does not count. outside: no gold tool lies in "
    "a cluster (dismissed clusters do not count). exceptions: the rule that decides leads to another "
    "tool than its target, as the benchmark says; they count in their groups as well."
)


Pair = tuple[int, int]


def pair_of(a: int, b: int) -> Pair:
    """Two tools in no order: the smaller id first."""
    return (a, b) if a < b else (b, a)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    id: int
    tools: frozenset[int]
    edges: tuple[tuple[int, int, float], ...]
    mean_similarity: float
    dismissed: bool = False
    chances: Mapping[Pair, float] = field(default_factory=dict)  # {edge: rules to expect from its signals}


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """One version of a rule: the published one, or a draft: a newer version, or a change somebody has asked for.
    `pairs` are those of its set that a condition of it separates, as `pair_of` gives them."""

    id: int
    tools: tuple[int, ...]  # T(r), the target first
    pairs: frozenset[Pair] = frozenset()
    published: bool = True
    samples: int = 0  # approved samples of this version
    in_champion: bool = False  # the champion was trained on samples of this version


@dataclass(frozen=True, slots=True)
class ClusterCoverage:
    cluster: ClusterFacts
    state: str
    covered: tuple[Pair, ...]
    uncovered: tuple[Pair, ...]
    named: tuple[Pair, ...]  # those of the uncovered ones that a published rule holds and does not tell apart
    # of any two of its tools that a published rule tells apart, joined by an edge or not
    apart: tuple[Pair, ...]
    rules: tuple[int, ...]  # published rules that cover an edge here
    naming: tuple[int, ...]  # published rules that only name one that is uncovered
    drafts: tuple[int, ...]  # drafts that hold two tools of it

    @property
    def is_gap(self) -> bool:
        return bool(self.uncovered) and self.state != "dismissed"

    @property
    def expected_rules(self) -> float:
        """Over its uncovered pairs, from signals alone (confusion.rule_chance); no cost, which a count holds."""
        chances = self.cluster.chances
        return sum(chances.get(edge, 0.0) for edge in self.uncovered) if self.is_gap else 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Dismissed clusters are counted as such and nowhere else."""

    states: Mapping[str, int]
    clusters: int
    edges: int
    edges_covered: int
    edges_named: int  # of those that are not covered
    tools: int
    tools_covered: int

    @property
    def done(self) -> int:
        return sum(self.states[state] for state in DONE)


def cover(clusters: Iterable[ClusterFacts], rules: Iterable[RuleFacts]) -> list[ClusterCoverage]:
    known = {rule.id: rule for rule in rules}
    of_tool: dict[bool, defaultdict[int, set[int]]] = {True: defaultdict(set), False: defaultdict(set)}
    separating: defaultdict[Pair, set[int]] = defaultdict(set)
    for rule in known.values():
        for tool in rule.tools:
            of_tool[rule.published][tool].add(rule.id)
        for pair in rule.pairs if rule.published else ():
            separating[pair].add(rule.id)
    published, drafts = of_tool[True], of_tool[False]
    clusters = list(clusters)
    home = {tool: cluster.id for cluster in clusters for tool in cluster.tools}
    apart: defaultdict[int | None, list[Pair]] = defaultdict(list)
    for a, b in separating:
        apart[home.get(a) if home.get(a) == home.get(b) else None].append((a, b))
    found = []
    for cluster in clusters:
        by = {(a, b): separating.get(pair_of(a, b), set()) for a, b, _ in cluster.edges}
        covered = tuple(edge for edge, ids in by.items() if ids)
        uncovered = tuple(edge for edge, ids in by.items() if not ids)
        holding = {(a, b): published.get(a, set()) & published.get(b, set()) for a, b in uncovered}
        named = tuple(edge for edge, ids in holding.items() if ids)
        covering = tuple(sorted(set(chain.from_iterable(by.values()))))
        naming = tuple(sorted(set(chain.from_iterable(holding.values()))))
        held = Counter(chain.from_iterable(drafts.get(tool, ()) for tool in cluster.tools))
        waiting = tuple(sorted(rule for rule, tools in held.items() if tools > 1))
        state = _state(cluster, len(covered), [known[rule] for rule in covering], bool(named), bool(waiting))
        told = tuple(sorted(apart[cluster.id]))
        found.append(
            ClusterCoverage(cluster, state, covered, uncovered, named, told, covering, naming, waiting)
        )
    return found


def _state(
    cluster: ClusterFacts, covered: int, rules: Sequence[RuleFacts], is_named: bool, has_draft: bool
) -> str:
    if cluster.dismissed:
        return "dismissed"
    if not covered:
        return "named" if is_named else "draft" if has_draft else "no_rule"
    if covered < RESOLVED_SHARE * len(cluster.edges):
        return "touched"
    if any(rule.samples < TAUGHT_SAMPLES for rule in rules):
        return "resolved"
    return "in_champion" if all(rule.in_champion for rule in rules) else "taught"


def totals(rows: Sequence[ClusterCoverage]) -> Totals:
    """Of one clustering: no tool lies in two of its clusters."""
    counted = [row for row in rows if row.state != "dismissed"]
    return Totals(
        states=dict.fromkeys(STATES, 0) | Counter(row.state for row in rows),
        clusters=len(counted),
        edges=sum(len(row.cluster.edges) for row in counted),
        edges_covered=sum(len(row.covered) for row in counted),
        edges_named=sum(len(row.named) for row in counted),
        tools=sum(len(row.cluster.tools) for row in counted),
        tools_covered=sum(len(set(chain.from_iterable(row.covered))) for row in counted),
    )


class OutsidePairs(NamedTuple):
    """A rule's pairs (target, confusable) that no cluster holds: they measure how good clusters are."""

    rule: int
    pairs: int
    outside: tuple[int, ...]  # the confusables whose pair no cluster holds


def pairs_outside(rules: Iterable[RuleFacts], home: Mapping[int, int]) -> list[OutsidePairs]:
    """Of published rules; `home`: tool -> its cluster."""
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
