"""A trace as sentences, with what each names: tools, the rule, and the tools it is set against."""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from synthesis.core.judge_stems import stems
from synthesis.core.names import SENTENCE_END
from synthesis.core.queries import JudgeRequest
from synthesis.core.readings import HOLE_MARKS

AGAINST = re.compile(
    r"\b(?:forbid\w*|exclud\w*|bans?|prohibit\w*|refus\w*|rul\w+\sout|never|not)\s(?:(?:the|use|of|to)\s)?⟦(\d+)⟧",
    re.IGNORECASE,
)


MARK = re.compile(r"⟦(\d+)⟧")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence with its tool and service names and the rule's code taken out.

    `against`: the tools it is set against; `said`: the stems of its words.
    """

    text: str
    tools: frozenset[str]
    cites: bool
    against: frozenset[str]
    said: frozenset[str]


def sentences(request: JudgeRequest) -> list[Sentence]:
    tools = frozenset({tool.name for tool in request.pool} | set(request.answer))
    code = request.rule.code if request.rule else ""
    text, by_number = _marked(request.trace, tools | {name.partition("/")[0] for name in tools} | {code})
    made = []
    for part in SENTENCE_END.split(text):
        held = [by_number[number] for number in MARK.findall(part)]
        against = frozenset(by_number[number] for number in AGAINST.findall(part))
        if part.strip():
            bare = MARK.sub("·", part)
            made.append(Sentence(bare, tools.intersection(held), code in held, against, stems(bare)))
    return made


def _marked(text: str, names: Set[str]) -> tuple[str, dict[str, str]]:
    """The text with each name as ⟦its number⟧, and the names by number; the longest name at each place."""
    text = text.translate(HOLE_MARKS)
    made: list[str] = []
    by_number: dict[str, str] = {}
    read = 0
    for start, end in sorted(_places(text, names), key=lambda place: (place[0], -place[1])):
        if start >= read:
            number = str(len(by_number))
            by_number[number] = text[start:end]
            made += [text[read:start], f"⟦{number}⟧"]
            read = end
    return "".join([*made, text[read:]]), by_number


def _places(text: str, names: Set[str]) -> Iterator[tuple[int, int]]:
    """Where a name stands that is no part of a longer one."""
    for name in names:
        at = text.find(name) if name else -1
        while at >= 0:
            end = at + len(name)
            if not (_goes_on(text[at - 1 : at]) or _goes_on(text[end : end + 1])):
                yield at, end
            at = text.find(name, at + 1)


def _goes_on(char: str) -> bool:
    return char.isalnum() or char in {"_", "/"}
