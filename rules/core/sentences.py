"""Clauses as sentences of a rule's text, "When <when>, use <tool>.", and back.

In: a text, clauses, the tools they may name. Out: the sentences that say when a tool is used, which clauses agree with
them, the edit that writes a clause into the text. The text is the authority: an edit touches only the words it
replaces, and none is made that would not be read back as its clause. Places are offsets in code points.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from catalog.core.mentions import NameFinder
from rules.core.rule import LONGEST_SENTENCE
from trace_site.lib.letters import STOPS, sentence_end

Span = tuple[int, int]
Clause = dict[str, Any]  # {when, route_to, exception, signals}

ALIKE = 0.5  # share of words that makes a clause and a sentence two states of one step
ADVERB = r"(?:(?:then|always|please|only|just)\s+){0,2}"
VERB = rf"{ADVERB}(?:use|call|choose|take|prefer)\s+"
WHEN = r"(?:when|whenever|if)\s+"
# anything but the end of the sentence, and no more than a clause may hold
INSIDE = rf"(?:(?![.!?;](?:\s|$)|\n).){{1,{LONGEST_SENTENCE}}}?"
NEGATED = re.compile(r"\b(?:not|never|n't|cannot)\s+(?:use|call|choose|take|prefer)\b", re.IGNORECASE)
END = sentence_end(r"[.!?;]+(?=\s|$)|\n|$")


@dataclass(frozen=True, slots=True)
class Sentence:
    """What one sentence says. `plain`: it has exactly the shape that `said` writes."""

    when: str
    route_to: str
    exception: bool
    start: int
    end: int  # behind the full stop
    when_at: Span
    tool_at: Span
    plain: bool

    def clause(self, target: str) -> Clause:
        """As a new clause; what leads away from the target is an exception."""
        exception = self.exception or self.route_to != target
        return {"when": self.when, "route_to": self.route_to, "exception": exception, "signals": []}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Clauses by their number from 0. `unsaid`: the text lacks them although it says others, or their tool."""

    agreed: dict[int, Sentence]
    differing: dict[int, Sentence]
    unsaid: tuple[int, ...]
    offered: tuple[Sentence, ...]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace text[start:end] by `words`."""

    start: int
    end: int
    words: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.words + text[self.end :]


def said(clause: Clause, tools: Iterable[str] = ()) -> str:
    """The clause as a sentence, or "" when one sentence cannot say it."""
    opening = "Exception: when" if clause["exception"] else "When"
    sentence = f"{opening} {_bare(clause['when'])}, use {clause['route_to']}."
    found = sentences(sentence, {clause["route_to"], *tools})
    whole = len(found) == 1 and found[0].plain and found[0].end == len(sentence)
    return sentence if whole and _agrees(clause, found[0]) else ""


def sentences(text: str, tools: Iterable[str]) -> list[Sentence]:
    """Every sentence that says when one of the tools is used, in order."""
    names = tuple(sorted(filter(None, tools), key=lambda name: (-len(name), name)))
    if not names:
        return []
    found = [_sentence(match, text) for shape in _shapes(names) for match in shape.finditer(text)]
    kept: list[Sentence] = []
    for one in sorted((one for one in found if one), key=lambda one: (one.start, one.end)):
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
    return kept


def compare(text: str, clauses: Sequence[Clause], tools: Iterable[str]) -> Comparison:
    """Pair finished clauses with sentences: equal ones first, then those that look like two states of one step."""
    names = {*tools, *(clause["route_to"] for clause in clauses)} - {""}
    left = sentences(text, names)
    has_shape = any(sentence.plain for sentence in left)
    open_clauses = {n: clause for n, clause in enumerate(clauses) if clause["when"] and clause["route_to"]}
    agreed: dict[int, Sentence] = {}
    differing: dict[int, Sentence] = {}
    for pairing, kept in ((_says_all, agreed), (_agrees, agreed), (_says, differing)):
        for number, clause in list(open_clauses.items()):
            sentence = next((one for one in left if pairing(clause, one)), None)
            if sentence:
                kept[number] = sentence
                left.remove(sentence)
                del open_clauses[number]
    for number, sentence in _alike(open_clauses, left):
        differing[number] = sentence
        left.remove(sentence)
        del open_clauses[number]
    for number, clause in list(open_clauses.items()):
        # a clause and a freely worded sentence on the same tool: people wrote both on purpose
        sentence = next((one for one in left if one.route_to == clause["route_to"]), None)
        if sentence:
            left.remove(sentence)
            del open_clauses[number]
    named = {name for _, _, name in NameFinder(names).find(text)}
    unsaid = tuple(n for n, clause in open_clauses.items() if has_shape or clause["route_to"] not in named)
    return Comparison(agreed, dict(sorted(differing.items())), unsaid, tuple(left))


def say(text: str, clauses: Sequence[Clause], number: int, tools: Iterable[str]) -> Edit | None:
    """The edit that makes the text say a clause: its sentence brought up to date, or a new one at its place."""
    names = {*tools, *(clause["route_to"] for clause in clauses)}
    clause, words = clauses[number], said(clauses[number], names)
    found = compare(text, clauses, names)
    if not words or number in found.agreed:
        return None
    if number in found.differing:
        return _update(text, found.differing[number], clause)
    # behind the sentence of the nearest clause above, else at the end
    above = [(n, one.end) for n, one in (found.agreed | found.differing).items() if n < number]
    place = max(above)[1] if above else len(text.rstrip())
    before, after = text[:place], text[place:]
    joined = "" if not before or before[-1].isspace() else " "
    said_before = before.rstrip()
    ended = said_before[-1:] in ("", *f".!?;:{STOPS}") or "\n" in before[len(said_before) :]
    lead = joined if ended else "\n"
    return Edit(place, place, lead + words + ("" if not after or after[0].isspace() else " "))


def follow(text: str, clauses: Sequence[Clause], tools: Iterable[str], target: str) -> list[Clause]:
    """The clauses as the text has them: differing ones corrected, offered ones added; none is removed."""
    found = compare(text, clauses, tools)
    told = list(clauses)
    for number, sentence in found.differing.items():
        exception = told[number]["exception"] or sentence.exception
        new = {"when": sentence.when, "route_to": sentence.route_to, "exception": exception}
        told[number] = {**told[number], **new}
    return told + [sentence.clause(target) for sentence in found.offered]


@lru_cache(maxsize=64)
def _shapes(names: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """`When X, use T` and `Use T when X`, each at the start of a sentence."""
    choice = "|".join(map(re.escape, names))
    tool = rf"(?P<tool>(?-i:{choice}))(?!\w|[.\-/&:]\w)(?!\s*,?\s*(?:or|and)\s+(?:{choice}))"
    start = r"(?:^|(?<=[.!?;:])\s+|\n[^\S\n]*)(?P<exception>exception:\s*)?"
    flags = re.IGNORECASE
    return (
        re.compile(rf"{start}(?P<body>{WHEN}(?P<when>{INSIDE}),\s*{VERB}{tool})", flags),
        re.compile(
            rf"{start}(?P<body>{VERB}{tool}\s+(?:only\s+)?{WHEN}(?P<when>{INSIDE}))(?=[.!?;](?:\s|$)|\n|$)",
            flags,
        ),
    )


def _sentence(match: re.Match[str], text: str) -> Sentence | None:
    when = match["when"].strip()
    if not when or NEGATED.search(match[0]):
        return None
    start = match.start("exception" if match["exception"] else "body")
    end = END.search(text, match.end())
    stop = end.start() + len(end[0].strip()) if end else len(text)
    tool = match["tool"]
    when_at = match.span("when")
    head = f"{'exception: ' if match['exception'] else ''}when {text[when_at[0] : when_at[1]]}, use {tool}."
    plain = text[start:stop].casefold() == head.casefold()
    return Sentence(when, tool, bool(match["exception"]), start, stop, when_at, match.span("tool"), plain)


def _bare(when: str) -> str:  # one line, without the "when" that the sentence brings itself
    return re.sub(r"^(?:when|whenever|if)\s+", "", " ".join(when.split()), flags=re.IGNORECASE).rstrip(".,; ")


def _key(when: str) -> str:
    return _bare(when).casefold()


def _says(clause: Clause, sentence: Sentence) -> bool:
    return clause["route_to"] == sentence.route_to and _key(clause["when"]) == _key(sentence.when)


def _says_all(clause: Clause, sentence: Sentence) -> bool:
    return _says(clause, sentence) and clause["exception"] == sentence.exception


def _agrees(clause: Clause, sentence: Sentence) -> bool:
    """A sentence need not say that it is an exception; where it does, the clause must too."""
    return _says(clause, sentence) and (clause["exception"] or not sentence.exception)


def _alike(clauses: dict[int, Clause], left: Sequence[Sentence]) -> list[tuple[int, Sentence]]:
    """The likeliest pairs of what is left, best first; a plain sentence on the same tool is one in any case."""
    scored: list[tuple[float, int, int]] = []
    for number, clause in clauses.items():
        for place, sentence in enumerate(left):
            ours, theirs = _key(clause["when"]).split(), _key(sentence.when).split()
            if clause["route_to"] != sentence.route_to:
                scored += [(-1.0, number, place)] if ours == theirs else []
                continue
            ratio = SequenceMatcher(None, ours, theirs, autojunk=False).ratio()
            if ratio >= ALIKE or sentence.plain:
                scored.append((-ratio, number, place))
    pairs: dict[int, int] = {}
    for _, number, place in sorted(scored):
        if number not in pairs and place not in pairs.values():
            pairs[number] = place
    return [(number, left[place]) for number, place in pairs.items()]


def _update(text: str, sentence: Sentence, clause: Clause) -> Edit:
    """New words only where the sentence says something else; everything around them stays as typed."""
    parts = {sentence.tool_at: clause["route_to"]}
    if _key(sentence.when) != _key(clause["when"]):
        parts[sentence.when_at] = _bare(clause["when"])
    words = text[sentence.start : sentence.end]
    for (start, end), new in sorted(parts.items(), reverse=True):
        words = words[: start - sentence.start] + new + words[end - sentence.start :]
    if sentence.exception and not clause["exception"]:
        words = re.sub(r"^exception:\s*", "", words, flags=re.IGNORECASE)
        words = words[0].upper() + words[1:]
    return Edit(sentence.start, sentence.end, words)
