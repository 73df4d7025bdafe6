"""A trace cut into pieces a page can colour: tool mentions, rule codes, and the sentence that commits.

In: the trace, the tool names that may stand in it, the answer, the rules' codes. Out: spans, in reading order.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from synthesis.core.names import ToolNames, last_sentence

Mark = tuple[int, int, str]  # start, end, kind


@dataclass(frozen=True, slots=True)
class Span:
    kind: str  # text | tool | rule
    text: str
    chosen: bool = False  # a mention of a tool of the answer
    final: bool = False  # inside the committing sentence


def trace_spans(
    text: str, names: Iterable[str], answer: Collection[str], codes: Iterable[str] = ()
) -> list[Span]:
    """The whole trace as spans; joined again they give the trace back."""
    known = set(names) | set(answer)
    mentions = ToolNames(known).mentions(text) if text and known else []
    marks = [(start, end, "tool") for start, end, _ in mentions]
    marks += [(start, end, "rule") for start, end in code_places(text, codes)]
    return spans_between(text, sorted(marks), answer, last_sentence(text, mentions))


def code_places(text: str, codes: Iterable[str]) -> list[tuple[int, int]]:
    """Where rule codes stand as whole words."""
    known = [re.escape(code) for code in sorted(codes, key=len, reverse=True)]
    if not known:
        return []
    return [match.span() for match in re.finditer(rf"(?<!\w)(?:{'|'.join(known)})(?!\w)", text)]


def spans_between(text: str, marks: Sequence[Mark], answer: Collection[str], final_at: int) -> list[Span]:
    spans: list[Span] = []
    place = 0
    for start, end, kind in marks:
        if start < place:
            continue
        spans += plain(text, place, start, final_at)
        spans.append(Span(kind, text[start:end], chosen=text[start:end] in answer, final=start >= final_at))
        place = end
    return spans + plain(text, place, len(text), final_at)


def plain(text: str, start: int, end: int, final_at: int) -> list[Span]:
    """Text between two marks, cut where the committing sentence starts."""
    cut = min(max(final_at, start), end)
    pieces = ((text[start:cut], False), (text[cut:end], True))
    return [Span("text", piece, final=final) for piece, final in pieces if piece]
