"""Phrases by where they are said, found again when they are said in nearly the same words.

A phrase that very many rules use is a way of speaking and tells no case apart: it is left out of what is found.
"""

from collections.abc import Iterable

from rules.core.set_index import SetIndex, Words

COMMON = 12  # rules from which on a phrase is a way of speaking

RuleKey = tuple[str, str]  # (domain, code)
Placed = tuple[RuleKey, int]  # the n-th situation, or test, of a rule
Entry = tuple[Placed, Words]


class Phrases:
    """Never changes; `changed` gives the next one and shares what stayed."""

    def __init__(self, entries: Iterable[Entry], threshold: float) -> None:
        places: dict[Words, list[Placed]] = {}
        for place, words in entries:
            places.setdefault(words, []).append(place)
        self._places = {words: tuple(found) for words, found in places.items()}
        self._rules = {words: _rules(found) for words, found in self._places.items()}
        self._index = SetIndex(((words, words) for words in self._places), threshold)

    def changed(self, dropped: Iterable[Entry], added: Iterable[Entry]) -> "Phrases":
        new = Phrases((), self._index.threshold)
        new._places, new._rules = dict(self._places), dict(self._rules)
        touched: dict[Words, None] = {}
        for place, words in dropped:
            touched[words] = None
            new._places[words] = tuple(other for other in new._places[words] if other != place)
        for place, words in added:
            touched[words] = None
            new._places[words] = (*new._places.get(words, ()), place)
        gone = [words for words in touched if not new._places[words]]
        fresh = [(words, words) for words in touched if words not in self._places and new._places[words]]
        for words in touched:
            new._rules[words] = _rules(new._places[words])
        for words in gone:
            del new._places[words], new._rules[words]
        new._index = self._index.changed(gone, fresh)
        return new

    def said_by(self, words: Words) -> int:
        """How many rules say exactly this."""
        return self._rules.get(words, 0)

    def like(self, words: Words) -> list[Placed]:
        """Where nearly the same is said, common phrases left out; in the order of the rules."""
        near = (found for found, _ in self._index.find(words) if self._rules[found] <= COMMON)
        return sorted(place for found in near for place in self._places[found])

    def near(self, words: Words) -> set[RuleKey]:
        """The rules that say nearly the same, however common it is."""
        return {key for found, _ in self._index.find(words) for key, _ in self._places[found]}


def _rules(places: Iterable[Placed]) -> int:
    return len({key for key, _ in places})
