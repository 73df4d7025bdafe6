"""Which few-shot queries a sample is shown: rendezvous hashing of (seed, query).

Every query draws a lot per seed and the lowest win, so one query more or less changes only the samples that it enters
or leaves: about count/n of them.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from synthesis.core.keys import shot_mark
from trace_site.lib.files import content_hash

BLOCK = 4096  # seeds at a time
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
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
