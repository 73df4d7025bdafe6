"""What a rule is judged against: the catalog's tools, the other rules, and where rules lead on from a tool.

A book never changes; `changed` and `with_tools` give the next one and share what stayed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from rules.core.checks.index import OtherRule, RuleKey, Shelf
from rules.core.checks.reading import ToolMentions

# Where rules lead on from a tool: every rule leads from each of its confusables to its target.
#
# In: rules. Out: ways from one tool to another over several rules, the shortest one, always the same one.


Key = tuple[str, str]  # (domain, code) of a rule
Edge = tuple[str, Key]  # to this tool, by this rule


class Redirects:
    """Never changes; `changed` gives a new graph that shares what stayed."""

    def __init__(self, edges: Iterable[tuple[str, Edge]]) -> None:
        out: dict[str, list[Edge]] = {}
        for tool, edge in edges:
            out.setdefault(tool, []).append(edge)
        self._out = {tool: tuple(sorted(found)) for tool, found in out.items()}
        self._ways: dict[str, dict[str, tuple[str, Key]]] = {}

    def changed(self, dropped: Iterable[tuple[str, Edge]], added: Iterable[tuple[str, Edge]]) -> "Redirects":
        new = Redirects(())
        new._out = dict(self._out)
        for tool, edge in dropped:
            new._out[tool] = tuple(known for known in new._out.get(tool, ()) if known != edge)
        for tool, edge in added:
            new._out[tool] = tuple(sorted((*new._out.get(tool, ()), edge)))
        return new

    def way(self, start: str, goal: str, without: Key | None = None) -> list[tuple[str, Key]] | None:
        """The steps from `start` to `goal` as (tool reached, rule), without one rule; None when there is no way."""
        came = self._reached(start, without)
        if goal not in came:
            return None
        steps = []
        tool = goal
        while tool != start:
            before, rule = came[tool]
            steps.append((tool, rule))
            tool = before
        return steps[::-1]

    def reached_from(self, start: str) -> set[str]:
        """The tools that rules lead to from `start`, itself included."""
        return {start, *self._reached(start, None)}

    def leading_to(self, goals: Iterable[str]) -> set[str]:
        """The tools from which rules lead to one of the goals, themselves included."""
        found = set(goals)
        front = list(found)
        while front:
            ahead = [tool for goal in front for tool in self._back.get(goal, ())]
            front = [tool for tool in dict.fromkeys(ahead) if tool not in found]
            found.update(front)
        return found

    @cached_property
    def _back(self) -> dict[str, list[str]]:
        back: dict[str, list[str]] = {}
        for tool, edges in self._out.items():
            for target, _ in edges:
                back.setdefault(target, []).append(tool)
        return back

    def _reached(self, start: str, without: Key | None) -> dict[str, tuple[str, Key]]:
        """Tool -> (tool before it, rule) for all that is reached, nearest first, ties by name."""
        if without is None and start in self._ways:
            return self._ways[start]
        came: dict[str, tuple[str, Key]] = {}
        front = [start]
        while front:
            ahead = []
            for tool in front:
                for target, rule in self._out.get(tool, ()):
                    if rule != without and target != start and target not in came:
                        came[target] = (tool, rule)
                        ahead.append(target)
            front = ahead
        if without is None:
            self._ways[start] = came
        return came


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
    def mentions(self) -> ToolMentions:
        return ToolMentions(self.states)

    @cached_property
    def apis(self) -> frozenset[str]:
        """The API parts of the names, casefolded."""
        return frozenset(name.partition("/")[0].casefold() for name in self.states)


class RuleBook:
    """`rules` are the published ones. Of two rules with one key the last counts."""

    def __init__(self, tools: Mapping[str, ToolState], rules: Iterable[OtherRule]) -> None:
        self.tools = KnownTools(tools)
        self.shelf = Shelf(rules)
        self.redirects = Redirects(edge for rule in self.shelf.rules.values() for edge in _edges(rule))

    def changed(self, dropped: Iterable[RuleKey], added: Iterable[OtherRule]) -> "RuleBook":
        """Without the dropped rules; an added one replaces the rule with its key."""
        put = list(added)
        keys = {*dropped, *(rule.key for rule in put)}
        gone = [self.shelf.rules[key] for key in keys if key in self.shelf.rules]
        new = RuleBook({}, ())
        new.tools, new.shelf = self.tools, self.shelf.changed(keys, put)
        new.redirects = self.redirects.changed(
            (edge for rule in gone for edge in _edges(rule)),
            (edge for key in keys & new.shelf.rules.keys() for edge in _edges(new.shelf.rules[key])),
        )
        return new

    def with_tools(self, tools: Mapping[str, ToolState]) -> "RuleBook":
        new = RuleBook({}, ())
        new.tools, new.shelf, new.redirects = KnownTools(tools), self.shelf, self.redirects
        if tools.keys() == self.tools.states.keys():  # states only: the names, and what finds them, stay
            new.tools.mentions, new.tools.apis = self.tools.mentions, self.tools.apis
        return new

    def way_back(self, start: str, goal: str, own: RuleKey | None) -> list[tuple[str, RuleKey]] | None:
        """How other rules lead from a rule's target to one of its confusables."""
        published = self.shelf.rules.get(own) if own else None
        # a rule's own edges end in its target, so they lie on no way that starts there
        apart = own if published and published.content.target != start else None
        return self.redirects.way(start, goal, apart)


def _edges(rule: OtherRule) -> Iterator[tuple[str, Edge]]:
    for name in rule.content.confusables:
        yield name, (rule.content.target, rule.key)
