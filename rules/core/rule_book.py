"""What a rule is judged against: the catalog's tools, the other rules, and where rules lead on from a tool.

A book never changes; `changed` and `with_tools` give the next one, which shares what stayed, at the price of what
did not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest

from catalog.core.mentions import NameFinder
from catalog.core.near_duplicates import SetIndex, Words
from catalog.core.words import LONGEST_NAME, MOST_COMPARED, name_words
from rules.core.reading import Reading, Situation
from rules.core.rule import RuleContent
from rules.core.wording import ALIKE, QUERY_ALIKE, Wording

COMMON = 12  # rules from which on a phrase is a way of speaking and tells no case apart

RuleKey = tuple[str, str]  # (domain, code)
Placed = tuple[RuleKey, int]  # the n-th situation, or test, of a rule
Step = tuple[str, RuleKey]  # to this tool, by this rule


class Phrases:
    """Phrases by where they are said, found again when they are said in nearly the same words."""

    def __init__(self, entries: Iterable[tuple[Placed, Words]], threshold: float) -> None:
        places: dict[Words, list[Placed]] = {}
        for place, words in entries:
            places.setdefault(words, []).append(place)
        self._places = {words: tuple(found) for words, found in places.items()}
        self._index = SetIndex(((words, words) for words in self._places), threshold)

    def changed(
        self, dropped: Iterable[tuple[Placed, Words]], added: Iterable[tuple[Placed, Words]]
    ) -> "Phrases":
        new = copy(self)
        new._places = dict(self._places)
        touched: dict[Words, None] = {}
        for place, words in dropped:
            touched[words] = None
            new._places[words] = tuple(other for other in new._places[words] if other != place)
        for place, words in added:
            touched[words] = None
            new._places[words] = (*new._places.get(words, ()), place)
        gone = [words for words in touched if not new._places[words]]
        fresh = [(words, words) for words in touched if words not in self._places and new._places[words]]
        for words in gone:
            del new._places[words]
        new._index = self._index.changed(gone, fresh)
        return new

    def _near(self, words: Words) -> list[tuple[Placed, ...]]:
        return [self._places[phrase] for phrase, _ in self._index.find(words)]

    def said_by(self, words: Words) -> int:
        """How many rules say exactly this."""
        return len({key for key, _ in self._places.get(words, ())})

    def like(self, words: Words) -> list[Placed]:
        """Where nearly the same is said, common phrases left out; in the order of the rules."""
        near = (places for places in self._near(words) if len({key for key, _ in places}) <= COMMON)
        return sorted(place for places in near for place in places)

    def near(self, words: Words) -> set[RuleKey]:
        """The rules that say nearly the same, however common it is."""
        return {key for places in self._near(words) for key, _ in places}


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

    @property
    def cases(self) -> list[tuple[Placed, Words]]:
        return [((self.key, n), case.wording.telling) for n, case in enumerate(self.reading.situations)]

    @property
    def queries(self) -> list[tuple[Placed, Words]]:
        return [((self.key, n), query.telling) for n, query in enumerate(self.reading.queries)]


@dataclass(frozen=True, slots=True)
class ToolState:
    """What findings need to know about a tool."""

    active: bool = True
    deprecated: bool = False


class KnownTools:
    """Every tool of the catalog by name, retired ones too."""

    def __init__(self, states: Mapping[str, ToolState]) -> None:
        self.states = states

    @cached_property
    def finder(self) -> NameFinder:
        return NameFinder(self.states)

    @cached_property
    def by_word(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self.states:
            for word in set(name_words(name)):
                found.setdefault(word, []).append(name)
        return found

    def like(self, name: str) -> list[str]:
        """The names that share most words with this one, of much the same length."""
        words = set(name_words(name[:LONGEST_NAME]))
        shared = Counter(known for word in words for known in self.by_word.get(word, ()))
        rated = ((-many, abs(len(known) - len(name)), known) for known, many in shared.items())
        return [known for *_, known in nsmallest(MOST_COMPARED, rated)]

    @cached_property
    def apis(self) -> frozenset[str]:
        """The API parts of the names, casefolded."""
        return frozenset(name.partition("/")[0].casefold() for name in self.states)


class RuleBook:
    """Of two rules with one key the last counts. Every rule leads from each of its confusables to its target."""

    def __init__(self, tools: Mapping[str, ToolState], rules: Iterable[OtherRule]) -> None:
        self.tools = KnownTools(tools)
        self.rules: dict[RuleKey, OtherRule] = {rule.key: rule for rule in rules}
        self._by_tool: dict[str, tuple[RuleKey, ...]] = {}
        for rule in self.rules.values():
            self._hold(rule)
        self._cases = Phrases((case for rule in self.rules.values() for case in rule.cases), ALIKE)
        queries = (query for rule in self.rules.values() for query in rule.queries)
        self._queries = Phrases(queries, QUERY_ALIKE)
        self._ways: dict[str, dict[str, Step]] = {}

    def _hold(self, rule: OtherRule) -> None:
        for name in rule.content.tools:
            self._by_tool[name] = (*self._by_tool.get(name, ()), rule.key)

    def changed(self, dropped: Iterable[RuleKey], added: Iterable[OtherRule]) -> "RuleBook":
        """Without the dropped rules; an added one replaces the rule with its key."""
        put = {rule.key: rule for rule in added}
        gone = [self.rules[key] for key in {*dropped, *put} if key in self.rules]
        new = copy(self)
        new.rules, new._by_tool, new._ways = dict(self.rules), dict(self._by_tool), {}
        for rule in gone:
            del new.rules[rule.key]
            for name in rule.content.tools:
                new._by_tool[name] = tuple(key for key in new._by_tool[name] if key != rule.key)
        if len(put) > len(self.rules):  # most is new: index everything anew, with the right counts of words
            whole = RuleBook({}, [*new.rules.values(), *put.values()])
            whole.tools = self.tools
            return whole
        for rule in put.values():
            new.rules[rule.key] = rule
            new._hold(rule)
        new._cases = self._cases.changed(
            (case for rule in gone for case in rule.cases),
            (case for rule in put.values() for case in rule.cases),
        )
        new._queries = self._queries.changed(
            (query for rule in gone for query in rule.queries),
            (query for rule in put.values() for query in rule.queries),
        )
        return new

    def with_tools(self, states: Mapping[str, ToolState]) -> "RuleBook":
        new, same_names = copy(self), states.keys() == self.tools.states.keys()
        # a copy keeps what finds the names
        new.tools = copy(self.tools) if same_names else KnownTools(states)
        new.tools.states = states
        return new

    def holding(self, tools: Iterable[str]) -> set[RuleKey]:
        """The rules whose set holds one of the tools."""
        return {key for name in tools for key in self._by_tool.get(name, ())}

    def cases_like(self, case: Wording) -> list[tuple[OtherRule, Situation]]:
        """Situations with nearly the same telling words, unless very many rules speak of them."""
        found = ((self.rules[key], n) for key, n in self._cases.like(case.telling))
        return [(rule, rule.reading.situations[n]) for rule, n in found]

    def queries_like(self, query: Wording) -> list[tuple[OtherRule, int]]:
        """Tests (by number) whose query has nearly the same telling words, unless very many rules ask it."""
        return [(self.rules[key], n) for key, n in self._queries.like(query.telling)]

    def concerned_by(self, rules: Iterable[OtherRule], published: "RuleBook", changes: int) -> set[RuleKey]:
        """The rules here whose findings may change with whether `rules` are among the published ones.

        A phrase that stays common for the published through so many changes matters to nobody.
        """
        found: set[RuleKey] = set()
        for rule in rules:
            found |= self.holding(rule.content.tools)
            cases = [(words, self._cases, published._cases) for _, words in rule.cases]
            queries = [(words, self._queries, published._queries) for _, words in rule.queries]
            for words, ours, theirs in cases + queries:
                if theirs.said_by(words) <= COMMON + changes:
                    found |= ours.near(words)
            before = published.leading_to(rule.content.confusables)
            behind = {rule.content.target, *published._reached(rule.content.target, None)}
            for key in self.holding(before):
                other = self.rules[key].content
                if other.target in before and not behind.isdisjoint(other.confusables):
                    found.add(key)
        return found

    def way(self, start: str, goal: str, own: RuleKey | None = None) -> list[Step] | None:
        """How other rules than `own` lead from one tool to another: the fewest steps; None when there is no way."""
        # a rule's own steps end in its target, so they lie on no way that starts there
        published = self.rules.get(own) if own else None
        apart = own if published and published.content.target != start else None
        came = self._reached(start, apart)
        if goal not in came:
            return None
        steps: list[Step] = []
        tool = goal
        while tool != start:
            before, rule = came[tool]
            steps.insert(0, (tool, rule))
            tool = before
        return steps

    def _reached(self, start: str, without: RuleKey | None) -> dict[str, Step]:
        """Tool -> (tool before it, rule) for all that is reached, nearest first, ties by name."""
        if without is None and start in self._ways:
            return self._ways[start]
        came: dict[str, Step] = {}
        front = [start]
        while front:
            ahead = []
            for tool in front:
                steps = [(self.rules[key].content.target, key) for key in self._by_tool.get(tool, ())]
                for target, key in sorted(steps):
                    if target not in (tool, start) and key != without and target not in came:
                        came[target] = (tool, key)
                        ahead.append(target)
            front = ahead
        if without is None:
            self._ways[start] = came
        return came

    def leading_to(self, goals: Iterable[str]) -> set[str]:
        """The tools from which rules lead to one of the goals, themselves included."""
        found, front = set[str](), set(goals)
        while front:
            found |= front
            rules = [self.rules[key].content for key in self.holding(front)]
            front = {name for rule in rules if rule.target in front for name in rule.confusables} - found
        return found
