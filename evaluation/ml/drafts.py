"""Guesses of what a trace says next, from texts like it: accepted traces, rules, tool names.

In: token ids of those texts, and what was written so far. Out: tokens that are likely to follow. A guess costs the
model nothing to check (see contexts.py), and what it would not have written itself is dropped, so the guesses change
how fast a trace is written and never what it says.

The longest end of what was written is looked up among all places of the texts, as a suffix automaton does (Suffix
Decoding, arXiv 2411.04975); here by a sorted array of the places, which takes 4 bytes for each token and depth instead
of a dictionary.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

DEPTH = 8  # tokens of what was written that are compared
LEAST = 2  # fewer that agree say nothing
LOOKED_AT = 64  # places whose next tokens are counted
LONGEST = 16  # tokens of one guess
END = -1  # of a text


class Drafts:
    def __init__(self, texts: Iterable[Sequence[int]] = ()) -> None:
        tokens = [token for text in texts if text for token in (*text, END)]
        self.tokens = np.array([END, *tokens], dtype=np.int64)
        count = len(self.tokens)
        before = np.full((DEPTH, count), END, dtype=np.int32)  # row d: the token d + 1 places earlier
        for depth in range(DEPTH):
            before[depth, depth + 1 :] = self.tokens[: count - depth - 1]
            if depth:  # a text goes no further back than its beginning
                before[depth, before[depth - 1] == END] = END
        self.places = np.lexsort(before[::-1]) if tokens else np.zeros(0, dtype=np.int64)
        self.before = before[:, self.places]

    def after(self, written: Sequence[int], most: int = LONGEST, least: float = 0.3) -> list[int]:
        """At most `most` tokens, as long as all of them are right with a chance of at least `least`."""
        places, depth = self._alike(written)
        guess: list[int] = []
        chance = 1.0
        while depth >= LEAST and len(guess) < most:
            following = self.tokens[places]
            token, count = Counter(following.tolist()).most_common(1)[0]
            # a match of a few tokens may be chance: the deeper it is, the more it says
            chance *= count / len(places) * depth / (depth + 1)
            if token == END or chance < least:
                break
            guess.append(token)
            places, depth = places[following == token] + 1, depth + 1
        return guess

    def _alike(self, written: Sequence[int]) -> tuple[npt.NDArray[np.int64], int]:
        """The places before which stands the longest end of what was written, and how many tokens that is."""
        low, high, depth = 0, len(self.places), 0
        while depth < min(DEPTH, len(written)):
            row = self.before[depth, low:high]
            token = np.int32(written[-1 - depth])  # of the row's own kind: else the whole row is converted
            start, end = int(row.searchsorted(token)), int(row.searchsorted(token, "right"))
            if start == end:
                break
            low, high, depth = low + start, low + end, depth + 1
        step = max(1, (high - low) // LOOKED_AT)
        return self.places[low:high:step], depth
