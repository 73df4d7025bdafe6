"""How varied texts are, and how much of them another set of texts already says."""

from collections import Counter
from collections.abc import Iterable, Sequence

from synthesis.core.words import STOP, NearDuplicates, words


def distinct_2(texts: Iterable[str]) -> float:
    """Distinct word pairs over all word pairs: 1.0 means nothing is ever said twice."""
    pairs = Counter(pair for text in texts for pair in zip(words(text), words(text)[1:], strict=False))
    return len(pairs) / max(1, sum(pairs.values()))


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
