"""H_K(t), exactly: the K nearest tools by cosine, best first, ties by name (paper, appendix B).

In: normalised rows sorted by name, and the lists that are known from before. Out: positions and cosines. After an edit
only what it can have changed is computed, and the result is the one that computing everything gives.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

BLOCK = 512  # rows of cosines at a time
SCALE = 1_000_000  # cosines count to six decimals: equal texts tie whatever order the hardware adds in

Rows = npt.NDArray[np.float32]
Lists = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
Known = Mapping[int, tuple[Sequence[int], Sequence[float]]]


def top_k(
    rows: Rows, k: int, progress: Callable[[int], None] = lambda done: None, known: Known | None = None
) -> Lists:
    """(positions, cosines), each n x min(k, n - 1).

    `known`: the rows that have not changed, each with its list from before, less the neighbours that changed or went.
    A list that still is as long as it must be needs only the cosines to the other rows.
    """
    count = len(rows)
    k = min(k, count - 1)
    positions = np.zeros((count, max(k, 0)), dtype=np.int64)
    cosines = np.zeros((count, max(k, 0)), dtype=np.float64)
    if k < 1:
        return positions, cosines
    # a sum in another order differs in the 16th digit, which no rounding shows
    exact = rows.astype(np.float64)
    known = known if known and len(known) > count // 2 else {}
    width = min(k, len(known) - 1)
    kept = [place for place, (others, _) in known.items() if len(others) >= width]
    # earlier names win ties: the position is the low part of one integer key, so no two keys are equal
    order = count - 1 - np.arange(count, dtype=np.int64)
    anew = np.array(sorted(set(range(count)).difference(kept)), dtype=np.int64)
    done = 0
    for start in range(0, len(anew), BLOCK):
        chosen = anew[start : start + BLOCK]
        keys = np.rint((exact[chosen] @ exact.T) * SCALE).astype(np.int64) * count + order
        keys[np.arange(len(chosen)), chosen] = np.iinfo(np.int64).min
        best = np.argpartition(keys, count - k, axis=1)[:, count - k :]
        _keep(positions, cosines, chosen, np.take_along_axis(keys, best, axis=1), count)
        progress(done := done + len(chosen))
    if kept:
        fresh = np.array(sorted(set(range(count)).difference(known)), dtype=np.int64)
        before = np.array([known[place][0][:width] for place in kept], dtype=np.int64).reshape(-1, width)
        scores = np.array([known[place][1][:width] for place in kept], dtype=np.float64).reshape(-1, width)
        old = np.rint(scores * SCALE).astype(np.int64) * count + order[before]
        new = np.rint((exact[kept] @ exact[fresh].T) * SCALE).astype(np.int64) * count + order[fresh]
        _keep(positions, cosines, kept, np.concatenate([old, new], axis=1), count)
        progress(count)
    return positions, cosines


def _keep(
    positions: npt.NDArray[np.int64],
    cosines: npt.NDArray[np.float64],
    rows: Sequence[int] | npt.NDArray[np.int64],
    keys: npt.NDArray[np.int64],
    count: int,
) -> None:
    """The best of `keys` become the lists of `rows`."""
    ranked = -np.sort(-keys, axis=1)[:, : positions.shape[1]]
    positions[rows] = count - 1 - ranked % count
    cosines[rows] = ranked // count / SCALE
