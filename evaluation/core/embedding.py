"""The baseline: tools by the cosine of their embedding with the query's."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

QUERIES_AT_ONCE = 512
EmbeddingRows = npt.NDArray[np.float32]


def ranked(
    queries: EmbeddingRows, tools: EmbeddingRows, names: Sequence[str], k: int
) -> list[list[tuple[str, float]]]:
    """For every query the k best names with their cosines. Rows are normalised, and `names` is sorted: ties go to the
    name that sorts first."""
    k = min(k, len(names))
    if not k:
        return [[] for _ in queries]
    found: list[list[tuple[str, float]]] = []
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        for row in queries[start : start + QUERIES_AT_ONCE] @ tools.T:
            # every tool as good as the k-th stays in the race, so that ties are settled by name
            threshold = np.partition(row, len(row) - k)[len(row) - k]
            places = np.flatnonzero(row >= threshold)
            best = places[np.argsort(-row[places], kind="stable")][:k]
            found.append([(names[place], round(float(row[place]), 6)) for place in best])
    return found
