"""Confusable clusters: communities of the mutual-kNN graph with cosine >= tau.

In: names and their neighbour lists. Out: clusters of 2 to 25 tools, the same whatever the order of the input.
An edge joins two tools that are in each other's list at or above tau. A connected component of more than 8 tools
is split by greedy modularity (Clauset, Newman, Moore), in which no merge may pass 25 tools.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from catalog.core.tokens import split_name
from catalog.core.words import name_words

ALGORITHM = "mutual-knn-greedy-modularity-1"
MAX_SIZE = 25
SPLIT_OVER = 8  # smaller components are read as one set: splitting them separates tools that one rule names
MEDIAN = (3, 12)
COUNTED = 4
BLOCK = 512  # rows of cosines at a time
SCALE = 1_000_000  # cosines count to six decimals: equal texts tie whatever order the hardware adds in
TAU_GRID = tuple(round(0.50 + 0.02 * step, 2) for step in range(24))  # 0.50 .. 0.96

Edge = tuple[str, str, float]
Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FoundCluster:
    """Tools sorted by name; edges (smaller name first) sorted."""

    tools: tuple[str, ...]
    edges: tuple[Edge, ...]

    @property
    def mean_similarity(self) -> float:
        return sum(edge[2] for edge in self.edges) / len(self.edges)


def mutual_edges(lists: Mapping[str, Sequence[tuple[str, float]]]) -> list[Edge]:
    """Every pair in which each tool is in the other's list; pairs that leave the mapping do not count."""
    cosines = {name: dict(neighbours) for name, neighbours in lists.items()}
    return sorted(
        (name, other, cosine)
        for name, neighbours in cosines.items()
        for other, cosine in neighbours.items()
        if name < other and name in cosines.get(other, {})
    )


def find_clusters(edges: Iterable[Edge], tau: float) -> list[FoundCluster]:
    """The clusters, largest first, then by name."""
    kept = sorted(edge for edge in edges if edge[2] >= tau)
    groups: list[frozenset[str]] = []
    for component in _components(kept):
        groups += [component] if len(component) <= SPLIT_OVER else _split(component, kept)
    owner = {name: place for place, group in enumerate(groups) for name in group}
    inside: defaultdict[int, list[Edge]] = defaultdict(list)
    for edge in kept:
        if owner[edge[0]] == owner[edge[1]]:
            inside[owner[edge[0]]].append(edge)
    found = [FoundCluster(tuple(sorted(groups[place])), tuple(own)) for place, own in inside.items()]
    return sorted(found, key=lambda cluster: (-len(cluster.tools), cluster.tools))


def choose_tau(edges: Sequence[Edge]) -> float:
    """The default tau of a domain: of the grid values whose median cluster has 3..12 tools, the one that finds the
    most clusters of four or more; ties go to the larger tau. When no value qualifies, the nearest median."""

    def quality(tau: float) -> tuple[bool, float, int, float]:
        sizes = [len(cluster.tools) for cluster in find_clusters(edges, tau)]
        middle = median(sizes) if sizes else 0
        distance = max(MEDIAN[0] - middle, middle - MEDIAN[1], 0)
        return (distance == 0, -distance, sum(size >= COUNTED for size in sizes), tau)

    return max(TAU_GRID, key=quality)


def cluster_label(tools: Sequence[str]) -> str:
    """The words most tools share: of the endpoints, else of the whole names. A verb alone says nothing, so the
    commonest of the other words joins it."""
    for parts in ([split_name(name)[1] for name in tools], tools):
        words = [list(dict.fromkeys(name_words(part))) for part in parts]
        counts = Counter(word for row in words for word in row)
        shared = {word for word, count in counts.items() if 2 * count > len(tools) and not word.isdigit()}
        if shared:
            leading = {row[0] for row in words if row}
            if shared <= leading:
                others = {word: n for word, n in counts.items() if word not in leading and not word.isdigit()}
                most = max(others.values(), default=0)
                shared |= {word for word, count in others.items() if count == most > 1}
            fullest = max(words, key=lambda row: len(shared & set(row)))
            return " ".join(word for word in fullest if word in shared)[:200]
    return split_name(min(tools))[1][:200]


def _components(edges: Iterable[Edge]) -> list[frozenset[str]]:
    """Ordered by their first names."""
    near: defaultdict[str, set[str]] = defaultdict(set)
    for left, right, _ in edges:
        near[left].add(right)
        near[right].add(left)
    groups: list[frozenset[str]] = []
    seen: set[str] = set()
    for name in sorted(near):
        if name not in seen:
            group, waiting = {name}, [name]
            while waiting:
                fresh = near[waiting.pop()] - group
                group |= fresh
                waiting += fresh
            groups.append(frozenset(group))
            seen |= group
    return groups


def _split(component: frozenset[str], edges: Iterable[Edge]) -> list[frozenset[str]]:
    """Greedy modularity with a size limit: merge the pair with the largest gain while one gains."""
    nodes = sorted(component)
    number = {name: place for place, name in enumerate(nodes)}
    links: list[dict[int, float]] = [{} for _ in nodes]
    for left, right, weight in edges:
        if left in component:
            a, b = number[left], number[right]
            links[a][b] = links[b][a] = weight
    degree = [sum(row.values()) for row in links]
    total = sum(degree)
    members: dict[int, list[int]] = {place: [place] for place in range(len(nodes))}

    def gain(a: int, b: int) -> float:
        return round(2 * (links[a][b] / total - degree[a] * degree[b] / total**2), 12)

    # entries of merged communities stay in the heap and are recognised by their old gain
    heap = [(-gain(a, b), a, b) for a in members for b in links[a] if a < b]
    heapq.heapify(heap)
    while heap:
        value, a, b = heapq.heappop(heap)
        stale = a not in members or b not in members or b not in links[a] or gain(a, b) != -value
        if stale or value >= 0 or len(members[a]) + len(members[b]) > MAX_SIZE:
            continue
        members[a] += members.pop(b)
        degree[a] += degree[b]
        for other, weight in links[b].items():
            del links[other][b]
            if other != a:
                links[a][other] = links[other][a] = links[a].get(other, 0.0) + weight
        for other in links[a]:
            low, high = min(a, other), max(a, other)
            heapq.heappush(heap, (-gain(low, high), low, high))
    return [frozenset(nodes[place] for place in group) for group in members.values()]


def top_k(
    rows: Rows, k: int, progress: Callable[[int], None] = lambda done: None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """H_K(t), exactly: the K nearest tools by cosine, best first, ties by name (paper, appendix B). `rows` are
    normalised and sorted by name. Returns (positions, cosines), each n x min(k, n - 1).
    """
    count = len(rows)
    k = min(k, count - 1)
    positions = np.zeros((count, max(k, 0)), dtype=np.int64)
    cosines = np.zeros((count, max(k, 0)), dtype=np.float64)
    if k < 1:
        return positions, cosines
    # earlier names win ties: the position is the low part of one integer key, so no two keys are equal
    order = count - 1 - np.arange(count, dtype=np.int64)
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        keys = np.rint((rows[start:stop] @ rows.T) * SCALE).astype(np.int64) * count + order
        keys[np.arange(stop - start), np.arange(start, stop)] = np.iinfo(np.int64).min
        best = np.argpartition(keys, count - k, axis=1)[:, count - k :]
        chosen = np.take_along_axis(keys, best, axis=1)
        ranks = np.argsort(-chosen, axis=1)
        positions[start:stop] = np.take_along_axis(best, ranks, axis=1)
        cosines[start:stop] = np.take_along_axis(chosen, ranks, axis=1) // count / SCALE
        progress(stop)
    return positions, cosines
