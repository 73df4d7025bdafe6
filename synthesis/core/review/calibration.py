"""How far the judge can be trusted: people's readings against its verdicts, and the share of samples to read.

In: readings by stratum. What the judge accepts is read in the queue or by batch, what it refuses by a draw, so the
readings are not the samples: `Reads` carries, beside the numbers read, weights that stand for all samples of the
stratum. A raw table says what was read; rates and the weighted kappa say what holds for all.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from synthesis.core.review.agreement import DRAWS, SEED, Estimate, Rate, cohen_kappa, kappas, wilson

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
        rows = ([sum(r.counts[at] for at in side) for side in (self.good, self.bad)] for r in self._rows)
        return self._one_sided or cohen_kappa(list(rows))

    @property
    def weighted_kappa(self) -> Estimate:
        """Of all samples: a row weighs as often as the judge gave its verdict. The interval draws each row's rate from
        its Jeffreys posterior, so that 0 of 20 is not taken for certain.
        """
        if self._one_sided:
            return self._one_sided
        generator, rows = np.random.default_rng(SEED), []
        for row in self._rows:
            rate, size = row.rate(*self.bad).value or 0.0, row.effective
            drawn = generator.beta(rate * size + 0.5, (1 - rate) * size + 0.5, DRAWS)
            rows.append(row.population * np.concatenate([[rate], drawn]))
        bad = np.stack(rows, axis=1)
        shares = np.array([row.population for row in self._rows], dtype=np.float64)
        value, *found = kappas(np.stack([shares - bad, bad], axis=2)).tolist()
        low, high = np.percentile(found, [2.5, 97.5])
        return Estimate(value, min(float(low), value), max(float(high), value), self._n)

    @property
    def _one_sided(self) -> Estimate | None:
        """What both kappas are when only one of the judge's verdicts was read."""
        if self.accepted.n and self.refused.n:
            return None
        which = "refused" if self.accepted.n else "accepted"
        return Estimate(None, None, None, self._n, why=f"nothing the judge {which} was read")

    @property
    def _n(self) -> int:
        return self.accepted.n + self.refused.n

    @property
    def _rows(self) -> tuple[Reads, Reads]:
        return self.accepted, self.refused


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
