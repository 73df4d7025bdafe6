"""Finds texts that say the same: equal words, or nearly equal sets of words.

In: texts once, then queries. Out: the positions of duplicates with their kind. An index over the rarest words
of each text (prefix filter) keeps 20,000 against 20,000 short queries within seconds, and loses no pair.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from catalog.core.words import plain_words

THRESHOLD = 0.85
# words that carry no meaning of their own in a request; small on purpose: "before", "not", "all" decide answers
FILLERS = frozenset(
    plain_words(
        "a an the please pls can could would you i me my we our us it is are be to of for in on at and do does "
        "need want like hi hey hello thanks thank just"
    )
)
MIN_WORDS = 3


@dataclass(frozen=True, slots=True)
class Duplicate:
    """One indexed text that a query repeats. `score` is the Jaccard similarity of the word sets."""

    position: int
    kind: Literal["exact", "near"]
    score: float


def word_set(text: str) -> frozenset[str]:
    """The words that decide what a text asks for; of very short texts, all words."""
    words = frozenset(plain_words(text))
    telling = words - FILLERS
    return telling if len(telling) >= MIN_WORDS else words


class DuplicateIndex:
    """Texts to be compared against."""

    def __init__(self, texts: Iterable[str], threshold: float = THRESHOLD) -> None:
        self.threshold = threshold
        self._texts = [" ".join(plain_words(text)) for text in texts]
        self._sets = [word_set(text) for text in self._texts]
        self._counts = Counter(word for words in self._sets for word in words)
        self._exact: defaultdict[str, list[int]] = defaultdict(list)
        self._prefixes: defaultdict[str, list[int]] = defaultdict(list)
        for position, words in enumerate(self._sets):
            self._exact[self._texts[position]].append(position)
            for word in self._prefix(words):
                self._prefixes[word].append(position)

    def __len__(self) -> int:
        return len(self._texts)

    def find(self, text: str) -> list[Duplicate]:
        """Every duplicate of the text, exact ones first, then by similarity."""
        same = self._exact.get(" ".join(plain_words(text)), [])
        found = [Duplicate(position, "exact", 1.0) for position in same]
        words = word_set(text)
        candidates = {p for word in self._prefix(words) for p in self._prefixes.get(word, ())}
        near = [(jaccard(words, self._sets[p]), p) for p in candidates.difference(same)]
        near = sorted(
            (pair for pair in near if pair[0] >= self.threshold), key=lambda pair: (-pair[0], pair[1])
        )
        return found + [Duplicate(position, "near", score) for score, position in near]

    def _prefix(self, words: frozenset[str]) -> Sequence[str]:
        # two sets at or above the threshold always share one of these: the rarest words, ties by spelling
        size = len(words) - ceil(self.threshold * len(words) - 1e-9) + 1
        return sorted(words, key=lambda word: (self._counts[word], word))[: max(size, 0)]


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    union = len(left | right)
    return len(left & right) / union if union else 0.0
