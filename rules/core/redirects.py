"""Where rules lead on from a tool: every rule leads from each of its confusables to its target.

In: rules. Out: ways from one tool to another over several rules, the shortest one, always the same one.
"""

from collections.abc import Iterable
from functools import cached_property

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
