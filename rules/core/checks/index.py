"""Rules indexed by what they may have in common: tools, situations, test queries.

A shelf never changes; `changed` gives the shelf after a few rules changed, at the price of those rules.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from catalog.core.near_duplicates import SetIndex, Words
from rules.core.checks.reading import Reading, Situation
from rules.core.rule import RuleContent
from rules.core.wording import ALIKE, QUERY_ALIKE, Wording

# Phrases by where they are said, found again when they are said in nearly the same words.
#
# A phrase that very many rules use is a way of speaking and tells no case apart: it is left out of what is found.


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


@dataclass(frozen=True)
class OtherRule:
    domain: str
    code: str
    content: RuleContent

    @property
    def key(self) -> RuleKey:
        return (self.domain, self.code)

    @cached_property
    def reading(self) -> Reading:
        return Reading(self.content)


class Shelf:
    def __init__(self, rules: Iterable[OtherRule]) -> None:
        self.rules: dict[RuleKey, OtherRule] = {rule.key: rule for rule in rules}
        self._by_tool: dict[str, tuple[RuleKey, ...]] = {}
        for rule in self.rules.values():
            self._hold(rule)
        self._cases = Phrases((case for rule in self.rules.values() for case in _cases(rule)), ALIKE)
        self._queries = Phrases(
            (query for rule in self.rules.values() for query in _queries(rule)), QUERY_ALIKE
        )

    def changed(self, dropped: Iterable[RuleKey], added: Iterable[OtherRule]) -> "Shelf":
        """Without the dropped rules; an added one replaces the rule with its key."""
        put = {rule.key: rule for rule in added}
        away = {*dropped, *put}
        if len(put) > len(self.rules):  # most is new: index everything anew, with the right counts of words
            return Shelf([*(rule for key, rule in self.rules.items() if key not in away), *put.values()])
        gone = [self.rules[key] for key in away if key in self.rules]
        new = Shelf(())
        new.rules, new._by_tool = dict(self.rules), dict(self._by_tool)
        for rule in gone:
            del new.rules[rule.key]
            for name in rule.content.tools:
                new._by_tool[name] = tuple(key for key in new._by_tool[name] if key != rule.key)
        for rule in put.values():
            new.rules[rule.key] = rule
            new._hold(rule)
        new._cases = self._cases.changed(
            (case for rule in gone for case in _cases(rule)),
            (case for rule in put.values() for case in _cases(rule)),
        )
        new._queries = self._queries.changed(
            (query for rule in gone for query in _queries(rule)),
            (query for rule in put.values() for query in _queries(rule)),
        )
        return new

    def holding(self, tools: Iterable[str]) -> set[RuleKey]:
        """The rules whose set holds one of the tools."""
        return {key for name in tools for key in self._by_tool.get(name, ())}

    def cases_like(self, case: Wording) -> list[tuple[OtherRule, Situation]]:
        """Situations with nearly the same telling words, unless very many rules speak of them."""
        return [
            (self.rules[key], self.rules[key].reading.situations[n])
            for key, n in self._cases.like(case.telling)
        ]

    def queries_like(self, query: Wording) -> list[tuple[OtherRule, int]]:
        """Tests (by number) whose query has nearly the same telling words, unless very many rules ask it."""
        return [(self.rules[key], n) for key, n in self._queries.like(query.telling)]

    def speaking_like(self, reading: Reading, published: "Shelf", changes: int = 1) -> set[RuleKey]:
        """The rules here for which it matters that a rule read so was, or is now, one of the published.

        A phrase that stays common for the published through so many changes matters to nobody.
        """
        found: set[RuleKey] = set()
        said = [(case.wording.telling, self._cases, published._cases) for case in reading.situations]
        asked = [(query.telling, self._queries, published._queries) for query in reading.queries]
        for words, ours, theirs in (*said, *asked):
            if theirs.said_by(words) <= COMMON + changes:
                found |= ours.near(words)
        return found

    def _hold(self, rule: OtherRule) -> None:
        for name in rule.content.tools:
            self._by_tool[name] = (*self._by_tool.get(name, ()), rule.key)


def _cases(rule: OtherRule) -> Iterator[Entry]:
    for number, situation in enumerate(rule.reading.situations):
        yield (rule.key, number), situation.wording.telling


def _queries(rule: OtherRule) -> Iterator[Entry]:
    for number, query in enumerate(rule.reading.queries):
        yield (rule.key, number), query.telling
