"""What a rule says of each of its tools: use it for this, do not use it, or only what it does.

In: a rule's content. Out: a `Reading`: the situations with the place they stand at, and the text's statements about
the tools. Reading costs much more than comparing, so it is done once. English only; a text it cannot read gives few
statements, never wrong names.
"""

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from catalog.core.mentions import Mention, NameFinder
from rules.core.rule import RuleContent, pointed_row
from rules.core.wording import BRACKETS, LEAST_WORDS, Wording, wording
from trace_site.lib.letters import sentence_end

Stance = Literal["use", "tells", "limits", "not", "dead"]

END = sentence_end(r"[.;!:?](?=\s|$)|\n")
# what may stand between names that are spoken of together
JOINS = re.compile(
    r"(?:\s*+,)?\s*+(?:and|or|nor|as well as|/|&)\s*+(?:also\s+|then\s+)?(?:with\s+|by\s+)?(?:the\s+)?"
    r"|\s*+,\s*+(?:with\s+|by\s+)?|\s++",
    re.I,
)
# the last of these between two names: where the words of the first end and those of the second begin
LINK = re.compile(
    r"(?:,\s*+)?\b(?:(?:and|or)(?!\s+(?:later|earlier|newer|older|before|after|above|below|over|under|more|less|fewer|higher"
    r"|lower|longer|shorter|on|onwards?|up)\b)|but|while|whereas|otherwise|else)\b",
    re.I,
)
THEN = re.compile(r"(?:,\s*+)?\b(?:so|then)\b", re.I)

NOTHING_SAID = re.compile(r"(?:[\W_\d]|\b(?:use|call|take|choose|please|always|then|and|or)\b)*", re.I)

FILLERS = r"(?:\s+(?:the|a|an|always|just|simply|then|please|also))*"
WORD = r"\s+(?!that\b|which\b)[\w-]+"
UP_TO = rf"{FILLERS}(?:{WORD}{FILLERS})?(?:(?!\s+(?:use|call)\b){WORD}{FILLERS}){{0,%d}}\s*$"
AGAINST = re.compile(
    rf"(?:\b(?:not|never|unlike|avoid|replac(?:es|ing)|supersed(?:es|ing))\b|n['’]t\b){UP_TO % 2}"
    rf"|\bwithout\b{UP_TO % 0}"
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
    r"(?:\b(?:please|always|now|must|should|you|we|then|directly|simply|just|only|instead)\s+){0,6}\b(?:use|uses|using|used"
    r"|call|calls|calling|choose|take|takes|prefer|pick|with|from|through|via|by|in favou?r of"
    r"|go(?:es)? (?:to|through))\s+(?:(?:the|please|always|just|simply|then)\s+)*$",
    re.I,
)
REASON = re.compile(r"\bso that\b.*|,\s*(?:because|which|since|as|where)\b.*", re.I | re.S)
CONDITION = re.compile(
    r"\W*(?:(?:always|just|simply|please|then|also)\s+)*"
    r"(?:when|whenever|if|unless|while|until|only|for|to|in case|as long as|provided|before|after|where)\b",
    re.I,
)


PLACES = {"tool_name": "target", "confusables": "look-alikes", "rule_text": "text"}


@dataclass(frozen=True, slots=True)
class Place:
    """A JSON pointer into the exchange format; `start` and `end` count characters of the text it points to."""

    pointer: str = ""
    start: int | None = None
    end: int | None = None

    @property
    def words(self) -> str:
        """`/clauses/1/route_to` -> clause 2."""
        name, number = pointed_row(self.pointer)
        if number is None or name == "confusables":
            return PLACES.get(name, name)
        return f"{name.removesuffix('s')} {number + 1}"


@dataclass(frozen=True, slots=True)
class Statement:
    """One place of the text: `tools` that are named together, how the words stand to them, words with names cut out.
    `sentence` is where its sentence starts; `lead` and `tail` are what stands before and behind the names."""

    tools: tuple[str, ...]
    stance: Stance
    words: str
    start: int
    end: int
    sentence: int
    lead: str
    tail: str


def read_statements(text: str, tools: Sequence[str]) -> list[Statement]:
    """In the order of the text."""
    mentions = NameFinder(tools).find(text)
    # parts between full stops and semicolons; a full stop inside a name ends nothing
    starts = [start for start, _, _ in mentions]

    def between(begin: int, stop: int) -> list[Mention]:
        return mentions[bisect_left(starts, begin) : bisect_left(starts, stop)]

    places = [0]
    for match in END.finditer(text):
        before = bisect_right(starts, match.start())
        if not (before and match.start() < mentions[before - 1][1]):
            places.append(match.end())
    places.append(len(text))
    places = [
        place
        for number, place in enumerate(places)
        if not (0 < number < len(places) - 1 and _is_label(text, between, places[number - 1 : number + 2]))
    ]
    found: list[Statement] = []
    for begin, stop in zip(places, places[1:], strict=False):
        if inside := between(begin, stop):
            found += _read_sentence(text, begin, stop, inside)
    return found


