"""What a trace says that nobody said: not the request, not the rule, not the tools' texts."""

import re
from collections.abc import Sequence

from synthesis.core.clauses import cases
from synthesis.core.judge_label import plain_stems
from synthesis.core.judge_sentences import Sentence
from synthesis.core.judge_vocabulary import REASONING
from synthesis.core.queries import JudgeRequest, by_name

QUOTED = re.compile(r"[“\"‘]([^”\"“’]{3,}?)[”\"’]|(?<=\()([^()]{3,})(?=\))|(?<![\w])'([^']{3,}?)'(?!\w)")
CLAIM = re.compile(
    r"\b(?:they|he|she|the\s(?:person|user|request|query|message|customer|text|employee)|is\s(?:said|stated|mentioned|named|added))\b",
    re.IGNORECASE,
)
ATTRIBUTED = re.compile(
    r"""\b(?:they|he|she|it|the\s(?:person|user|request|query|message|customer|text|employee|worker|writer|asker))\s
    (?:also\s|further\s|even\s|has\s|have\s|had\s|is\s|are\s)*(?:add|adds|added|mention\w*|state[sd]?|say|says|said|write|writes|wrote|
    written|name[sd]?|note[sd]?|claim\w*|report\w*|explain\w*|confirm\w*|insist\w*|specif\w+|declare\w*)\b(?P<what>[^“"]+)$""",
    re.VERBOSE | re.IGNORECASE,
)
# the same with the claim anywhere in the sentence
REPORTED = re.compile(
    r"""\b(?:according\sto\s(?:the\s(?:request|message|query|person|user|text)|them|him|her)|as\s(?:they|he|she|the\s\w+)\s(?:write|say|
    state|put|mention|explain)s?|(?:named|mentioned|stated|said|given|found|attached|enclosed)\sin\sthe\s(?:request|message|query|text)|
    it\sis\s(?:said|stated|mentioned|added|noted)|(?:is|are|was|were)\s(?:also\s)?
    (?:stated|mentioned|named|specified|noted|attached|enclosed))\b""",
    re.VERBOSE | re.IGNORECASE,
)
NUMBER = re.compile(r"\d[\d.,/-]*\d|\d")
NAMED = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}\b")


def invented(request: JudgeRequest, found: Sequence[Sentence]) -> list[str]:
    """Quotes, numbers and names that occur nowhere; sentences mostly of words from nowhere."""
    origin = source(request)
    known = plain_stems(origin) | REASONING
    said = plain_stems(_asked(request)) | REASONING
    notes = []
    for sentence in found:
        claim = match["what"] if (match := ATTRIBUTED.search(sentence.text)) else sentence.text
        if (match or REPORTED.search(sentence.text)) and _foreign(claim, said):
            notes.append(f"'{claim.strip()}' is not what the request says.")
        for match in QUOTED.finditer(sentence.text):
            quote = next(part for part in match.groups() if part)
            if len(plain_stems(quote) - plain_stems(origin)) > 0.34 * len(plain_stems(quote)):
                notes.append(f"'{quote}' is quoted but said nowhere.")
        digits = [one for one in NUMBER.findall(sentence.text) if len(one) > 1 and one not in origin]
        strange = plain_stems(sentence.text) - known
        names = [one for one in NAMED.findall(sentence.text) if one.casefold() not in origin.casefold()]
        if digits:
            notes.append(f"'{digits[0]}' is said neither by the request nor by rule or tools.")
        elif len(strange) >= _allowed(sentence, names):
            notes.append(f"'{' '.join(sorted(strange))}' has no ground in request, rule or tools.")
    return notes[:2]


def _allowed(sentence: Sentence, names: Sequence[str]) -> float:
    """How many words from nowhere a sentence may hold: a claim on the request or a tool fewer than a turn of phrase."""
    claim = CLAIM.search(sentence.text) is not None or bool(sentence.tools)
    share = 0.4 if claim else 0.5
    return max(2 if names else 3, share * len(sentence.said))


def _foreign(statement: str, said: frozenset[str]) -> bool:
    content = plain_stems(statement) - REASONING
    return len(content - said) > 0.5 * len(content)


def _asked(request: JudgeRequest) -> str:
    """The request's words and those of the answer's cases, which may paraphrase it."""
    parts = [request.query]
    if request.rule:
        for case in cases(request.rule, by_name(request.pool)):
            if case.clause.route_to in request.answer:
                parts += [case.clause.when, *case.clause.signals]
    return " ".join(parts)


def source(request: JudgeRequest) -> str:
    """Everything a trace may draw on, as one text."""
    known = by_name(request.pool)
    named = [tool for tool in request.pool if tool.name in request.trace or tool.name in request.answer]
    parts = [request.query, *(f"{tool.name} {tool.description}" for tool in named)]
    if request.rule:
        parts += [request.rule.text, request.rule.code.replace("_", " ")]
        parts += [
            f"{case.clause.when} {' '.join(case.clause.signals)}" for case in cases(request.rule, known)
        ]
    return " ".join(parts)
