"""A trace as sentences, with what each names: tools, the rule, and the tools it is set against."""

import re
from dataclasses import dataclass
from functools import lru_cache

from synthesis.core.judge_label import stems
from synthesis.core.names import SENTENCE_END
from synthesis.core.queries import JudgeRequest

AGAINST = re.compile(
    r"\b(?:forbid\w*|exclud\w*|bans?|prohibit\w*|refus\w*|rul\w+\sout|never|not)\s(?:(?:the|use|of|to)\s)?⟦(\d+)⟧",
    re.IGNORECASE,
)


MARK = re.compile(r"⟦(\d+)⟧")


@dataclass(frozen=True)
class Sentence:
    """One sentence with its tool and service names and the rule's code taken out, and the tools it is set against."""

    text: str
    tools: frozenset[str]
    cites: bool
    against: frozenset[str]

    @property
    def said(self) -> frozenset[str]:
        return stems(self.text)


def sentences(request: JudgeRequest) -> list[Sentence]:
    tools = frozenset({tool.name for tool in request.pool} | set(request.answer))
    code = request.rule.code if request.rule else ""
    names, pattern = _named(tools, code)
    text = pattern.sub(lambda found: f"⟦{names[found.group()]}⟧", request.trace)
    by_number = {number: name for name, number in names.items()}
    made = []
    for part in SENTENCE_END.split(text):
        held = [by_number[number] for number in MARK.findall(part)]
        against = frozenset(by_number[number] for number in AGAINST.findall(part))
        if part.strip():
            made.append(Sentence(MARK.sub("·", part), tools.intersection(held), code in held, against))
    return made


@lru_cache(maxsize=512)
def _named(tools: frozenset[str], code: str) -> tuple[dict[str, str], re.Pattern[str]]:
    """Names of tools and services and the rule's code, numbered, and one pattern that finds them, longest first."""
    known = tools | {name.partition("/")[0] for name in tools} | ({code} if code else set())
    ordered = sorted(known, key=lambda name: (-len(name), name))
    pattern = re.compile(rf"(?<![\w/])(?:{'|'.join(map(re.escape, ordered))})(?![\w/])")
    return {name: str(number) for number, name in enumerate(ordered)}, pattern
