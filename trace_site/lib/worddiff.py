"""What differs between two look-alike texts, word by word.

In: two texts. Out: each as parts (words and spaces kept), those that the other lacks marked.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter

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
    steps = [(kind != "equal", slice(a0, a1), slice(b0, b1)) for kind, a0, a1, b0, b1 in opcodes(*keys)]
    return (
        _parts(("".join(ours[left]), differs) for differs, left, _ in steps),
        _parts(("".join(theirs[right]), differs) for differs, _, right in steps),
    )


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


def _parts(pieces: Iterable[tuple[str, bool]]) -> list[Part]:
    """Neighbours of one kind are joined; the spaces around a difference are not part of it."""
    split: list[tuple[str, bool]] = []
    for text, differs in pieces:
        inner = text.strip() if differs else ""
        head, _, tail = text.partition(inner) if inner else (text, "", "")
        split += [(head, False), (inner, True), (tail, False)]
    alike = groupby((piece for piece in split if piece[0]), key=itemgetter(1))
    return [Part("".join(text for text, _ in group), differs) for differs, group in alike]
