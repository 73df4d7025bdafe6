"""What a trace says that nobody said: not the request, not the rule, not the tools' texts."""

import re
from collections.abc import Sequence

from synthesis.core.judge_cases import known_rule
from synthesis.core.judge_sentences import Sentence
from synthesis.core.judge_stems import plain_stems
from synthesis.core.judge_vocabulary import REASONING
from synthesis.core.queries import JudgeRequest, ToolText
from synthesis.core.wordings import Wording

QUOTED = re.compile(r"[“\"‘]([^”\"“’]{3,}?)[”\"’]|(?<=\()([^()]{3,})(?=\))|(?<![\w])'([^']{3,}?)'(?!\w)")
CLAIM = Wording(
    r"\b(?:they|he|she|the\s(?:person|user|request|query|message|customer|text|employee)|is\s(?:said|stated|mentioned|named|added))\b"
)
ATTRIBUTED = Wording(
    r"""\b(?:they|he|she|it|the\s(?:person|user|request|query|message|customer|text|employee|worker|writer|asker))\s
    (?:also\s|further\s|even\s|has\s|have\s|had\s|is\s|are\s)*(?:add|adds|added|mention\w*|state[sd]?|say|says|said|write|writes|wrote|
    written|name[sd]?|note[sd]?|claim\w*|report\w*|explain\w*|confirm\w*|insist\w*|specif\w+|declare\w*)\b(?P<what>[^“"]+)$"""
)
# the same with the claim anywhere in the sentence
REPORTED = Wording(
    r"""\b(?:according\sto\s(?:the\s(?:request|message|query|person|user|text)|them|him|her)|as\s(?:they|he|she|the\s\w+)\s(?:write|say|
    state|put|mention|explain)s?|(?:named|mentioned|stated|said|given|found|attached|enclosed)\sin\sthe\s(?:request|message|query|text)|
    it\sis\s(?:said|stated|mentioned|added|noted)|(?:is|are|was|were)\s(?:also\s)?
    (?:stated|mentioned|named|specified|noted|attached|enclosed))\b"""
)
LEAST = 2  # words from nowhere that a sentence with a name from nowhere may not hold
NUMBER = re.compile(r"\d[\d.,/-]*\d|\d")
NAMED = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}\b")


def invented(request: JudgeRequest, found: Sequence[Sentence]) -> list[str]:
    """Quotes, numbers and names that occur nowhere; sentences mostly of words from nowhere."""
    origin, ground = source(request), _ground(request)
    folded = origin.casefold()
    notes: list[str] = []
    for sentence in found:
        notes += _put_in_mouth(request, sentence)
        for match in QUOTED.finditer(sentence.text):
            quote = next(part for part in match.groups() if part)
            if len(plain_stems(quote) - ground) > 0.34 * len(plain_stems(quote)):
                notes.append(f"'{quote}' is quoted but said nowhere.")
        digits = [one for one in NUMBER.findall(sentence.text) if len(one) > 1 and one not in origin]
        strange = plain_stems(sentence.text) - REASONING - ground
        if digits:
            notes.append(f"'{digits[0]}' is said neither by the request nor by rule or tools.")
        elif len(strange) >= LEAST and len(strange) >= _allowed(sentence, folded):
            notes.append(f"'{' '.join(sorted(strange))}' has no ground in request, rule or tools.")
        if len(notes) > 1:
            break
    return notes[:2]


def _put_in_mouth(request: JudgeRequest, sentence: Sentence) -> list[str]:
    match = ATTRIBUTED.search(sentence.text)
    if not match and not REPORTED.search(sentence.text):
        return []
    claim = match["what"] if match else sentence.text
    content = plain_stems(claim) - REASONING
    if len(content - plain_stems(_asked(request))) <= 0.5 * len(content):
        return []
    return [f"'{claim.strip()}' is not what the request says."]


def _allowed(sentence: Sentence, origin: str) -> float:
    """How many words from nowhere a sentence may hold: a claim on the request or a tool fewer than a turn of phrase."""
    names = any(one.casefold() not in origin for one in NAMED.findall(sentence.text))
    claim = bool(sentence.tools) or CLAIM.search(sentence.text) is not None
    share = 0.4 if claim else 0.5
    return max(LEAST if names else LEAST + 1, share * len(sentence.said))


def _asked(request: JudgeRequest) -> str:
    """The request's words and those of the answer's cases, which may paraphrase it."""
    parts = [request.query]
    if request.rule:
        for one in known_rule(request.rule, request.pool).cases:
            if one.tool in request.answer:
                parts += [one.when, *one.case.clause.signals]
    return " ".join(parts)


def _quotable(request: JudgeRequest) -> list[ToolText]:
    return [tool for tool in request.pool if tool.name in request.trace or tool.name in request.answer]


def source(request: JudgeRequest) -> str:
    """Everything a trace may draw on, as one text."""
    parts = [request.query, *(f"{tool.name} {tool.description}" for tool in _quotable(request))]
    if request.rule:
        parts.append(known_rule(request.rule, request.pool).text)
    return " ".join(parts)


def _ground(request: JudgeRequest) -> frozenset[str]:
    """The words of `source`, from texts that other requests share."""
    texts = [plain_stems(text) for tool in _quotable(request) for text in (tool.name, tool.description)]
    if request.rule:
        texts.append(known_rule(request.rule, request.pool).stems)
    return plain_stems(request.query).union(*texts)
