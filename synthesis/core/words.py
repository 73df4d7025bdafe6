"""Text as normalised words, and which texts are near-duplicates.

In: any text. Out: case-folded words (camelCase, underscores and punctuation split), and an exact index of
near-duplicates by Jaccard similarity (prefix filtering: only texts that share early words are compared).
"""

from functools import lru_cache

import regex

from catalog.core.near_duplicates import SetIndex
from catalog.core.words import stem
from trace_site.lib.letters import entered, folded, split_words

CAMEL = regex.compile(r"(?<=[\p{Ll}\p{Nd}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})")
_SMALL_WORDS = """a about all also am an and any are as at be because been being but by can could d did
    do does for from get give got had has have he her here hi hello him his how i if in into is it its
    just let like ll m may me
    my need of off on one only or our out over please pls re s see she should show so some t
    tell than thanks
    thank that the their them then there these they this those to up us ve via want wants was we were
    what when where
    which who why will with within would you your"""
STOP = frozenset(_SMALL_WORDS.split())


@lru_cache(maxsize=200_000)
def words(text: str) -> tuple[str, ...]:
    """The normalised words of a text, in order: `GetPay_slip v2` -> (get, pay, slip, v2)."""
    parted = text if text[1:].islower() else CAMEL.sub(" ", entered(text))
    return tuple(map(folded, split_words(parted, short_forms=True)))


@lru_cache(maxsize=20_000)
def spaced(text: str) -> str:
    """The words with single spaces, padded, so that ` a b ` finds whole words only."""
    return f" {' '.join(words(text))} "


@lru_cache(maxsize=100_000)
def content_stems(text: str) -> frozenset[str]:
    """What a text is about: stems of its words without the small ones."""
    return frozenset(map(stem, set(words(text)) - STOP))


class NearDuplicates:
    """Finds the texts already added whose word sets overlap a new one by at least `threshold` (Jaccard), exactly."""

    def __init__(self, threshold: float = 0.8) -> None:
        self._texts: list[str] = []
        self._gone: set[int] = set()
        # long words first makes the lists short
        self._sets = SetIndex[int](
            (),
            threshold,
            rank=lambda word: -len(word),
            joint=lambda size: 3 if size <= 60 else 2 if size <= 200 else 1,
        )

    def add(self, text: str) -> None:
        self._sets.add(len(self._texts), frozenset(words(text)))
        self._texts.append(text)

    def discard(self, text: str) -> None:
        """Take back the text added last, if it was added: what was given up stands in nobody's way."""
        for number in range(len(self._texts) - 1, -1, -1):
            if self._texts[number] == text and number not in self._gone:
                self._gone.add(number)
                return

    def find(self, text: str) -> str | None:
        """An added text that is a near-duplicate, or None."""
        near = (number for number, _ in self._sets.find(frozenset(words(text))) if number not in self._gone)
        return next((self._texts[number] for number in near), None)
