"""Rankings over the trie: exact best-first top-k, and the beam search it is compared with.

In: contexts that stand right before the first tool token, what follows them, and the trie. Out: per context (tool,
score), best first; a score is the sum of the log-probabilities of all the tool's tokens, wrap tokens included.
Best-first equals scoring all tools because a log-probability is never positive: a node's score bounds every tool
below it.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from evaluation.ml.contexts import Context, Contexts, Numbers, Scores
from evaluation.ml.trie import Ids, Mask, Node, common_start

FIRST_WAVE = 8  # nodes a context opens at once; twice as many each further time, at most WIDEST
WIDEST = 128
# A trained model opens 10..40 nodes a query. One that knows nothing spreads its probability evenly, no bound ever
# bites and all tools are opened; who does not need exactness may end the search here.
ENOUGH = 256
BEAMS = 10
NOTHING = Mask()
Ranking = list[tuple[int, float]]


@dataclass
class Search:
    """The open part of one context's trie and the best tools found so far, none of the mask among them."""

    root: Node
    k: int
    mask: Mask = NOTHING
    most: int | None = None  # nodes to open; None: as many as it takes
    lead: Sequence[int] = ()  # tokens between the context and the first of a tool
    found: Ranking = field(default_factory=list)
    heap: list[tuple[float, int, "Family", int]] = field(default_factory=list)
    pushed: int = 0
    opened: int = 0
    wave: int = FIRST_WAVE

    def grow(self, node: Node, path: list[int], scores: Numbers) -> None:
        """Take in the scores of a node's children: tools count at once, inner nodes wait in the heap."""
        if node.above_leaves:
            return self._count(node.tools, scores)
        order = np.argsort(-scores, kind="stable")
        if self.mask.tools:
            hidden = np.array([self.mask.hides(child) for child in node.children.values()])
            order = order[~hidden[order]]
        if len(order):
            self._push(Family(node, path, scores[order], node.ids[order]), 0)

    def _count(self, tools: Ids, scores: Numbers) -> None:
        places = np.flatnonzero(scores >= self.bound())
        if self.mask.tools:
            places = places[~self.mask.flags[tools[places]]]
        if len(places) > self.k:  # and all that is as good as the last of them
            places = places[scores[places] >= np.partition(scores[places], -self.k)[-self.k]]
        fresh = zip(tools[places].tolist(), scores[places].tolist(), strict=True)
        self.found = sorted([*self.found, *fresh], key=lambda pair: (-pair[1], pair[0]))[: self.k]

    def bound(self) -> float:
        """Below this score nothing can enter the ranking any more."""
        return self.found[self.k - 1][1] if len(self.found) >= self.k else -np.inf

    @property
    def open(self) -> bool:
        """Is there a node left that could still change the ranking?"""
        return bool(self.heap) and -self.heap[0][0] >= self.bound()

    def wanted(self) -> list[tuple[float, list[int], Node]]:
        """The most promising inner nodes that can still matter, with their scores and paths."""
        chosen: list[tuple[float, list[int], Node]] = []
        while len(chosen) < self.wave and self.open and self.opened != self.most:
            self.opened += 1
            negative, _, family, rank = heapq.heappop(self.heap)
            if rank + 1 < len(family.scores):
                self._push(family, rank + 1)
            token = int(family.tokens[rank])
            chosen.append((-negative, [*family.path, token], family.node.children[token]))
        self.wave = min(WIDEST, 2 * self.wave)
        return chosen

    def _push(self, family: "Family", rank: int) -> None:
        self.pushed += 1
        heapq.heappush(self.heap, (-float(family.scores[rank]), self.pushed, family, rank))


def most_of(item: dict[str, Any]) -> int | None:
    """How many nodes the search of a request opens at most."""
    return None if item.get("exact", True) else ENOUGH


@dataclass(frozen=True, eq=False)
class Family:
    """The children of one opened node, best first; only the best not yet taken one is in the heap."""

    node: Node
    path: list[int]
    scores: Numbers
    tokens: Ids


@dataclass(frozen=True)
class Top:
    ranking: Ranking
    exact: bool  # equal to scoring every tool


def top_k(
    contexts: Contexts, asked: Sequence[Context], scores: Scores, searches: Sequence[Search]
) -> list[Top]:
    """The best tools of every context, as its search wants them, all in one trie; `scores`: what follows each, and the
    lead of its search."""
    chain, node = common_start(searches[0].root)
    if chain:  # tokens that every tool begins with
        starts = [chain[: length + 1] for length in range(len(chain))]
        paths = [[[*search.lead, *start] for start in starts] for search in searches]
        seen, places = contexts.after(asked, paths)
    for place, search in enumerate(searches):
        if not chain:
            search.grow(node, [], scores.of(place, node.ids))
            continue
        total, own = float(scores.of(place, chain[:1])[0]), places[place]
        for length, token in enumerate(chain[1:]):
            total += float(seen.of(own[length], [token])[0])
        search.grow(node, chain, total + seen.of(own[-1], node.ids))
    while waves := [(at, wave) for at, search in enumerate(searches) if (wave := search.wanted())]:
        paths = [[[*searches[at].lead, *path] for _, path, _ in wave] for at, wave in waves]
        seen, places = contexts.after([asked[at] for at, _ in waves], paths)
        for (at, wave), own in zip(waves, places, strict=True):
            for place, (total, path, child) in zip(own, wave, strict=True):
                searches[at].grow(child, path, total + seen.of(place, child.ids))
    return [Top(search.found, not search.open) for search in searches]


def beam(
    contexts: Contexts,
    asked: Sequence[Context],
    scores: Scores,
    root: Node,
    masks: Sequence[Mask],
    width: int,
) -> list[Ranking]:
    """The usual constrained beam search: `width` prefixes survive each step, so it may miss the best tool."""
    beams: list[list[Beam]] = [[Beam(0.0, root, [])] for _ in asked]
    places = [range(at, at + 1) for at in range(len(asked))]
    while True:
        beams = [
            _survivors(scores, own, row, mask, width)
            for own, row, mask in zip(places, beams, masks, strict=True)
        ]
        if all(one.node.leaf for row in beams for one in row):
            return [[(one.node.tool, one.score) for one in row] for row in beams]
        scores, places = contexts.after(asked, [[one.path for one in row] for row in beams])


class Beam(NamedTuple):
    score: float
    node: Node
    path: list[int]


def _survivors(scores: Scores, places: range, row: list[Beam], mask: Mask, width: int) -> list[Beam]:
    grown = [
        Beam(one.score + score, child, [*one.path, token])
        for one, place in zip(row, places, strict=True)
        for score, (token, child) in zip(
            scores.of(place, one.node.ids).tolist(), one.node.children.items(), strict=True
        )
        if not mask.hides(child)
    ]
    return heapq.nsmallest(width, grown, key=lambda one: -one.score)