def _is_label(text: str, between: Callable[[int, int], list[Mention]], around: Sequence[int]) -> bool:
    """Whether the middle one of three places is the colon of `name: case` or `case: name`, or the question mark of
    `case? name`, which ends nothing."""
    begin, colon, stop = around
    if text[colon - 1] not in ":?":
        return False
    left, right = between(begin, colon), between(colon, stop)
    if bool(left) == bool(right):
        return False
    rest, at = "", begin if left else colon
    for start, end, _ in left or right:
        rest, at = f"{rest} {text[at:start]}", end
    return NOTHING_SAID.fullmatch(rest + text[at : colon if left else stop]) is not None


def _read_sentence(text: str, begin: int, stop: int, mentions: Sequence[Mention]) -> list[Statement]:
    # names joined by nothing but commas and `and` are spoken of together
    groups: list[tuple[tuple[str, ...], int, int]] = []
    for start, end, name in mentions:
        if groups and JOINS.fullmatch(text, groups[-1][2], start):
            groups[-1] = ((*groups[-1][0], name), groups[-1][1], end)
        else:
            groups.append(((name,), start, end))
    found, sentence = [], begin
    for place, (tools, start, end) in enumerate(groups):
        tail = text[end : groups[place + 1][1] if place + 1 < len(groups) else stop]
        if place + 1 < len(groups):  # some of the words up to the next name are that one's
            plain = BRACKETS.sub(lambda match: "_" * len(match[0]), tail)
            against = AGAINST.search(plain)
            turn = against.start() if against else _turn(plain)
            if turn is None and DEAD.search(plain):  # `is replaced by` names what is used in its place
                called = CALLS.search(plain)
                turn = called and called.start()
            tail = tail[:turn]
        lead = text[begin:start]
        words, behind = _situation(lead, tail), end + len(tail)
        found.append(Statement(tools, _stance(lead, tail), words, begin, behind, sentence, lead, tail))
        begin = behind
    return found


def _turn(words: str) -> int | None:
    """Where the last link stands, else the first `then`; or the last comma, where it comes before."""
    last = deque(LINK.finditer(words), maxlen=1)
    link = last.pop() if last else THEN.search(words)
    places = [link.start()] if link else []
    return min([*places, *(place for place in [words.rfind(",")] if place >= 0)], default=None)


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


@dataclass(frozen=True, slots=True)
class Situation:
    """One case: who meets `wording` is led to `tool`. `said` are its words as they stand in the rule."""

    tool: str
    wording: Wording
    said: str
    place: Place


class Reading:
    """One rule, read. `said` are the situations of its text; `situations` begin with those of its clauses."""

    def __init__(self, content: RuleContent) -> None:
        self.content = content
        self.statements = read_statements(content.text, content.tools)
        clauses = [
            Situation(
                clause["route_to"], wording(clause["when"]), clause["when"], Place(f"/clauses/{number}")
            )
            for number, clause in enumerate(content.clauses)
        ]
        self.said: list[Situation] = []
        for one in (one for one in self.statements if one.stance == "use"):
            said, place = content.text[one.start : one.end].strip(), Place("/rule_text", one.start, one.end)
            self.said += [Situation(tool, wording(one.words), said, place) for tool in one.tools]
        first: dict[tuple[str, Wording], Situation] = {}
        for case in (*clauses, *self.said):  # what is said again is no other case
            first.setdefault((case.tool, case.wording), case)
        self.situations = list(first.values())
        self.queries = [wording(test["query"]) for test in content.tests]

    @cached_property
    def signals(self) -> list[list[Wording]]:
        """Of every clause the phrases that signal it."""
        return [[wording(signal) for signal in clause["signals"]] for clause in self.content.clauses]

    @cached_property
    def words(self) -> frozenset[str]:
        """What near-duplicates share: the text's telling words, and the tools with how the text stands to them."""
        told = {f"{statement.stance} {tool}" for statement in self.statements for tool in statement.tools}
        text = self.content.text
        for start, end, _ in reversed(NameFinder(self.content.tools).find(text)):
            text = f"{text[:start]} {text[end:]}"
        return wording(text).telling | told
