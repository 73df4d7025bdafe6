"""What a rule's text says about each of its tools: use it for this, do not use it, or only what it does.

In: the text and T(r). Out: statements in the order of the text, each with the tools it is about, how it stands to
them, and the words around their names. English only; a text it cannot read gives few statements, never wrong names.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from catalog.core.mentions import NameFinder
from rules.core.checks.finding import Place
from rules.core.rule import RuleContent
from rules.core.wording import LEAST_WORDS, Wording, wording

# Which tools a text names, in the shapes the checks of a rule read.


class ToolMentions:
    """The finder of a set of tools, in the shapes the checks of a rule read; build it once per catalog."""

    def __init__(self, names: Iterable[str]) -> None:
        self._finder = NameFinder(names)

    def find(self, text: str) -> list[str]:
        """The names in the order of their first mention."""
        return list(dict.fromkeys(name for _, _, name in self._finder.find(text)))

    def spans(self, text: str) -> list[tuple[str, int, int]]:
        """Every mention as (name, start, end), from left to right; of overlapping names the leftmost longest."""
        return [(name, start, end) for start, end, name in self._finder.find(text)]


Stance = Literal["use", "tells", "limits", "not", "dead"]

END = re.compile(r"[.;!?:](?=\s|$)|\n")
# what may stand between names that are spoken of together
JOINS = re.compile(
    r"\s*,?\s*(?:and|or|nor|as well as|/|&)\s*(?:also\s+|then\s+)?(?:with\s+|by\s+)?(?:the\s+)?|\s*,\s*|\s+",
    re.I,
)
# the last of these between two names: where the words of the first end and those of the second begin
LINK = r"\b(?:and|but|or|while|whereas|otherwise|else)\b"
TURNS = re.compile(rf"(?:,\s*)?(?:{LINK}|\b(?:so|then)\b)(?!.*{LINK})|,(?!.*,)", re.I | re.S)

FILLERS = r"(?:\s+(?:the|a|an|always|just|simply|then|please|also))*"
WORD = r"\s+(?!that\b|which\b)[\w-]+"
UP_TO = rf"{FILLERS}(?:{WORD}{FILLERS})?(?:(?!\s+(?:use|call)\b){WORD}{FILLERS}){{0,%d}}\s*$"
AGAINST = re.compile(
    rf"(?:\b(?:not|never|unlike|avoid|without|replac(?:es|ing)|supersed(?:es|ing))\b|n['’]t\b){UP_TO % 2}"
    rf"|\b(?:instead{FILLERS} of|rather{FILLERS} than)\b{UP_TO % 5}|\bover\s*$",
    re.I,
)
DEAD = re.compile(
    r"deprecat|no longer (?:available|supported|exists|works|maintained|recommend)|\breplaced\b|\bretired\b|obsolete"
    r"|discontinu|supersed|sunset|phased out|switched off|\bremoved\b|\b(?:old|legacy) (?:version|route|endpoint|api)\b"
    r"|(?:must|should|may|can) (?:not|never|no longer) be (?:used|called)|\bnever (?:be )?(?:used|called)"
    r"|(?:do not|don['’]t|never) (?:use|call)|not (?:be )?(?:supported|recommended)\b",
    re.I,
)
DEAD_BEFORE = re.compile(
    r"(?:deprecated|legacy|retired|obsolete|discontinued|superseded|no longer(?: \w+){1,2})\s*$", re.I
)
LIMITS = re.compile(r"\b(?:not|never|cannot|without|nothing|no)\b|n['’]t\b|\bonly\b|\bexclud", re.I)
# a name behind one of these begins a clause of its own: it is spoken of, not called
OPENS = re.compile(
    r"(?:\b(?:that|which|because|since|as|while|whereas|though|although|and|but|or|if|when|where)|[,(])"
    r"\s*(?:the\s+)?$",
    re.I,
)
CALLS = re.compile(
    r"(?:\b(?:please|always|now|must|should|you|we|then|directly|simply|just|only|instead)\s+)*\b(?:use|uses|using|used"
    r"|call|calls|calling|choose|take|takes|prefer|pick|with|from|through|via|by|goes? to|go through)"
    r"\s+(?:(?:the|please|always|just|simply|then)\s+)*$",
    re.I,
)
REASON = re.compile(r"\bso that\b.*|,\s*(?:because|which|since|as|where)\b.*", re.I | re.S)
CONDITION = re.compile(
    r"\W*(?:(?:always|just|simply|please|then|also)\s+)*"
    r"(?:when|whenever|if|unless|while|until|only|for|to|in case|as long as|provided|before|after|where)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One place of the text: `tools` that are named together, how the words stand to them, words with names cut out."""

    tools: tuple[str, ...]
    stance: Stance
    words: str
    start: int
    end: int


