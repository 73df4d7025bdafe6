"""How far readers agree beyond chance, and the judge with them: Cohen's kappa, Krippendorff's alpha, and intervals by
percentile bootstrap.

In: counts, never rows: how many units had which pair of answers, or which numbers of answers. A bootstrap draw is one
multinomial over those counts, so it costs the same for 50 units and for 200,000. Sources: Cohen (1960), Educational and
Psychological Measurement 20; Krippendorff (2011), Computing Krippendorff's alpha-reliability; for where alpha is enough
Krippendorff (2004), Content Analysis, p. 241.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

DRAWS = 1000
SEED = 0
FEWEST = 20  # units; below, perfect agreement has no spread to draw from, and a verdict would be luck
RELIABLE, TENTATIVE = 0.8, 2 / 3
MOST_UNDEFINED = 0.05  # of the draws
Table = npt.NDArray[np.float64]
Statistic = Callable[[Table], Table]  # (draws, cells) -> (draws,), NaN where undefined


@dataclass(frozen=True, slots=True)
class Estimate:
    """A coefficient over n units with its 95 % interval; without a value `why` says what is missing."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    draws: int = DRAWS
    seed: int = SEED
    undefined: int = 0  # draws that had no value
    why: str = ""

    @property
    def verdict(self) -> str:
        """reliable, tentative, unreliable, or cannot tell: too few units, or an interval over a bound."""
        if self.value is None or self.low is None or self.high is None:
            return "cannot tell"
        if self.n < FEWEST or self.undefined > MOST_UNDEFINED * self.draws:
            return "cannot tell"
        if self.low >= RELIABLE:
            return "reliable"
        if self.low >= TENTATIVE:
            return "tentative"
        return "unreliable" if self.high < TENTATIVE else "cannot tell"

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def cohen_kappa(
    table: Sequence[Sequence[float]], *, collapse: Sequence[int] = (), draws: int = DRAWS, seed: int = SEED
) -> Estimate:
    """`table[i][j]`: units the one reader put into category i and the other into j.

    collapse: the category each category becomes, such as (0, 0, 1) for edit = approve.
    """
    counts = np.asarray(table, dtype=np.float64)
    size = len(counts)
    to = tuple(collapse) or tuple(range(size))

    def statistic(cells: Table) -> Table:
        square = cells.reshape(len(cells), size, size)
        small = np.zeros((len(cells), max(to) + 1, max(to) + 1))
        for i in range(size):
            for j in range(size):
                small[:, to[i], to[j]] += square[:, i, j]
        return kappas(small)

    return _estimate(counts.reshape(-1), statistic, "kappa", draws, seed)


def kappas(tables: Table) -> Table:
    """(draws, k, k) -> (draws,): (observed - expected) / (1 - expected); NaN where expected is 1."""
    n = tables.sum(axis=(1, 2))
    observed = np.trace(tables, axis1=1, axis2=2) / n
    expected = (tables.sum(axis=2) * tables.sum(axis=1)).sum(axis=1) / n**2
    return _ratio(observed - expected, 1 - expected)


def krippendorff_alpha(
    patterns: Mapping[tuple[int, ...], int], *, draws: int = DRAWS, seed: int = SEED
) -> Estimate:
    """Nominal alpha. `patterns[(2, 0, 1)] = 7`: seven units with two readings of the first category and one of the
    third. Units with fewer than two readings tell nothing about agreement and are left out.
    """
    paired = sorted(kind for kind in patterns if sum(kind) >= 2)
    counts = np.array([patterns[kind] for kind in paired], dtype=np.float64)
    values = np.array(paired, dtype=np.float64).reshape(len(paired), len(next(iter(patterns), ())))
    readings = values.sum(axis=1, keepdims=True)
    unlike = (values * (readings - values) / (readings - 1)).sum(axis=1)  # disagreement inside a unit

    def statistic(cells: Table) -> Table:
        per_category = cells @ values
        n = per_category.sum(axis=1)
        expected = (per_category * (n[:, None] - per_category)).sum(axis=1) / (n - 1)
        return 1 - _ratio(cells @ unlike, expected)

    return _estimate(counts, statistic, "alpha", draws, seed)


