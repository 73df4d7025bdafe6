"""Pools of look-alike tools (paper, appendix B).

P(r) = T(r) + union of H_K(t) over t in T(r); P(t) = {t} + H_K(t). Order would give the gold tool away, so every pool
is shuffled with a stored seed before a writer sees it.
"""

import random
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from synthesis.core.keys import shot_mark
from trace_site.lib.files import content_hash


def members(tools: Iterable[str], neighbours: Mapping[str, Sequence[str]]) -> set[str]:
    """P of the tools, as a set."""
    found = set(tools)
    for tool in list(found):
        found.update(neighbours.get(tool, ()))
    return found


def shuffled(names: Iterable[str], seed: int) -> list[str]:
    """An order that depends on the set and the seed alone, not on who is whose nearest."""
    ordered = sorted(names)
    random.Random(seed).shuffle(ordered)
    return ordered


def rule_pool(tools: Sequence[str], neighbours: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """P(r), shuffled. `tools` is T(r)."""
    return shuffled(members(tools, neighbours), seed)


def anchor_pool(anchor: str, neighbours: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """P(t), shuffled."""
    return rule_pool([anchor], neighbours, seed)


def stratified(groups: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """All names, ordered so that every beginning of the list is spread over the groups by their size.

    Sainte-Laguë: the k-th name of a group of n stands at (2k + 1) / n; every group's first comes before all seconds.
    """
    turns = [
        (place > 0, (2 * place + 1) / len(names), group, name)
        for group, names in groups.items()
        for place, name in enumerate(random.Random(f"{seed}|{group}").sample(sorted(names), len(names)))
    ]
    return [turn[3] for turn in sorted(turns)]


# Which few-shot queries a sample is shown: rendezvous hashing of (seed, query).
#
# Every query draws a lot per seed and the lowest win, so one query more or less changes only the samples that it enters
# or leaves: about count/n of them.


BLOCK = 4096  # seeds at a time
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST = np.uint64(31)


class FewShots:
    """`count` of the texts for any seed, in the order of their lots."""

    def __init__(self, texts: Iterable[str], count: int) -> None:
        self.texts = list(dict.fromkeys(texts))
        self.count = min(count, len(self.texts))
        marks = [int(content_hash(text)[:16], 16) for text in self.texts]
        self._marks = np.array(marks, dtype=np.uint64)
        self._names = [shot_mark(text) for text in self.texts]

    def chosen(self, seed: int) -> tuple[str, ...]:
        return tuple(self.texts[place] for place in self._places([seed])[0]) if self.count else ()

    def digests(self, seeds: Sequence[int]) -> list[str]:
        """`shots_digest` of the choice for each seed."""
        if not self.count:
            return [""] * len(seeds)
        found: list[str] = []
        for start in range(0, len(seeds), BLOCK):
            chosen = self._places(seeds[start : start + BLOCK]).tolist()
            found += ["-".join([self._names[place] for place in row]) for row in chosen]
        return found

    def _places(self, seeds: Sequence[int]) -> npt.NDArray[np.int64]:
        """len(seeds) x count positions of texts; equal lots are as good as impossible in 64 bits."""
        lots = np.array(seeds, dtype=np.uint64)[:, None] * _GOLDEN + self._marks[None, :]
        for shift, factor in _MIX:
            lots = (lots ^ (lots >> shift)) * factor
        lots ^= lots >> _LAST
        if self.count < len(self.texts):
            best = np.argpartition(lots, self.count - 1, axis=1)[:, : self.count]
        else:
            best = np.broadcast_to(np.arange(self.count), lots.shape)
        order = np.argsort(np.take_along_axis(lots, best, axis=1), axis=1)
        return np.take_along_axis(best, order, axis=1)