def read_statements(text: str, tools: Sequence[str]) -> list[Statement]:
    spans = ToolMentions(tools).spans(text)
    found: list[Statement] = []
    for start, end in _sentences(text, spans):
        inside = [span for span in spans if start <= span[1] < end]
        if inside:
            found += _of_sentence(text, start, end, _groups(text, inside))
    return found


def _sentences(text: str, spans: Iterable[tuple[str, int, int]]) -> list[tuple[int, int]]:
    """Parts between full stops and semicolons; a full stop inside a name ends nothing."""
    named = [(start, end) for _, start, end in spans]
    ends = [
        match.end()
        for match in END.finditer(text)
        if not any(start <= match.start() < end for start, end in named)
    ]
    places = [0, *ends, len(text)]
    return [(a, b) for a, b in zip(places, places[1:], strict=False) if text[a:b].strip()]


@dataclass(frozen=True, slots=True)
class _Group:
    tools: tuple[str, ...]
    start: int
    end: int


def _groups(text: str, spans: Sequence[tuple[str, int, int]]) -> list[_Group]:
    """Names joined by nothing but commas and `and` are spoken of together."""
    groups: list[_Group] = []
    for name, start, end in spans:
        if groups and JOINS.fullmatch(text, groups[-1].end, start):
            groups[-1] = _Group((*groups[-1].tools, name), groups[-1].start, end)
        else:
            groups.append(_Group((name,), start, end))
    return groups


def _of_sentence(text: str, start: int, end: int, groups: Sequence[_Group]) -> list[Statement]:
    found = []
    begin = start
    for place, group in enumerate(groups):
        after = groups[place + 1].start if place + 1 < len(groups) else end
        tail = text[group.end : after]
        if place + 1 < len(groups):
            tail = tail[: _cut(tail)]
        lead = text[begin : group.start]
        found.append(
            Statement(group.tools, _stance(lead, tail), _situation(lead, tail), begin, group.end + len(tail))
        )
        begin = group.end + len(tail)
    return found


def _cut(between: str) -> int:
    """How much of the words between two names belongs to the first."""
    against = AGAINST.search(between)
    if against:
        return against.start()
    turn = TURNS.search(between)
    return turn.start() if turn else len(between)


def _stance(lead: str, tail: str) -> Stance:
    if AGAINST.search(lead):
        return "not"
    if DEAD.search(tail) or DEAD_BEFORE.search(lead):
        return "dead"
    said = lead.strip(" ,;.:\n")
    if CALLS.search(lead) or (wording(said).telling and not OPENS.search(f"{said} ")):
        return "use"
    return "limits" if LIMITS.search(tail) else "tells"


def _situation(lead: str, tail: str) -> str:
    """The words that say when, without the call itself and the reason.

    Where the words before the name say it, those behind count only if they go on with a condition or a purpose.
    """
    lead, tail = CALLS.sub(" ", lead), REASON.sub(" ", tail)
    goes_on = len(wording(lead).telling) < LEAST_WORDS or CONDITION.match(tail)
    return f"{lead} {tail}" if goes_on else lead


# In which situations a rule leads to which tool, read from its clauses and from its text.
#
# In: a rule's content. Out: a `Reading`: situations with the place they stand at, the text's statements about the
# tools, and the words by which near-duplicates are found. Reading costs much more than comparing, so it is done once.


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
