"""What differs between two look-alike texts, word by word.

In: two texts. Out: each as parts (words and spaces kept), those that the other lacks marked.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from trace_site.lib.letters import WITH_BLANKS, folded

MOST_PAIRS = 200_000  # equal words of two texts beyond which comparing them would take seconds


@dataclass(frozen=True, slots=True)
class Part:
    text: str
    differs: bool


def word_diff(left: str, right: str) -> tuple[list[Part], list[Part]]:
    """Both texts as parts; joined, the parts give the text back exactly."""
    ours, theirs = WITH_BLANKS.findall(left), WITH_BLANKS.findall(right)
    keys = [folded(word.strip()) for word in ours], [folded(word.strip()) for word in theirs]
    left_parts: list[Part] = []
    right_parts: list[Part] = []
    for kind, a0, a1, b0, b1 in opcodes(*keys):
        _append(left_parts, "".join(ours[a0:a1]), kind != "equal")
        _append(right_parts, "".join(theirs[b0:b1]), kind != "equal")
    return left_parts, right_parts


def opcodes(ours: Sequence[str], theirs: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """difflib's; two long texts that repeat few words differ as a whole between their equal ends."""
    left, right = Counter(ours), Counter(theirs)
    if sum(count * right[word] for word, count in left.items()) <= MOST_PAIRS:
        return SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes()
    shorter = min(len(ours), len(theirs))
    head = next((at for at in range(shorter) if ours[at] != theirs[at]), shorter)
    tail = next((at for at in range(shorter - head) if ours[-1 - at] != theirs[-1 - at]), shorter - head)
    a_end, b_end = len(ours) - tail, len(theirs) - tail
    return [
        ("equal", 0, head, 0, head),
        ("replace", head, a_end, head, b_end),
        ("equal", a_end, len(ours), b_end, len(theirs)),
    ]


def _append(parts: list[Part], text: str, differs: bool) -> None:
    """Add a piece; the spaces around a difference are not part of it."""
    inner = text.strip()
    if not differs or not inner:
        _join(parts, text, False)
        return
    head, _, tail = text.partition(inner)
    _join(parts, head, False)
    _join(parts, inner, True)
    _join(parts, tail, False)


def _join(parts: list[Part], text: str, differs: bool) -> None:
    if text and parts and parts[-1].differs == differs:
        parts[-1] = Part(parts[-1].text + text, differs)
    elif text:
        parts.append(Part(text, differs))