def agreeing(table: Sequence[Sequence[int]]) -> tuple[int, int]:
    """(units in one category, all units)."""
    return sum(row[place] for place, row in enumerate(table)), sum(map(sum, table))


def patterns_of(table: Sequence[Sequence[int]]) -> dict[tuple[int, ...], int]:
    """The units of a two-reader table as alpha takes them."""
    found: dict[tuple[int, ...], int] = {}
    for i, row in enumerate(table):
        for j, count in enumerate(row):
            kind = tuple((place == i) + (place == j) for place in range(len(table)))
            found[kind] = found.get(kind, 0) + count
    return {kind: count for kind, count in found.items() if count}


def _estimate(counts: Table, statistic: Statistic, name: str, draws: int, seed: int) -> Estimate:
    n = int(counts.sum())
    if n < 2:
        return Estimate(None, None, None, n, draws, seed, why="fewer than 2 units read twice")
    value = float(statistic(counts[None, :])[0])
    if np.isnan(value):
        why = f"every reading is of one category, so {name} has no value"
        return Estimate(None, None, None, n, draws, seed, why=why)
    drawn = np.random.default_rng(seed).multinomial(n, counts / counts.sum(), size=draws)
    found = statistic(drawn.astype(np.float64))
    kept = found[~np.isnan(found)]
    low, high = np.percentile(kept, [2.5, 97.5]) if len(kept) else (np.nan, np.nan)
    return Estimate(value, float(low), float(high), n, draws, seed, draws - len(kept))


def _ratio(above: Table, below: Table) -> Table:
    """above / below, NaN where below is 0."""
    nothing = np.abs(below) < 1e-12
    return np.where(nothing, np.nan, above / np.where(nothing, 1.0, below))


# A share with its 95 % Wilson interval: how far k of n tells anything.


Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Rate:
    """hits of n; n may be an effective number. Nothing counted: no value, and an interval from 0 to 1."""

    hits: float
    n: float
    value: float | None
    low: float
    high: float


def wilson(hits: float, n: float, z: float = Z95) -> Rate:
    """The score interval of Wilson (1927); 0 <= hits <= n, z: the normal quantile of its two sides."""
    if n <= 0:
        return Rate(0, 0, None, 0.0, 1.0)
    value = hits / n
    spread = z * math.sqrt(value * (1 - value) / n + z**2 / (4 * n**2))
    middle, scale = value + z**2 / (2 * n), 1 + z**2 / n
    low, high = max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
    return Rate(hits, n, value, min(low, value), max(high, value))


# How far the judge can be trusted: people's readings against its verdicts, and the share of samples to read.
#
# What the judge accepts is read in the queue or by batch, what it refuses by a draw, so the readings are not the
# samples: `Reads` carries, beside the numbers read, weights that stand for all samples of the stratum. A raw table says
# what was read; rates and the weighted kappa say what holds for all.

Three = tuple[float, float, float]  # approved as it was, approved after an edit, rejected
TARGET, FLOOR = 0.02, 0.05


@dataclass(frozen=True, slots=True)
class Reads:
    """People's outcomes of what the judge gave one verdict. counts: as read; weights and squares: the sums of each
    reading's weight and squared weight (1 where all is read, N / n where n of N are by lot); population: all samples
    with this verdict, read or not.
    """

    counts: tuple[int, int, int] = (0, 0, 0)
    weights: Three = (0.0, 0.0, 0.0)
    squares: Three = (0.0, 0.0, 0.0)
    population: int = 0

    @property
    def n(self) -> int:
        return sum(self.counts)

    @property
    def effective(self) -> float:
        """Kish's effective number of readings: n when all weights are equal, less when they are not."""
        total = sum(self.squares)
        return min(float(self.n), sum(self.weights) ** 2 / total) if total else 0.0

    def rate(self, *outcomes: int) -> Rate:
        """The weighted share of these outcomes with its Wilson interval over the effective number."""
        whole = sum(self.weights)
        share = sum(self.weights[place] for place in outcomes) / whole if whole else 0.0
        return wilson(share * self.effective, self.effective)


