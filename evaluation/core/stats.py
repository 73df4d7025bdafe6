"""Uncertainty of one run's means: the percentile bootstrap of the tables of results. Two runs: `core.paired`.

In: one score a query. Out: an interval that carries n, the number of draws and the seed it was made with.
A draw resamples queries; it is held as how often each query was drawn, so all metrics share one matrix product.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

DRAWS = 1000
LEVEL = 0.95
ROWS_A_BLOCK = 100  # draws held in memory at once
Table = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    mean: float
    low: float
    high: float
    n: int
    draws: int
    seed: int
    level: float = LEVEL

    def as_dict(self) -> dict[str, float | int]:
        return asdict(self)


def interval_words(stored: Mapping[str, float]) -> str:
    return f"{stored['mean']:.3f} [{stored['low']:.3f}, {stored['high']:.3f}]"


def count_blocks(n: int, draws: int, seed: int) -> Iterator[Table]:
    """How often each of the n queries occurs in each draw, some draws at a time."""
    generator = np.random.default_rng(seed)
    for start in range(0, draws, ROWS_A_BLOCK):
        rows = min(ROWS_A_BLOCK, draws - start)
        chosen = generator.integers(0, n, size=(rows, n)) + np.arange(rows)[:, None] * n
        yield np.bincount(chosen.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def resampled_means(scores: Table, draws: int, seed: int) -> Table:
    """(draws, metrics): the mean of every metric over every draw; `scores` is (queries, metrics)."""
    n = scores.shape[0]
    return np.concatenate([counts @ scores / n for counts in count_blocks(n, draws, seed)])


def bootstrap_table(
    scores: Sequence[Sequence[float]] | Table, *, seed: int = 0, draws: int = DRAWS
) -> list[Interval]:
    """One interval per column of (queries, metrics)."""
    table = np.asarray(scores, dtype=np.float64)
    assert table.ndim == 2 and len(table), "needs one row of scores per query"
    return _intervals(table, resampled_means(table, draws, seed), seed)


def _intervals(table: Table, means: Table, seed: int) -> list[Interval]:
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    columns = zip(table.mean(axis=0), low, high, strict=True)
    return [Interval(float(m), float(a), float(b), len(table), len(means), seed) for m, a, b in columns]


def bootstrap(scores: Sequence[float], *, seed: int = 0, draws: int = DRAWS) -> Interval:
    return bootstrap_table([[score] for score in scores], seed=seed, draws=draws)[0]
