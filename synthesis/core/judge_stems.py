"""Words as the judge compares them: by their first letters, negated ones apart, weighed by how rare they are."""

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from synthesis.core.wordings import Wording
from synthesis.core.words import STOP, stem, words

NOT = Wording(
    r"\b(?:no|not|never|without|isn't|aren't|wasn't|cannot|nor)\s+(?:an?\s|the\s|yet\s|any\s)?(\w+)"
)
KEPT = frozenset(["intern", "extern", "genera"])  # stems whose longer words mean something else


@lru_cache(maxsize=50_000)
def stems(text: str) -> frozenset[str]:
    """Content words by their first letters; long numbers are one kind of word, negated words are other words."""
    return _negated(text, plain_stems(text))


@lru_cache(maxsize=20_000)
def tool_stems(name: str, description: str) -> frozenset[str]:
    """The stems of a tool's name and description."""
    return _negated(f"{name} {description}", plain_stems(name) | plain_stems(description))


def _negated(text: str, found: frozenset[str]) -> frozenset[str]:
    """`found`, the stems of the text, with the words set apart where they are negated; elsewhere they count."""
    matches = list(NOT.finditer(text))
    if not matches:
        return found
    rest = text
    for match in reversed(matches):
        rest = f"{rest[: match.start(1)]} {rest[match.end(1) :]}"
    refused = plain_stems(" ".join(match.group(1) for match in matches))
    return plain_stems(rest) | {f"no {word}" for word in refused}


@lru_cache(maxsize=50_000)
def plain_stems(text: str) -> frozenset[str]:
    return frozenset(map(_short, set(words(text)) - STOP))


@lru_cache(maxsize=100_000)
def _short(word: str) -> str:
    root = stem(word)
    if root.isdigit():
        return root if len(root) < 4 or 1900 <= int(root) <= 2099 else "0000"
    return root[:8] if root[:6] in KEPT else root[:6]


def rarity(sets: Iterable[frozenset[str]]) -> dict[str, float]:
    """Words by how few of the sets hold them; a word that all hold decides nothing.

    Sums over these weights use fsum: sets are walked in another order in every process, and a plain sum would
    differ in its last bit, which is enough to decide a tie otherwise.
    """
    groups = list(sets)
    counts = Counter(word for group in groups for word in group)
    return {word: math.log((len(groups) + 0.5) / count) for word, count in counts.items()}
