"""The embedding baseline: tools ranked by the cosine between a query and what the catalog stores.

In: normalised query rows, tool rows in the order of their names. Out: for every query the k best names with their
cosines; ties go to the name that sorts first.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]
QUERIES_AT_ONCE = 512


def ranked(queries: Rows, tools: Rows, names: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
    """`names` must be sorted: then position breaks ties."""
    k = min(k, len(names))
    found: list[list[tuple[str, float]]] = []
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        scores = queries[start : start + QUERIES_AT_ONCE] @ tools.T
        for row in scores:
            # every tool as good as the k-th stays in the race, so that ties are settled by name
            threshold = np.partition(row, len(row) - k)[len(row) - k]
            places = np.flatnonzero(row >= threshold)
            best = places[np.argsort(-row[places], kind="stable")][:k]
            found.append([(names[place], round(float(row[place]), 6)) for place in best])
    return found
