"""Words as the judge compares them: stems of content words, negated ones apart, weighed by how rare they are."""

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from synthesis.core.wordings import Wording
from synthesis.core.words import content_stems

NOT = Wording(
    r"\b(?:no|not|never|without|isn't|aren't|wasn't|cannot|nor)\s+(?:an?\s|the\s|yet\s|any\s)?(\w+)"
)


@lru_cache(maxsize=50_000)
def stems(text: str) -> frozenset[str]:
    """Content words by their first six letters; long numbers but years are one kind, negated words are other words."""
    refused = plain_stems(" ".join(match.group(1) for match in NOT.finditer(text)))
    if not refused:
        return plain_stems(text)
    return plain_stems(NOT.remove(text)) | {f"no {word}" for word in refused}


@lru_cache(maxsize=50_000)
def plain_stems(text: str) -> frozenset[str]:
    return frozenset(
        "0000" if len(one) > 3 and one.isdigit() and not "1900" <= one[:4] <= "2099" else one[:6]
        for one in content_stems(text)
        if len(one) > 1
    )


def rarity(sets: Iterable[frozenset[str]]) -> dict[str, float]:
    """Words by how few of the sets hold them; a word that all hold decides nothing.

    Sums over these weights use fsum: sets are walked in another order in every process, and a plain sum would
    differ in its last bit, which is enough to decide a tie otherwise.
    """
    groups = list(sets)
    counts = Counter(word for group in groups for word in group)
    return {word: math.log((len(groups) + 0.5) / count) for word, count in counts.items()}
