"""Finds the sets of words that are nearly the same as another: every pair at or above a Jaccard threshold, exactly.

In: (key, words) pairs. Out: keys. Prefix filter: two such sets always share one of their rarest words, so only sets
that share one are compared. An index never changes; `changed` gives a new one that shares what stayed.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from math import ceil
from typing import Generic, TypeVar

from catalog.core.near_duplicates import jaccard

Key = TypeVar("Key", bound=Hashable)
Words = frozenset[str]


class SetIndex(Generic[Key]):
    def __init__(self, entries: Iterable[tuple[Key, Words]], threshold: float) -> None:
        self.threshold = threshold
        self._sets: dict[Key, Words] = dict(entries)
        # the order of words need only be the same for all sets, so counts are never brought up to date
        self._counts: Mapping[str, int] = Counter(word for words in self._sets.values() for word in words)
        holders: dict[str, list[Key]] = {}
        for key, words in self._sets.items():
            for word in self._prefix(words):
                holders.setdefault(word, []).append(key)
        self._holders: dict[str, tuple[Key, ...]] = {word: tuple(keys) for word, keys in holders.items()}

    def __len__(self) -> int:
        return len(self._sets)

    def changed(self, dropped: Iterable[Key], added: Iterable[tuple[Key, Words]]) -> "SetIndex[Key]":
        """Without the dropped keys (unknown ones are ignored), then with the added ones."""
        new = SetIndex[Key]((), self.threshold)
        new._sets, new._counts, new._holders = dict(self._sets), self._counts, dict(self._holders)
        for key in dropped:
            for word in self._prefix(new._sets.pop(key, frozenset())):
                new._holders[word] = tuple(other for other in new._holders[word] if other != key)
        for key, words in added:
            new._sets[key] = words
            for word in self._prefix(words):
                new._holders[word] = (*new._holders.get(word, ()), key)
        return new

    def find(self, words: Words) -> list[tuple[Key, float]]:
        """Every key whose words are that near, with the similarity; in no particular order."""
        near = {key for word in self._prefix(words) for key in self._holders.get(word, ())}
        scored = ((key, jaccard(words, self._sets[key])) for key in near)
        return [(key, score) for key, score in scored if score >= self.threshold]

    def _prefix(self, words: Words) -> list[str]:
        size = len(words) - ceil(self.threshold * len(words) - 1e-9) + 1 if words else 0
        return sorted(words, key=lambda word: (self._counts.get(word, 0), word))[:size]
