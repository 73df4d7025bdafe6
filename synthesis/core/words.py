"""Text as normalised words, and which texts are near-duplicates.

In: any text. Out: case-folded words (camelCase, underscores and punctuation split), two-word variety, and an exact
index of near-duplicates by Jaccard similarity (prefix filtering: only texts that share early words are compared).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from catalog.core.near_duplicates import SetIndex
from catalog.core.words import stem

CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
WORD = re.compile(r"[^\W_]+(?:'[a-z]+)?")
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
    parted = text if text[1:].islower() else CAMEL.sub(" ", text)
    return tuple(" ".join(WORD.findall(parted)).casefold().split())


@lru_cache(maxsize=20_000)
def spaced(text: str) -> str:
    """The words with single spaces, padded, so that ` a b ` finds whole words only."""
    return f" {' '.join(words(text))} "


@lru_cache(maxsize=100_000)
def content_stems(text: str) -> frozenset[str]:
    """What a text is about: stems of its words without the small ones."""
    return frozenset(map(stem, set(words(text)) - STOP))


def distinct_2(texts: Iterable[str]) -> float:
    """Distinct word pairs over all word pairs: 1.0 means nothing is ever said twice."""
    pairs = Counter(pair for text in texts for pair in zip(words(text), words(text)[1:], strict=False))
    return len(pairs) / max(1, sum(pairs.values()))


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


def near_duplicate_rate(texts: Sequence[str], threshold: float = 0.8) -> float:
    """The share of texts that are near-duplicates of an earlier one."""
    index = NearDuplicates(threshold)
    hits = 0
    for text in texts:
        hits += index.find(text) is not None
        index.add(text)
    return hits / max(1, len(texts))


def word_overlap(queries: Iterable[str], corpus: Iterable[str]) -> dict[str, float]:
    """How much of the queries' content vocabulary the corpus already says, and how many it repeats (near) whole.

    words: share of content-word occurrences seen in the corpus; pairs: the same for word pairs;
    best: mean over queries of the highest Jaccard similarity with one corpus text; near: share at or
    above 0.8.
    """
    corpus = list(corpus)
    texts = [frozenset(words(text)) for text in corpus]
    asked = [words(query) for query in queries]
    vocabulary = {word for text in texts for word in text}
    pairs = {pair for text in corpus for pair in zip(words(text), words(text)[1:], strict=False)}
    content = [word for query in asked for word in query if word not in STOP]
    asked_pairs = [pair for query in asked for pair in zip(query, query[1:], strict=False)]
    best = [max((len(q & t) / len(q | t) for t in texts), default=0.0) for q in map(frozenset, asked)]
    return {
        "queries": float(len(asked)),
        "words": sum(word in vocabulary for word in content) / max(1, len(content)),
        "pairs": sum(pair in pairs for pair in asked_pairs) / max(1, len(asked_pairs)),
        "best": sum(best) / max(1, len(best)),
        "near": sum(score >= 0.8 for score in best) / max(1, len(best)),
    }
