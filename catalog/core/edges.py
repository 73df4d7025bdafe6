"""Edges between look-alikes: what speaks for a pair, with which weight, and how a page says it.

In: tools (name, description, deprecated), the neighbours of each newest version among the newest versions, and how
many labelled requests two tools share. Out: pairs, each with its signals and a weight; no model is asked.

Of an operation that an API has in several versions the newest one is compared with others; its older versions are
look-alikes of it, and each of the next. Weights were chosen on one half of the public rules: bench/lookalikes.py.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from catalog.core.operations import Operation
from catalog.core.pointers import PointerIndex
from catalog.core.twins import newest_first, twin_key

FLOOR = 1.15  # the least weight of an edge
RANK, NEAR, SAME, ACTION, POINTS, DEPRECATED, SHARED = 0.5, 1.0, 0.5, 0.2, 2.0, 0.5, 1.0
NEAR_FROM = 0.5  # below this cosine nothing is near
VERSION_WEIGHT = 1.5
DEPRECATED_RANK = 5  # a deprecated tool stands against its nearest live ones
MOST_SAME = 12  # tools of one vendor that do the same; more of them say nothing about two
NO_RANK = 1_000

Lists = Mapping[str, Sequence[tuple[str, float]]]
Pair = tuple[str, str]  # the smaller name first


class ToolText(NamedTuple):
    description: str
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class Signals:
    """What speaks for one pair (left, right)."""

    cosine: float = 0.0
    # of right among left's neighbours, of left among right's; 0: not among them
    ranks: tuple[int, int] = (0, 0)
    version: bool = False  # one operation of one API in two versions
    operation: bool = False  # the endpoints do the same to the same
    title: bool = False  # the descriptions begin with the same sentence
    action: bool = False  # both read, create, update or delete
    vendor: bool = False
    points: tuple[tuple[str, str], ...] = ()  # (tool, the sentence of its description that names the other)
    deprecated: str = ""  # the one of the two that is deprecated
    shared: int = 0  # labelled requests that both answer

    @property
    def weight(self) -> float:
        if self.version:
            return VERSION_WEIGHT
        rank = sum(1 / rank for rank in self.ranks if rank)
        near = max(0.0, self.cosine - NEAR_FROM)
        same = SAME * (self.operation + self.title) + ACTION * self.action
        stands = bool(self.deprecated) and self.vendor and 0 < self.best_rank <= DEPRECATED_RANK
        words = POINTS * bool(self.points) + DEPRECATED * stands
        return round(RANK * rank + NEAR * near + same + words + SHARED * bool(self.shared), 6)

    @property
    def best_rank(self) -> int:
        return min((rank for rank in self.ranks if rank), default=0)

    def as_dict(self) -> dict[str, Any]:
        """What is stored: only what speaks for the pair. The cosine has a place of its own."""
        left_out = {"cosine", "vendor"} if self.best_rank else {"cosine", "vendor", "ranks"}
        found = {key: value for key, value in asdict(self).items() if value and key not in left_out}
        stored: dict[str, Any] = json.loads(json.dumps(found))
        return stored


@dataclass(frozen=True, slots=True)
class Edge:
    left: str
    right: str
    signals: Signals

    @property
    def weight(self) -> float:
        return self.signals.weight


class Operations(NamedTuple):
    """Tools by operation: its versions of one API, the newest first; `newest` says which stands for a tool."""

    versions: dict[str, list[str]]
    newest: dict[str, str]

    def pairs(self) -> Iterable[Pair]:
        """Of two versions of one operation."""
        for ordered in self.versions.values():
            yield from combinations(sorted(ordered), 2)


def operations(names: Iterable[str]) -> Operations:
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name in names:
        groups[twin_key(name)].append(name)
    versions = {ordered[0]: ordered for ordered in map(newest_first, groups.values())}
    return Operations(versions, {name: first for first, ordered in versions.items() for name in ordered})


def version_edges(ordered: Sequence[str], cosine: Callable[[Pair], float]) -> list[Edge]:
    """Of the versions of one operation, the newest first: each beside the newest and beside the next."""
    pairs = {
        tuple(sorted(pair)) for pair in (*pairwise(ordered), *((ordered[0], old) for old in ordered[1:]))
    }
    return [Edge(a, b, Signals(cosine=cosine((a, b)), version=True)) for a, b in sorted(pairs)]


class Graph:
    """Everything that speaks for pairs of newest versions; built once a domain."""

    def __init__(
        self,
        tools: Mapping[str, ToolText],
        lists: Lists,
        shared: Mapping[Pair, int] | None = None,
        *,
        words: bool = True,
    ) -> None:
        """`words`: whether descriptions are asked what they say of other tools, and which tools are deprecated."""
        self.tools, self.shared = tools, shared or {}
        self.operations = operations(tools)
        self.ranks = {
            name: {other: rank for rank, (other, _) in enumerate(near, start=1)}
            for name, near in lists.items()
        }
        self.cosines = {
            pair_of(name, other): cosine for name, near in lists.items() for other, cosine in near
        }
        descriptions = {name: tool.description for name, tool in tools.items()}
        self.deprecated = {name for name, tool in tools.items() if tool.deprecated} if words else set()
        self._index = PointerIndex(descriptions, self.deprecated, self._rank)
        self.pointers = self._pointers() if words else {}

    def _rank(self, left: str, right: str) -> int:
        newest = self.operations.newest
        return self.ranks.get(newest[left], {}).get(newest[right], NO_RANK)

    def _pointers(self) -> dict[Pair, list[tuple[str, str]]]:
        """The newest version's own words, else those of the newest version that says so."""
        newest = self.operations.newest
        found: dict[Pair, list[tuple[str, str]]] = {}
        for ordered in self.operations.versions.values():
            for name in ordered:
                for to, sentence in self._index.pointers(name):
                    pair = pair_of(newest[name], newest[to])
                    told = found.setdefault(pair, [])
                    if all(newest[name] != newest[teller] for teller, _ in told):
                        told.append((name, sentence))
        return found

    def pairs(self) -> list[Pair]:
        """Those of newest versions that something speaks for."""
        first = self.operations.versions
        found = {pair for pair in self.cosines if pair[0] in first and pair[1] in first}
        found.update(self.pointers)
        found.update(pair_of(self.operations.newest[a], self.operations.newest[b]) for a, b in self.shared)
        doing: defaultdict[tuple[str, Operation], list[str]] = defaultdict(list)
        for name in first:
            doing[self._index.vendor[name], self._index.forms[name][0]].append(name)
        for same in doing.values():
            if len(same) <= MOST_SAME:
                found.update(combinations(sorted(same), 2))
        return sorted(pair for pair in found if pair[0] != pair[1])

    def signals(self, pair: Pair, cosine: float) -> Signals:
        left, right = pair
        (mine, *_), (its, *_) = self._index.forms[left], self._index.forms[right]
        gone = [name for name in pair if name in self.deprecated]
        return Signals(
            cosine=cosine,
            ranks=(self.ranks.get(left, {}).get(right, 0), self.ranks.get(right, {}).get(left, 0)),
            operation=mine == its,
            title=self._index.heads[left] == self._index.heads[right],
            action=mine.action == its.action,
            vendor=self._index.vendor[left] == self._index.vendor[right],
            points=tuple(self.pointers.get(pair, ())),
            deprecated=gone[0] if len(gone) == 1 else "",
            shared=self.shared.get(pair, 0),
        )

    def edges(self, cosines: Mapping[Pair, float], floor: float = FLOOR) -> list[Edge]:
        """The pairs whose weight reaches the floor; `cosines`: of pairs that are in no list."""
        known = {**cosines, **self.cosines}
        found = (Edge(*pair, self.signals(pair, known.get(pair, 0.0))) for pair in self.pairs())
        return [edge for edge in found if edge.weight >= floor]


