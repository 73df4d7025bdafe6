"""Finds texts that say the same: equal words, or nearly equal sets of words.

`SetIndex` is the one index: every set at or above a Jaccard threshold, exactly. Two such sets of n and m words share
`joint` words among the first n - ceil(threshold n) + joint of the one and the like of the other, in any fixed order of
all words; sets are looked up by the words they share there. `DuplicateIndex` compares texts by their telling words.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from typing import Generic, Literal, TypeVar

from catalog.core.words import plain_words

THRESHOLD = 0.85
# words that carry no meaning of their own in a request; small on purpose: "before", "not", "all" decide answers
FILLERS = frozenset(
    plain_words("a an the please pls can could would you i me my we our us it is are be to of for in")
)
FILLERS |= frozenset(plain_words("on at and do does need want like hi hey hello thanks thank just"))
MIN_WORDS = 3

Key = TypeVar("Key", bound=Hashable)
Words = frozenset[str]


class SetIndex(Generic[Key]):
    """Sets of words by key. Without `rank` the words rarest at first lead; a `rank` orders words that come one by one.
    `joint` says by how many shared words a set of that size is looked up: fewer make long lists, more make many.
    """

    def __init__(
        self,
        entries: Iterable[tuple[Key, Words]],
        threshold: float,
        *,
        rank: Callable[[str], int] | None = None,
        joint: Callable[[int], int] = lambda size: 1,
    ) -> None:
        self.threshold = threshold
        self._joint = joint
        self._sets: dict[Key, Words] = dict(entries)
        # the order of words need only be the same for all sets, so counts are never brought up to date
        counts = Counter(word for words in self._sets.values() for word in words)
        self._rank = rank or counts.__getitem__
        self._holders: dict[tuple[str, ...], list[Key]] = {}
        for key, words in self._sets.items():
            self._hold(key, words)

    def add(self, key: Key, words: Words) -> None:
        """Not for an index that `changed` gave, or was called on: they share what stayed."""
        self._sets[key] = words
        self._hold(key, words)

    def changed(self, dropped: Iterable[Key], added: Iterable[tuple[Key, Words]]) -> "SetIndex[Key]":
        """A new index without the dropped keys (unknown ones are ignored), then with the added ones."""
        new = SetIndex[Key]((), self.threshold, rank=self._rank, joint=self._joint)
        new._sets, new._holders = dict(self._sets), dict(self._holders)
        for key in dropped:
            for shared in self._lookups(new._sets.pop(key, frozenset())):
                new._holders[shared] = [other for other in new._holders[shared] if other != key]
        for key, words in added:
            new._sets[key] = words
            for shared in self._lookups(words):
                new._holders[shared] = [*new._holders.get(shared, ()), key]
        return new

    def find(self, words: Words) -> Iterator[tuple[Key, float]]:
        """Every key whose words are that near, with the similarity; in no particular order."""
        size = len(words)
        sizes = range(self._least(size), int(size / self.threshold) + 2)
        seen: set[Key] = set()
        for joint in sorted({self._at_most(other) for other in sizes if other}):
            for shared in self._lookups(words, joint):
                for key in self._holders.get(shared, ()):
                    if key not in seen:
                        seen.add(key)
                        score = jaccard(words, self._sets[key])
                        if score >= self.threshold:
                            yield key, score

    def _hold(self, key: Key, words: Words) -> None:
        for shared in self._lookups(words):
            self._holders.setdefault(shared, []).append(key)

    def _least(self, size: int) -> int:
        return ceil(self.threshold * size - 1e-9)

    def _at_most(self, size: int) -> int:
        return min(self._joint(size), self._least(size))

    def _lookups(self, words: Words, joint: int = 0) -> Iterable[tuple[str, ...]]:
        size, joint = len(words), joint or self._at_most(len(words))
        ordered = sorted(words, key=lambda word: (self._rank(word), word))
        return combinations(ordered[: size - self._least(size) + joint], joint) if words else ()


@dataclass(frozen=True, slots=True)
class Duplicate:
    """One indexed text that a query repeats. `score` is the Jaccard similarity of the word sets."""

    position: int
    kind: Literal["exact", "near"]
    score: float


def word_set(text: str) -> Words:
    """The words that decide what a text asks for; of very short texts, all words."""
    words = frozenset(plain_words(text))
    telling = words - FILLERS
    return telling if len(telling) >= MIN_WORDS else words


class DuplicateIndex:
    """Texts to be compared against. `coming` may be added later: it is fast where their words are known before."""

    def __init__(self, texts: Iterable[str], coming: Iterable[str] = ()) -> None:
        self._exact: defaultdict[str, list[int]] = defaultdict(list)
        self._size = 0
        texts = list(texts)
        counts = Counter(word for text in (*texts, *coming) for word in word_set(text))
        self._sets = SetIndex[int]((), THRESHOLD, rank=counts.__getitem__)
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        self._exact[" ".join(plain_words(text))].append(self._size)
        self._sets.add(self._size, word_set(text))
        self._size += 1

    def find(self, text: str) -> list[Duplicate]:
        """Every duplicate of the text, exact ones first, then by similarity."""
        same = self._exact.get(" ".join(plain_words(text)), [])
        found = self._sets.find(word_set(text))
        near = sorted((-score, place) for place, score in found if place not in same)
        exact = [Duplicate(place, "exact", 1.0) for place in same]
        return exact + [Duplicate(place, "near", -score) for score, place in near]


def jaccard(left: Words, right: Words) -> float:
    union = len(left | right)
    return len(left & right) / union if union else 0.0
