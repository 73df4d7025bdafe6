"""The clauses of a rule's text: what it says of its tools, statement by statement, in the expert's own words.

In: a rule's content. Out: `TextClause`s in the order of the text. They are what a model decides between and what people
are shown as the reason. The clauses of the exchange format (`RuleContent.clauses`) are another thing: cases in fields,
which an expert may write beside the text.
"""

import re
import string
from dataclasses import dataclass

from rules.core.reading import Stance, read_statements
from rules.core.rule import RuleContent
from trace_site.lib.letters import sentence_end

LEADING = frozenset({"use", "tells", "limits"})  # stances; the others lead away from their tools
EDGES = f"{string.whitespace},;:"
SENTENCE_END = sentence_end(r"[.;!?](?=\s)|\n")
# `Search them with A`, `They go to A`, `If it is one, use A`: the sentence before says of what
POINTS_BACK = re.compile(r"\W*(?:\w+\s+)?(?:they|them|those|these|it)\b", re.I)


@dataclass(frozen=True, slots=True)
class TextClause:
    """`text` stands in the rule's text, letter by letter."""

    text: str
    stance: Stance
    tools: tuple[str, ...]

    @property
    def leads(self) -> bool:
        return self.stance in LEADING


def text_clauses(content: RuleContent) -> list[TextClause]:
    """What the text says twice in the same words is one clause."""
    found: list[TextClause] = []
    said = 0  # where the statement before ends
    for one in read_statements(content.text, content.tools):
        quote = content.text[_opening(content.text, said, one.start) : one.end].strip(EDGES)
        found.append(TextClause(quote, one.stance, tuple(dict.fromkeys(one.tools))))
        said = one.end
    return list(dict.fromkeys(found))


def _opening(text: str, said: int, start: int) -> int:
    """Where the quote of a statement begins: with the sentence before it where that names no tool and a colon or a
    pronoun ties the two together."""
    before = text[said:start].rstrip()
    if not before.endswith(":") and not POINTS_BACK.match(text, start):
        return start
    return said + max((end.end() for end in SENTENCE_END.finditer(before)), default=0)