def pair_of(left: str, right: str) -> Pair:
    return (left, right) if left < right else (right, left)


def say(signals: Mapping[str, Any]) -> Iterator[str]:
    """Why two tools are look-alikes, in words; `signals` as they are stored."""
    if signals.get("version"):
        yield "the same operation in two versions of one API"
    for teller, sentence in signals.get("points", ()):
        yield f"{teller} says: “{sentence}”"
    if gone := signals.get("deprecated"):
        yield f"{gone} is deprecated, the other is not"
    if signals.get("operation"):
        yield "both names say the same operation"
    if signals.get("title"):
        yield "both descriptions begin with the same sentence"
    near, back = signals.get("ranks", (0, 0))
    if near and back:
        worst = max(near, back)
        yield "each is the other's nearest" if worst == 1 else f"each is among the other's {worst} nearest"
    elif rank := near or back:
        place = "the nearest" if rank == 1 else f"among the {rank} nearest"
        yield f"one is {place} of the other"
    if count := signals.get("shared"):
        yield f"{count} labelled request{'s are' if count > 1 else ' is'} answered by both"


SUMMARY = (
    ("points", "in which a description names the other tool"),
    ("version", "of versions of one operation"),
    ("operation", "of one operation by name"),
    ("title", "with the same first sentence"),
    ("deprecated", "of a deprecated tool and a live one"),
    ("shared", "that answer the same requests"),
    ("ranks", "of nearest neighbours"),
)


def summary(signals: Iterable[Mapping[str, Any]]) -> str:
    """Why a cluster is one, in a line: each pair counted once, by what says most."""
    counts = Counter(next((kind for kind, _ in SUMMARY if one.get(kind)), "ranks") for one in signals)
    return "; ".join(
        f"{counts[kind]} pair{'s' if counts[kind] > 1 else ''} {words}"
        for kind, words in SUMMARY
        if counts[kind]
    )
