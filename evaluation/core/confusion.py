"""What look-alikes cost: how often a labelled request gets another tool first, and how many wrong answers to expect.

In: labelled requests that the model was not trained on, with what each side (the model, the embedding) chooses first,
and the pairs of a clustering that rules tell apart or not. Out: counts by tool, pair, cluster and domain, the gap score
of a cluster, and what closing gaps would save.

A wrong answer belongs to one pair: the tool it chose, and of the right tools the first that has an uncovered pair with
it, else a covered one, else the first. Two tools of one cluster that nothing joins but others are uncovered too where
the right one has an uncovered pair and no rule tells the two apart: a rule for it is missing. A request concerns each
of its right tools. The score sums over the tools with uncovered pairs: requests that concern the tool x the share of
its labelled requests that go wrong at such a pair. What was never asked is not measured, which is not 0. Intervals:
Wilson's for a share; for sums and differences of shares the distances of their ends add in squares (Zou & Donner 2008,
MOVER).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evaluation.core.coverage import COVERED, UNCOVERED, ClusterCoverage, Pair, QueryGroups, pair_of
from synthesis.core.agreement import Bounds, minus, wilson

MODEL, EMBEDDING = SIDES = ("model", "embedding")
ELSEWHERE = "elsewhere"  # a wrong answer at no pair of a cluster


class Outcome(NamedTuple):
    """A labelled request. `gold`: its right tools; `firsts`: {side: the tool it chose first, None for no tool}; a side
    that was not asked is missing."""

    gold: tuple[int, ...]
    firsts: Mapping[str, int | None]

    def is_right(self, side: str) -> bool:
        """Raises KeyError of a side that was not asked."""
        return self.firsts[side] in self.gold


class Miss(NamedTuple):
    """A wrong answer: `chosen` in place of `tool`, at a covered or uncovered pair or elsewhere."""

    tool: int
    chosen: int | None
    at: str


@dataclass(frozen=True)
class Ground:
    """Of the clusters that count: the pairs told apart, those that are edges (`covered`) and all; the tools with
    uncovered pairs; the cluster of each tool."""

    covered: frozenset[Pair]
    apart: frozenset[Pair]
    open: frozenset[int]
    home: Mapping[int, int]
    groups: QueryGroups

    @classmethod
    def build(cls, rows: Sequence[ClusterCoverage]) -> "Ground":
        counted = [row for row in rows if row.state != "dismissed"]
        return cls(
            frozenset(pair_of(*edge) for row in counted for edge in row.covered),
            frozenset(pair_of(*pair) for row in counted for pair in row.apart),
            frozenset(tool for row in counted for tool in open_tools(row)),
            {tool: row.cluster.id for row in counted for tool in row.cluster.tools},
            QueryGroups.build(rows),
        )

    def clusters(self, gold: Iterable[int]) -> tuple[int, ...]:
        """Those the request concerns, in the order of its right tools."""
        return tuple(dict.fromkeys(self.home[tool] for tool in gold if tool in self.home))

    def miss(self, outcome: Outcome, side: str) -> Miss | None:
        """None where the side is right or was not asked."""
        if side not in outcome.firsts or outcome.is_right(side):
            return None
        chosen = outcome.firsts[side]
        places = {self._place(tool, chosen): tool for tool in reversed(outcome.gold)}
        at = next(place for place in (UNCOVERED, COVERED, ELSEWHERE) if place in places)
        return Miss(outcome.gold[0] if at == ELSEWHERE else places[at], chosen, at)

    def _place(self, tool: int, chosen: int | None) -> str:
        if chosen is None or chosen not in self.home:
            return ELSEWHERE
        pair = pair_of(tool, chosen)
        if pair in self.covered:
            return COVERED
        together = self.home.get(tool) == self.home[chosen]
        return UNCOVERED if together and tool in self.open and pair not in self.apart else ELSEWHERE


@dataclass(slots=True)
class Tally:
    """Requests asked, and of them the wrong ones: in all, and where they go wrong."""

    n: int = 0
    wrong: int = 0
    uncovered: int = 0
    covered: int = 0

    def add(self, miss: Miss | None, *, counts_place: bool = True) -> None:
        self.n += 1
        self.wrong += miss is not None
        if miss is not None and counts_place:
            self.uncovered += miss.at == UNCOVERED
            self.covered += miss.at == COVERED


@dataclass
class Tallies:
    """Of one side. A request with several right tools counts at each of them and in each cluster it concerns, once."""

    tools: dict[int, Tally] = field(default_factory=dict)
    clusters: dict[int, Tally] = field(default_factory=dict)

    @classmethod
    def count(cls, outcomes: Iterable[Outcome], ground: Ground, side: str) -> "Tallies":
        found = cls()
        for outcome in outcomes:
            if side not in outcome.firsts:
                continue
            miss = ground.miss(outcome, side)
            for tool in dict.fromkeys(outcome.gold):
                own = miss is None or tool == miss.tool
                found.tools.setdefault(tool, Tally()).add(miss, counts_place=own)
            for cluster in ground.clusters(outcome.gold):
                own = miss is None or cluster == ground.home.get(miss.tool)
                found.clusters.setdefault(cluster, Tally()).add(miss, counts_place=own)
        return found


# Sums of shares with intervals.


class Term(NamedTuple):
    """`requests` of a tool, and of `n` labelled ones those that go wrong at a pair in question."""

    requests: float
    wrong: int
    n: int


def expected(terms: Iterable[Term]) -> Bounds | None:
    """Wrong answers to expect over all terms that were measured; None where none was."""
    measured = [term for term in terms if term.n]
    if not measured:
        return None
    value = below = above = 0.0
    for term in measured:
        share = wilson(term.wrong, term.n)
        mean = term.wrong / term.n
        value += term.requests * mean
        below += (term.requests * (mean - share.low)) ** 2
        above += (term.requests * (share.high - mean)) ** 2
    return Bounds(value, max(0.0, value - math.sqrt(below)), value + math.sqrt(above))


def open_tools(row: ClusterCoverage) -> list[int]:
    """The tools of a cluster that have uncovered pairs; none of a dismissed one."""
    return [] if row.state == "dismissed" else sorted({tool for edge in row.uncovered for tool in edge})


def gap_terms(tools: Iterable[int], tallies: Mapping[int, Tally], traffic: Mapping[int, int]) -> list[Term]:
    """A tool that no recorded request concerns counts one request."""
    nothing = Tally()
    return [
        Term(traffic.get(tool) or 1, tallies.get(tool, nothing).uncovered, tallies.get(tool, nothing).n)
        for tool in tools
    ]


# What closing gaps would save.


@dataclass(frozen=True)
class WhatIf:
    """Of the chosen gaps: `misses` go wrong now at pairs that would be covered; `left`: so many would go wrong still,
    as requests do now at covered pairs; `gain`: the difference. None: not measured."""

    tools: int  # with uncovered pairs
    measured: int  # of them
    misses: Bounds | None
    left: Bounds | None
    gain: Bounds | None


def what_if(terms: Sequence[Term], covered: Tally) -> WhatIf:
    """`terms`: of the tools with uncovered pairs in the chosen gaps; `covered`: of all tools with covered pairs,
    their labelled requests and those that go wrong at a covered pair."""
    measured = [term for term in terms if term.n]
    misses = expected(measured)
    requests = sum(term.requests for term in measured)
    left = expected([Term(requests, covered.covered, covered.n)]) if misses else None
    gain = minus(misses, left) if misses and left else None
    return WhatIf(len(terms), len(measured), misses, left, gain)


def covered_tally(rows: Iterable[ClusterCoverage], tallies: Mapping[int, Tally]) -> Tally:
    """Labelled requests of tools with a covered pair, and those that go wrong at one."""
    tools = {tool for row in rows if row.state != "dismissed" for edge in row.covered for tool in edge}
    found = [tallies[tool] for tool in tools & tallies.keys()]
    return Tally(
        n=sum(one.n for one in found),
        wrong=sum(one.wrong for one in found),
        covered=sum(one.covered for one in found),
    )


# What signals alone let expect, and the order of gaps.

RULES_A_PAIR = {"points": 0.25, "deprecated": 0.08, "same": 0.01, "nearest": 0.0065}
NEAR = 3  # the rank up to which a deprecated tool stands against a live one


def rule_chance(signals: Mapping[str, Any]) -> float:
    """How many rules a vendor writes about a pair of look-alikes that speaks so: shares counted on one half of the
    public rules (bench/lookalikes.py). `signals`: as the catalog stores them (catalog/core/edges.py). It says
    where a rule is likely to be missing; of wrong answers it says nothing."""
    best = min((rank for rank in signals.get("ranks", ()) if rank), default=0)
    if signals.get("version"):
        return 0.0
    if signals.get("points"):
        return RULES_A_PAIR["points"]
    if signals.get("deprecated") and 0 < best <= NEAR:
        return RULES_A_PAIR["deprecated"]
    if signals.get("operation") or signals.get("title"):
        return RULES_A_PAIR["same"]
    return RULES_A_PAIR["nearest"] / max(1, best)


class Rank(NamedTuple):
    """A cluster with uncovered pairs. `score`: wrong answers to expect, None where none of its tools was measured;
    `unmeasured`: whether a tool with an uncovered pair was not; `rules`: to expect from signals alone."""

    cluster: int
    score: float | None
    unmeasured: bool
    rules: float

    @property
    def place(self) -> tuple[int, float, float]:
        """Lower is further up: those with expected wrong answers, the most first; then those that are not measured, or
        not whole, by the rules that signals let expect; then those that were measured without a wrong answer."""
        part = 0 if self.score else 1 if self.unmeasured else 2
        return part, -(self.score or 0.0), -self.rules


def ranking(rows: Iterable[Rank]) -> list[int]:
    """Clusters in the order of their places, ties by id."""
    return [row.cluster for row in sorted(rows, key=lambda row: (row.place, row.cluster))]
