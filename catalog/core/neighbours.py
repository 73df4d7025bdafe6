"""H_K(t), exactly: the K nearest tools by cosine, best first, ties by name (paper, appendix B).

In: normalised rows in the order of the names. Out: positions and cosines, row by row. Cosines count to six
decimals, so that equal texts tie whatever order the hardware adds in.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

BLOCK = 512
SCALE = 1_000_000

Rows = npt.NDArray[np.float32]


def top_k(
    rows: Rows, k: int, progress: Callable[[int], None] = lambda done: None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """(positions, cosines), each n x min(k, n - 1). The rows must be sorted by name: the order breaks ties."""
    count = len(rows)
    k = min(k, count - 1)
    positions = np.zeros((count, max(k, 0)), dtype=np.int64)
    cosines = np.zeros((count, max(k, 0)), dtype=np.float64)
    if k < 1:
        return positions, cosines
    # earlier names win ties: the position is the low part of one integer key, so no two keys are equal
    order = count - 1 - np.arange(count, dtype=np.int64)
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        keys = np.rint((rows[start:stop] @ rows.T) * SCALE).astype(np.int64) * count + order
        keys[np.arange(stop - start), np.arange(start, stop)] = np.iinfo(np.int64).min
        best = np.argpartition(keys, count - k, axis=1)[:, count - k :]
        chosen = np.take_along_axis(keys, best, axis=1)
        ranks = np.argsort(-chosen, axis=1)
        positions[start:stop] = np.take_along_axis(best, ranks, axis=1)
        cosines[start:stop] = np.take_along_axis(chosen, ranks, axis=1) // count / SCALE
        progress(stop)
    return positions, cosines
