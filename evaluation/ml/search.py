"""Rankings over the trie: exact best-first top-k, and the beam search it is compared with.

In: a state that stands right before the first tool token, and the trie. Out: per context (tool, score), best first;
a score is the sum of the log-probabilities of the tool's whole token sequence, wrap tokens included.
Best-first equals scoring all tools because a log-probability is never positive: a node's score bounds every tool
below it.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evaluation.ml.state import State
from evaluation.ml.trie import Node, common_start

ROWS = 128  # continuations in one forward
# A trained model opens 10..40 nodes a query. One that knows nothing spreads its probability evenly, no bound ever
# bites and all tools would be opened: there the search ends here and says so.
MOST_OPENED = 256
BEAMS = 10
Ranking = list[tuple[int, float]]
Scores = npt.NDArray[np.float64]
Banned = frozenset[int]


def child_scores(state: State, row: int, total: float, node: Node) -> Scores:
    """Score of every child of a node whose own score is in place: the probability is over the whole vocabulary."""
    return np.asarray(total + state.scores[row].cpu().numpy()[node.ids].astype(np.float64))


@dataclass
class Search:
    """The open part of one context's trie and the best tools found so far."""

    k: int
    banned: Banned = frozenset()
    found: Ranking = field(default_factory=list)
    heap: list[tuple[float, int, "Family", int]] = field(default_factory=list)
    pushed: int = 0
    opened: int = 0

    def grow(self, node: Node, path: list[int], scores: Scores) -> None:
        """Take in the scores of a node's children: tools count at once, inner nodes wait in the heap."""
        order = np.argsort(-scores, kind="stable")
        if node.above_leaves:
            best = order[: self.k + len(self.banned)]
            fresh = [
                (int(node.tools[at]), float(scores[at])) for at in best if node.tools[at] not in self.banned
            ]
            self.found = sorted([*self.found, *fresh], key=lambda pair: (-pair[1], pair[0]))[: self.k]
        else:
            self._push(Family(node, path, scores[order], node.ids[order]), 0)

    def bound(self) -> float:
        """Below this score nothing can enter the ranking any more."""
        return self.found[self.k - 1][1] if len(self.found) >= self.k else -np.inf

    @property
    def open(self) -> bool:
        """Is there a node left that could still change the ranking?"""
        return bool(self.heap) and -self.heap[0][0] >= self.bound()

    def wanted(self, width: int) -> Iterator[tuple[float, list[int], Node]]:
        """Up to `width` of the most promising inner nodes that can still matter."""
        for _ in range(width):
            if not self.open or self.opened >= MOST_OPENED:
                return
            self.opened += 1
            negative, _, family, rank = heapq.heappop(self.heap)
            if rank + 1 < len(family.scores):
                self._push(family, rank + 1)
            token = int(family.tokens[rank])
            yield -negative, [*family.path, token], family.node.children[token]

    def _push(self, family: "Family", rank: int) -> None:
        self.pushed += 1
        heapq.heappush(self.heap, (-float(family.scores[rank]), self.pushed, family, rank))


@dataclass(frozen=True, eq=False)
class Family:
    """The children of one opened node, best first; only the best not yet taken one is in the heap."""

    node: Node
    path: list[int]
    scores: Scores
    tokens: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Top:
    ranking: Ranking
    exact: bool  # equal to scoring every tool


def top_k(state: State, root: Node, k: int, banned: Sequence[Banned]) -> list[Top]:
    """The k best tools of every context."""
    chain, node = common_start(root)
    totals = [0.0] * len(state)
    at = root
    for token in chain:
        only = [child_scores(state, row, totals[row], at) for row in range(len(state))]
        totals = [float(scores[0]) for scores in only]
        state, at = state.extend([[token]] * len(state)), at.children[token]
    searches = [Search(k, skip) for skip in banned]
    for row, search in enumerate(searches):
        search.grow(node, [], child_scores(state, row, totals[row], node))
    while wave := [(row, *want) for row, search in enumerate(searches) for want in search.wanted(k)]:
        for block in _blocks(wave):
            grown = state.select([row for row, *_ in block]).extend([path for _, _, path, _ in block])
            for place, (row, total, path, child) in enumerate(block):
                searches[row].grow(child, path, child_scores(grown, place, total, child))
    return [Top(search.found, not search.open) for search in searches]


Wave = list[tuple[int, float, list[int], Node]]


def _blocks(wave: Wave) -> Iterator[Wave]:
    """Continuations of one length, a bounded number at a time."""
    for length in sorted({len(path) for _, _, path, _ in wave}):
        same = [entry for entry in wave if len(entry[2]) == length]
        yield from (same[at : at + ROWS] for at in range(0, len(same), ROWS))


def beam(state: State, root: Node, banned: Sequence[Banned], width: int = BEAMS) -> list[Ranking]:
    """The usual constrained beam search: `width` prefixes survive each step, so it may miss the best tool."""
    beams: list[list[tuple[float, Node]]] = [[(0.0, root)] for _ in range(len(state))]
    parents = list(range(len(state)))
    while not all(node.leaf for row in beams for _, node in row):
        rows: list[int] = []
        tokens: list[list[int]] = []
        parent = iter(parents)
        for number, row in enumerate(beams):
            places = [next(parent) for _ in row]
            kept = _survivors(state, row, places, banned[number], width)
            beams[number] = [(score, node) for score, node, _, _ in kept]
            rows += [place for _, _, place, _ in kept]
            tokens += [[token] for _, _, _, token in kept]
        if not all(node.leaf for row in beams for _, node in row):
            state = state.select(rows).extend(tokens)
        parents = list(range(len(rows)))
    return [[(node.tool, score) for score, node in row] for row in beams]


def _survivors(
    state: State, row: list[tuple[float, Node]], places: list[int], banned: Banned, width: int
) -> list[tuple[float, Node, int, int]]:
    grown: list[tuple[float, Node, int, int]] = []
    for (total, node), place in zip(row, places, strict=True):
        scores = child_scores(state, place, total, node)
        for score, (token, child) in zip(scores, node.children.items(), strict=True):
            if child.tool not in banned:
                grown.append((float(score), child, place, token))
    return heapq.nsmallest(width, grown, key=lambda entry: -entry[0])
