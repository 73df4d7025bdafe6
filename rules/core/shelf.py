"""Rules indexed by what they may have in common: tools, texts, situations, test queries.

A shelf never changes; `changed` gives the shelf after a few rules changed, at the price of those rules.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from rules.core.rule import RuleContent
from rules.core.set_index import SetIndex
from rules.core.situations import Reading, Situation
from rules.core.wording import ALIKE_OVER_SHARED_TOOLS, Wording

TEXT_ALIKE = 0.8  # share of words (Jaccard) by which one text is almost another
TEXT_ALIKE_FOR_ONE_SET = 0.7  # of rules with the same target and the same look-alikes
QUERY_ALIKE = 0.8

RuleKey = tuple[str, str]  # (domain, code)
Placed = tuple[RuleKey, int]  # the n-th situation, or test, of a rule
Entries = Callable[["OtherRule"], Iterable[tuple[Placed, frozenset[str]]]]


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
        self._texts = SetIndex(map(_text, self.rules.values()), TEXT_ALIKE_FOR_ONE_SET)
        self._cases = SetIndex(
            (case for rule in self.rules.values() for case in _cases(rule)), ALIKE_OVER_SHARED_TOOLS
        )
        self._queries = SetIndex(
            (query for rule in self.rules.values() for query in _queries(rule)), QUERY_ALIKE
        )

    def changed(self, dropped: Iterable[RuleKey], added: Iterable[OtherRule]) -> "Shelf":
        """Without the dropped rules; an added one replaces the rule with its key."""
        put = {rule.key: rule for rule in added}
        if len(put) > len(self.rules):  # most is new: index everything anew, with the right counts of words
            kept = (rule for key, rule in self.rules.items() if key not in {*dropped, *put})
            return Shelf([*kept, *put.values()])
        gone = [self.rules[key] for key in {*dropped, *put} if key in self.rules]
        new = Shelf(())
        new.rules, new._by_tool = dict(self.rules), dict(self._by_tool)
        for rule in gone:
            del new.rules[rule.key]
            for name in rule.content.tools:
                new._by_tool[name] = tuple(key for key in new._by_tool[name] if key != rule.key)
        for rule in put.values():
            new.rules[rule.key] = rule
            new._hold(rule)
        new._texts = self._texts.changed([rule.key for rule in gone], map(_text, put.values()))
        new._cases = self._cases.changed(*_changes(_cases, gone, put.values()))
        new._queries = self._queries.changed(*_changes(_queries, gone, put.values()))
        return new

    def holding(self, tools: Iterable[str]) -> set[RuleKey]:
        """The rules whose set holds one of the tools."""
        return {key for name in tools for key in self._by_tool.get(name, ())}

    def texts_like(self, reading: Reading) -> set[RuleKey]:
        """The rules whose text is almost this one."""
        ours = reading.content
        found = set()
        for key, share in self._texts.find(reading.words):
            theirs = self.rules[key].content
            if share >= TEXT_ALIKE or (ours.target == theirs.target and set(ours.tools) == set(theirs.tools)):
                found.add(key)
        return found

    def cases_like(self, case: Wording) -> list[tuple[OtherRule, Situation]]:
        """Situations that have many of the telling words, by rule."""
        found = sorted(place for place, _ in self._cases.find(case.telling))
        return [(self.rules[key], self.rules[key].reading.situations[n]) for key, n in found]

    def queries_like(self, query: Wording) -> list[tuple[OtherRule, int]]:
        """Tests (by number) whose query has nearly the same telling words, by rule."""
        found = sorted(place for place, _ in self._queries.find(query.telling))
        return [(self.rules[key], n) for key, n in found]

    def _hold(self, rule: OtherRule) -> None:
        for name in rule.content.tools:
            self._by_tool[name] = (*self._by_tool.get(name, ()), rule.key)


def _text(rule: OtherRule) -> tuple[RuleKey, frozenset[str]]:
    return rule.key, rule.reading.words


def _cases(rule: OtherRule) -> Iterator[tuple[Placed, frozenset[str]]]:
    for number, situation in enumerate(rule.reading.situations):
        yield (rule.key, number), situation.wording.telling


def _queries(rule: OtherRule) -> Iterator[tuple[Placed, frozenset[str]]]:
    for number, query in enumerate(rule.reading.queries):
        yield (rule.key, number), query.telling


def _changes(
    entries: Entries, gone: Iterable[OtherRule], put: Iterable[OtherRule]
) -> tuple[list[Placed], list[tuple[Placed, frozenset[str]]]]:
    """What an index of places must drop and add."""
    return [place for rule in gone for place, _ in entries(rule)], [
        entry for rule in put for entry in entries(rule)
    ]
