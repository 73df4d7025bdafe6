"""Confusable clusters: groups of look-alikes, found from weighted edges.

In: the edges between newest versions, and the versions of each operation. Out: clusters of 2 to 25 tools, the same
whatever the order of the input. The two groups with the largest average weight between their tools are merged (average
linkage; a pair without an edge counts 0) while the average is positive and no more than 12 operations come together.
Then older versions join the newest one of theirs, the newest first, while there is room; those that find none form
clusters of their own.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from catalog.core.edges import Edge, Operations, Pair, version_edges

ALGORITHM = "weighted-signals-average-linkage-1"
MAX_SIZE = 25
MAX_OPERATIONS = 12


@dataclass(frozen=True, slots=True)
class FoundCluster:
    """Tools sorted by name; edges (smaller name first) sorted."""

    tools: tuple[str, ...]
    edges: tuple[Edge, ...]

    @property
    def mean_similarity(self) -> float:
        """Mean cosine of its edges."""
        return sum(edge.signals.cosine for edge in self.edges) / len(self.edges)


def find_clusters(
    edges: Iterable[Edge], known: Operations, cosines: Mapping[Pair, float] | None = None
) -> list[FoundCluster]:
    """The clusters, largest first, then by name. `cosines`: of the versions of one operation."""
    kept = {(edge.left, edge.right): edge for edge in edges}
    groups = _with_versions(_merged({pair: edge.weight for pair, edge in kept.items()}), known)
    owner = {name: place for place, group in enumerate(groups) for name in group}
    inside: defaultdict[int, list[Edge]] = defaultdict(list)
    for (left, right), edge in kept.items():
        if left in owner and owner[left] == owner.get(right):
            inside[owner[left]].append(edge)
    near = cosines or {}
    for ordered in known.versions.values():
        parts: defaultdict[int, list[str]] = defaultdict(list)
        for name in ordered:
            if name in owner:
                parts[owner[name]].append(name)
        for place, part in parts.items():
            inside[place] += version_edges(part, lambda pair: near.get(pair, 0.0))
    found = [
        FoundCluster(
            tuple(sorted(group)), tuple(sorted(inside[place], key=lambda edge: (edge.left, edge.right)))
        )
        for place, group in enumerate(groups)
    ]
    return sorted(found, key=lambda cluster: (-len(cluster.tools), cluster.tools))


def _with_versions(groups: Sequence[Sequence[str]], known: Operations) -> list[list[str]]:
    """Groups of newest versions with the older ones beside them."""
    alone = set(known.versions).difference(*groups)
    found = []
    for group in [*groups, *([name] for name in sorted(alone))]:
        waiting = [known.versions[name][1:] for name in group]
        older = [name for row in zip_longest(*waiting) for name in row if name]  # each group's newest first
        room = MAX_SIZE - len(group)
        found.append([*group, *older[:room]])
        taken = set(older[:room])
        for ordered in waiting:
            left = [name for name in ordered if name not in taken]
            found += [left[start : start + MAX_SIZE] for start in range(0, len(left), MAX_SIZE)]
    return [group for group in found if len(group) > 1]


def _merged(weights: Mapping[Pair, float]) -> list[list[str]]:
    """Average linkage with a size limit, in the order of the groups' first names."""
    nodes = sorted({name for pair in weights for name in pair})
    number = {name: place for place, name in enumerate(nodes)}
    links: list[dict[int, float]] = [{} for _ in nodes]
    for (left, right), weight in weights.items():
        a, b = number[left], number[right]
        links[a][b] = links[b][a] = weight
    members: dict[int, list[int]] = {place: [place] for place in range(len(nodes))}

    def linkage(a: int, b: int) -> float:
        return round(links[a][b] / (len(members[a]) * len(members[b])), 9)

    # entries of merged groups stay in the heap and are recognised by their old linkage
    heap = [(-linkage(a, b), a, b) for a in members for b in links[a] if a < b]
    heapq.heapify(heap)
    while heap:
        value, a, b = heapq.heappop(heap)
        stale = a not in members or b not in members or b not in links[a] or linkage(a, b) != -value
        if stale or len(members[a]) + len(members[b]) > MAX_OPERATIONS:
            continue
        members[a] += members.pop(b)
        for other, weight in sorted(links[b].items()):
            del links[other][b]
            if other != a:
                links[a][other] = links[other][a] = round(links[a].get(other, 0.0) + weight, 9)
        for other in links[a]:
            low, high = min(a, other), max(a, other)
            heapq.heappush(heap, (-linkage(low, high), low, high))
    return [sorted(nodes[place] for place in group) for group in members.values() if len(group) > 1]
