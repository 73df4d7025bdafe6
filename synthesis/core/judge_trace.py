"""Trace faithfulness, the judge's fourth axis: does the reasoning, read alone, lead to the answer?

In: a judge request. Out: what is wrong, one sentence each. The trace must restate this request and no other, state the
decisive case of the rule where it cites it, say of each tool what rule and description say, and end on the answer. A
quote or a number that stands in none of these texts counts as invented.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from synthesis.core.judge_cases import known_rule
from synthesis.core.judge_stems import plain_stems, stems
from synthesis.core.limits import same_side
from synthesis.core.names import SENTENCE_END
from synthesis.core.queries import JudgeRequest, RuleText, by_name

QUOTED = re.compile(r"[“\"‘]([^”\"“’]{3,}?)[”\"’]|(?<![\w])'([^']{3,}?)'(?!\w)")
NUMBER = re.compile(r"\d[\d.,/-]*\d")
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
    named = (
        re.compile(rf"(?<![\w/])(?:{'|'.join(map(re.escape, names))})(?![\w/])")
        if names
        else re.compile(r"(?!)")
    )
    held: list[str] = []

    def hidden(match: re.Match[str]) -> str:
        held.append(match.group())
        return f"⟦{len(held) - 1}⟧"

    made = []
    for part in SENTENCE_END.split(named.sub(hidden, request.trace.translate(str.maketrans("⟦⟧", "[]")))):
        inside = {held[int(number)] for number in re.findall(r"⟦(\d+)⟧", part)}
        bare = re.sub(r"⟦\d+⟧", "·", part)
        if part.strip():
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
    """The sentence that cites the rule, or the one after it, states the answer's case and no other better."""
    known, notes = known_rule(rule, request.pool), []
    decisive = [found[n] for at, one in enumerate(found) if one.cites for n in (at, at + 1) if n < len(found)]
    if not decisive:
        return [f"The trace does not cite {rule.code}."]

    def scores(sentence: Sentence) -> dict[bool, float]:
        best = {True: 0.0, False: 0.0}  # of the answer's cases, of the others
        for one in known.cases:
            score = math.fsum(known.weights.get(word, 0.0) for word in sentence.said & one.stated)
            is_mine = one.tool in request.answer
            best[is_mine] = max(best[is_mine], score + 2 * same_side(one.when, sentence.text))
        return best

    mine = [one for one in known.cases if one.tool in request.answer]
    least = 2 if rule.clauses else 1
    if not any(
        len(sentence.said & one.stated) >= least and same_side(one.when, sentence.text) >= 0
        for sentence in decisive
        for one in mine
    ):
        notes.append(f"The trace cites {rule.code} but not the clause of it that decides.")
    elif not any(best[True] >= best[False] for best in map(scores, decisive)):
        notes.append("The trace argues for another case of the rule.")
    said = frozenset[str]().union(*(sentence.said for sentence in found))
    intent = frozenset[str]().union(*(sentence.said for sentence in found[:2]))
    if not stems(request.query) & said and not any(one.stated & intent for one in mine):
        notes.append("The trace does not restate what is asked.")
    return notes


def _on_texts(request: JudgeRequest, found: Sequence[Sentence]) -> list[str]:
    known = by_name(request.pool)
    said = frozenset[str]().union(*(sentence.said for sentence in found))
    answers = {
        name: plain_stems(f"{known[name].endpoint} {known[name].description}")
        for name in request.answer
        if name in known
    }
    for name, own in answers.items():
        if said.isdisjoint(own):
            return [f"The trace does not say what {name} does."]
    if not stems(request.query) & said:
        return ["The trace does not restate what is asked."]
    return []
