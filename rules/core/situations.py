"""In which situations a rule leads to which tool, read from its clauses and from its text.

In: a rule's content. Out: a `Reading`: situations with the place they stand at, the text's statements about the
tools, and the words by which near-duplicates are found. Reading costs much more than comparing, so it is done once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rules.core.finding import Place
from rules.core.mentions import ToolMentions
from rules.core.rule import RuleContent
from rules.core.statements import Statement, read_statements
from rules.core.wording import Wording, wording


@dataclass(frozen=True, slots=True)
class Situation:
    """One case: who meets `wording` is led to `tool`. `said` are its words as they stand in the rule."""

    tool: str
    wording: Wording
    said: str
    place: Place
    exception: bool


class Reading:
    """One rule, read."""

    def __init__(self, content: RuleContent) -> None:
        self.content = content
        self.statements: list[Statement] = read_statements(content.text, content.tools)
        self.clauses = [_of_clause(number, clause) for number, clause in enumerate(content.clauses)]
        self.said = [_of_statement(content, statement, tool) for statement, tool in self._told()]
        self.queries = [wording(test["query"]) for test in content.tests]

    @cached_property
    def situations(self) -> list[Situation]:
        return [*self.clauses, *self.said]

    @cached_property
    def signals(self) -> list[list[Wording]]:
        """Of every clause the phrases that signal it."""
        return [[wording(signal) for signal in clause["signals"]] for clause in self.content.clauses]

    def _told(self) -> Iterator[tuple[Statement, str]]:
        for statement in self.statements:
            if statement.stance == "use":
                for tool in statement.tools:
                    yield statement, tool

    @cached_property
    def words(self) -> frozenset[str]:
        """What the text says of which tool: its telling words, and the tools with how the text stands to them."""
        told = {f"{stance.stance} {tool}" for stance in self.statements for tool in stance.tools}
        return self.text.telling | told

    @cached_property
    def text(self) -> Wording:
        """The whole text without the tools' names."""
        return wording(without_names(self.content))


def without_names(content: RuleContent) -> str:
    pieces, last = [], 0
    for _, start, end in ToolMentions(content.tools).spans(content.text):
        pieces.append(content.text[last:start])
        last = end
    return " ".join([*pieces, content.text[last:]])


def _of_clause(number: int, clause: dict[str, object]) -> Situation:
    said = str(clause["when"])
    place = Place(f"/clauses/{number}")
    return Situation(
        str(clause["route_to"]), wording(said), said, place, bool(clause.get("exception", False))
    )


def _of_statement(content: RuleContent, statement: Statement, tool: str) -> Situation:
    place = Place("/rule_text", statement.start, statement.end)
    said = content.text[statement.start : statement.end].strip()
    return Situation(tool, wording(statement.words), said, place, tool != content.target)
