"""Trace faithfulness, the judge's fourth axis: does the reasoning, read alone, lead to the answer?

In: a judge request. Out: what is wrong, one sentence each. The trace must restate this request and no other, state the
decisive case of the rule where it cites it, say of each tool what rule and description say, and end on the answer. A
quote or a number that stands in none of these texts counts as invented.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from synthesis.core.clauses import HOLE, HOLE_MARKS
from synthesis.core.names import SENTENCE_END
from synthesis.core.queries import JudgeRequest, RuleText
from synthesis.offline.judge_words import known_rule, plain_stems, stems, union
from synthesis.offline.limits import same_side

QUOTED = re.compile(r"[“\"‘]([^”\"“’]{3,}?)[”\"’]|(?<![\w])'([^']{3,}?)'(?!\w)")
NUMBER = re.compile(r"\d[\d.,/-]*\d")
UNSAID = "The trace does not restate what is asked."
STRANGE = 0.6  # share of a sentence's words on a tool that may come from nowhere: turns of phrase


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence without the names in it; `said`: the stems of its words."""

    text: str
    tools: frozenset[str]
    cites: bool
    said: frozenset[str]


def sentences(request: JudgeRequest) -> list[Sentence]:
    tools = {tool.name for tool in request.pool} | set(request.answer)
    code = request.rule.code if request.rule else ""
    names = sorted({*tools, *(name.partition("/")[0] for name in tools), code} - {""}, key=len, reverse=True)
    named = re.compile(rf"(?<![\w/])(?:{'|'.join(map(re.escape, names)) or '(?!)'})(?![\w/])")
    # a name may hold what ends a sentence
    marked = named.sub(lambda match: f"⟦{names.index(match.group())}⟧", request.trace.translate(HOLE_MARKS))
    made = []
    for part in filter(str.strip, SENTENCE_END.split(marked)):
        inside = {names[int(number)] for number in HOLE.findall(part)}
        bare = HOLE.sub("·", part)
        made.append(Sentence(bare, frozenset(inside & tools), code in inside, stems(bare)))
    return made


def unfaithful(request: JudgeRequest) -> list[str]:
    """What is wrong with the reasoning; empty when it leads to the answer."""
    found = sentences(request)
    if not found:
        return ["There is no reasoning."]
    notes = [*_commit(request, found), *_invented(request, found)]
    return [*notes, *(_on_rule(request, request.rule, found) if request.rule else _on_texts(request, found))]


def rivals_named(request: JudgeRequest) -> bool:
    """Whether a sentence says something of one look-alike alone."""
    return any(len(one.tools) == 1 and not one.tools & set(request.answer) for one in sentences(request))


def _source(request: JudgeRequest) -> str:
    """Everything a trace may draw on, as one text."""
    tools = [tool for tool in request.pool if tool.name in request.trace or tool.name in request.answer]
    parts = [request.query, *(f"{tool.name} {tool.description}" for tool in tools)]
    return " ".join([*parts, known_rule(request.rule, request.pool).text] if request.rule else parts)


def _commit(request: JudgeRequest, found: Sequence[Sentence]) -> list[str]:
    last, answer = found[-1].tools, set(request.answer)
    notes = [f"The last sentence does not name {name}." for name in sorted(answer - last)[:1]]
    return [*notes, *(f"The last sentence names {name} too." for name in sorted(last - answer)[:1])]


def _invented(request: JudgeRequest, found: Sequence[Sentence]) -> list[str]:
    """Quotes and numbers that stand nowhere, and claims on one tool that are."""
    origin = _source(request)
    ground, text = plain_stems(origin), " ".join(sentence.text for sentence in found)
    quotes = [next(filter(None, match.groups())) for match in QUOTED.finditer(text)]
    notes = [f"'{quote}' is quoted but said nowhere." for quote in quotes if plain_stems(quote) - ground]
    strange = [number for number in NUMBER.findall(text) if number not in origin]
    notes += [f"'{number}' stands in none of the texts." for number in strange]
    for sentence in found:
        said = plain_stems(sentence.text)
        if (
            len(sentence.tools) == 1
            and not sentence.cites
            and len(said - ground) > max(2, STRANGE * len(said))
        ):
            notes.append(f"'{sentence.text.strip()}' is mostly said by none of the texts.")
    return notes[:2]


def _on_rule(request: JudgeRequest, rule: RuleText, found: Sequence[Sentence]) -> list[str]:
    """The sentence that cites the rule, or the one after it, states the answer's case."""
    decisive = [found[n] for at, one in enumerate(found) if one.cites for n in (at, at + 1) if n < len(found)]
    if not decisive:
        return [f"The trace does not cite {rule.code}."]
    mine = [one for one in known_rule(rule, request.pool).cases if one.tool in request.answer]
    least = 2 if rule.clauses else 1
    notes = []
    if not any(
        len(sentence.said & one.stated) >= least and same_side(one.when, sentence.text) >= 0
        for sentence in decisive
        for one in mine
    ):
        notes.append(f"The trace cites {rule.code} but not the clause of it that decides.")
    intent = union(sentence.said for sentence in found[:2])
    if not _restated(request, found) and not any(one.stated & intent for one in mine):
        notes.append(UNSAID)
    return notes


def _on_texts(request: JudgeRequest, found: Sequence[Sentence]) -> list[str]:
    said = union(sentence.said for sentence in found)
    for tool in (one for one in request.pool if one.name in request.answer):
        if said.isdisjoint(plain_stems(f"{tool.endpoint} {tool.description}")):
            return [f"The trace does not say what {tool.name} does."]
    return [] if _restated(request, found) else [UNSAID]


def _restated(request: JudgeRequest, found: Sequence[Sentence]) -> bool:
    return not stems(request.query).isdisjoint(union(sentence.said for sentence in found))