def pooled(strata: Iterable[Reads]) -> Reads:
    """Strata as one: each weighs as many samples as it has, not as many as happen to be read of it.

    A stratum nobody has read in adds to `population` alone: the rates say nothing about it.
    """
    counts, weights, squares, population = [0, 0, 0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 0
    for reads in strata:
        population += reads.population
        whole = sum(reads.weights)
        scale = max(reads.population, reads.n) / whole if whole else 0.0
        for place in range(3):
            counts[place] += reads.counts[place]
            weights[place] += scale * reads.weights[place]
            squares[place] += scale**2 * reads.squares[place]
    a, b, c = counts
    d, e, f = weights
    g, h, i = squares
    return Reads((a, b, c), (d, e, f), (g, h, i), population)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Judge against people; `strict` counts an edit with the rejections: the text was not good as it stood."""

    accepted: Reads
    refused: Reads
    strict: bool = False

    @property
    def good(self) -> tuple[int, ...]:
        return (0,) if self.strict else (0, 1)

    @property
    def bad(self) -> tuple[int, ...]:
        return (1, 2) if self.strict else (2,)

    @property
    def false_accept(self) -> Rate:
        """Of what the judge accepts, the share people reject."""
        return self.accepted.rate(*self.bad)

    @property
    def false_refuse(self) -> Rate:
        """Of what the judge refuses, the share people approve."""
        return self.refused.rate(*self.good)

    @property
    def raw_kappa(self) -> Estimate:
        """Of the readings as they are: moves with how many refusals were drawn."""
        readings = (self.accepted, self.refused)
        rows = ([sum(r.counts[at] for at in side) for side in (self.good, self.bad)] for r in readings)
        return self._one_sided or cohen_kappa(list(rows))

    @property
    def weighted_kappa(self) -> Estimate:
        """Of all samples: a row weighs as often as the judge gave its verdict. The interval draws each row's rate from
        its Jeffreys posterior, so that 0 of 20 is not taken for certain.
        """
        if self._one_sided:
            return self._one_sided
        generator, rows, readings = np.random.default_rng(SEED), [], (self.accepted, self.refused)
        for row in readings:
            rate, size = row.rate(*self.bad).value or 0.0, row.effective
            drawn = generator.beta(rate * size + 0.5, (1 - rate) * size + 0.5, DRAWS)
            rows.append(row.population * np.concatenate([[rate], drawn]))
        bad = np.stack(rows, axis=1)
        shares = np.array([row.population for row in readings], dtype=np.float64)
        value, *found = kappas(np.stack([shares - bad, bad], axis=2)).tolist()
        low, high = np.percentile(found, [2.5, 97.5])
        n = self.accepted.n + self.refused.n
        return Estimate(value, min(float(low), value), max(float(high), value), n)

    @property
    def _one_sided(self) -> Estimate | None:
        """What both kappas are when only one of the judge's verdicts was read."""
        if self.accepted.n and self.refused.n:
            return None
        which = "refused" if self.accepted.n else "accepted"
        n = self.accepted.n + self.refused.n
        return Estimate(None, None, None, n, why=f"nothing the judge {which} was read")


@dataclass(frozen=True, slots=True)
class Proposal:
    """The share of the judge's acceptances to read, and the numbers it rests on."""

    share: float
    upper: float  # upper end of the false-accept rate's interval
    target: float
    floor: float
    n: int

    @property
    def why(self) -> str:
        """The arithmetic: p is the upper end of the interval, q the target."""
        if not self.n:
            return f"nothing read, p may be 1: 1 - {self.target:.3f} / 1 = {self.share:.3f}"
        if self.upper <= self.target:
            return f"p {self.upper:.3f} is within q {self.target:.3f}: the floor, {self.floor:.3f}"
        found = 1 - self.target / self.upper
        sum_up = f"1 - {self.target:.3f} / {self.upper:.3f} = {found:.3f}"
        return f"{sum_up}, below the floor, {self.floor:.3f}" if found < self.floor else sum_up


def proposal(reads: Reads, *, strict: bool = False, target: float = TARGET, floor: float = FLOOR) -> Proposal:
    """Read so much that what stays unread holds no more than `target` defects of all samples: p (1 - s) <= q.

    p is the upper end of the 95 % interval, so few readings ask for more reading. A rejected sample is taken to be
    replaced by a good one, as in the average outgoing quality of acceptance sampling.
    """
    upper = Matrix(reads, Reads(), strict).false_accept.high
    return Proposal(max(floor, 1 - target / upper), upper, target, floor, reads.n)
