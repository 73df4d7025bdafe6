"""What a rule is judged against: the catalog's tools, the other rules, and where rules lead on from a tool.

A book never changes; `changed` and `with_tools` give the next one and share what stayed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from rules.core.mentions import ToolMentions
from rules.core.phrases import RuleKey
from rules.core.redirects import Edge, Redirects
from rules.core.shelf import OtherRule, Shelf


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
