"""A trace as sentences, with what each names: tools, the rule, and the tools it is set against."""

import re
from dataclasses import dataclass

from synthesis.core.judge_label import stems
from synthesis.core.names import SENTENCE_END
from synthesis.core.queries import JudgeRequest

AGAINST = re.compile(
    r"\b(?:forbid\w*|exclud\w*|bans?|prohibit\w*|refus\w*|rul\w+\sout|never|not)\s(?:(?:the|use|of|to)\s)?⟦(\w+)⟧",
    re.IGNORECASE,
)


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
    text = request.trace
    tools = {tool.name for tool in request.pool} | set(request.answer)
    names = sorted(tools | {name.partition("/")[0] for name in tools}, key=lambda name: (-len(name), name))
    for number, name in enumerate(names):
        text = re.sub(rf"(?<![\w/]){re.escape(name)}(?![\w/])", f"⟦{number}⟧", text)
    if request.rule:
        text = re.sub(rf"\b{re.escape(request.rule.code)}\b", "⟦r⟧", text)
    made = []
    for part in SENTENCE_END.split(text):
        held = [names[int(one)] for one in re.findall(r"⟦(\d+)⟧", part)]
        barred = {names[int(one)] for one in AGAINST.findall(part) if one != "r"}
        if part.strip():
            clean = re.sub(r"⟦\w+⟧", "·", part)
            made.append(
                Sentence(clean, frozenset(tools.intersection(held)), "⟦r⟧" in part, frozenset(barred))
            )
    return made
