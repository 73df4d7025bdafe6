"""What a rule's text says about each of its tools: use it for this, do not use it, or only what it does.

In: the text and T(r). Out: statements in the order of the text, each with the tools it is about, how it stands to
them, and the words around their names. English only; a text it cannot read gives few statements, never wrong names.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rules.core.mentions import ToolMentions

Stance = Literal["use", "tells", "limits", "not", "dead"]

END = re.compile(r"[.;!?:](?=\s|$)|\n")
JOINS = re.compile(
    r"(?:\s*,?\s*(?:and|or|nor|as well as|/|&)\s*(?:also\s+|then\s+)?(?:with\s+|by\s+)?(?:the\s+)?|\s*,\s*)",
    re.I,
)
# where the words of the tool before end and those of the tool after begin
TURNS = re.compile(
    r"(?:,\s*)?\b(?:and|but|or|while|whereas|otherwise|else|so|then)\b(?!.*\b(?:and|but|or|while|whereas|otherwise|else)\b)|,(?!.*,)",
    re.I | re.S,
)
AGAINST = re.compile(
    r"(?:\b(?:not|never|unlike|avoid|without|replac(?:es|ing)|supersed(?:es|ing)|over)\b|n['’]t\b)"
    r"(?:\s+(?!that\b|which\b)[\w-]+){0,3}\s*$|\b(?:instead of|rather than)(?:\s+(?!that\b|which\b)[\w-]+){0,6}\s*$",
    re.I,
)
DEAD = re.compile(
    r"deprecat|no longer (?:available|supported|exists|works|maintained|recommend)|\breplaced\b|\bretired\b|obsolete"
    r"|discontinu|supersed|sunset|phased out|switched off|\bremoved\b|\b(?:old|legacy) (?:version|route|endpoint|api)\b"
    r"|(?:must|should|may|can) (?:not|never|no longer) be (?:used|called)|\bnever (?:be )?(?:used|called)"
    r"|(?:do not|don['’]t|never) (?:use|call)|not (?:be )?(?:supported|recommended)\b",
    re.IGNORECASE,
)
# right before a name
DEAD_BEFORE = re.compile(
    r"(?:deprecated|legacy|retired|obsolete|discontinued|superseded|no longer(?: \w+){1,2})\s*$", re.I
)
LIMITS = re.compile(r"\b(?:not|never|cannot|without|nothing|no)\b|n['’]t\b|\bonly\b|\bexclud", re.I)
# a name behind one of these begins a clause of its own: it is spoken of, not called
OPENS = re.compile(
    r"(?:\b(?:that|which|because|since|as|while|whereas|though|although|and|but|or|if|when|where)|[,(])\s*(?:the\s+)?$",
    re.I,
)
VERBS = re.compile(
    r"(?:\b(?:please|always|now|must|should|you|we|then|directly|simply|only|instead)\s+)*\b(?:use|uses|using|used|call|calls|"
    r"calling|choose|take|takes|prefer|pick|with|from|through|via|by|goes? to|go through)\s+(?:the\s+)?$",
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
    if VERBS.search(lead) or (said and not OPENS.search(f"{said} ")):
        return "use"
    return "limits" if LIMITS.search(tail) else "tells"


def _situation(lead: str, tail: str) -> str:
    return f"{VERBS.sub(' ', lead)} {tail}"
