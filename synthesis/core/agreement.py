"""How far readers agree beyond chance, the judge with them, and the interval of a share.

In: counts, never rows, so that 50 samples cost what 200,000 do. Sources: Cohen (1960), Educational and Psychological
Measurement 20; Krippendorff (2011), Computing Krippendorff's alpha-reliability; for where alpha is enough Krippendorff
(2004), Content Analysis, p. 241; Wilson (1927), JASA 22; for the readings' worth Kish (1965), Survey Sampling.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

VERDICTS = ("approve", "edit", "reject")
DRAWS = 1000
SEED = 0
FEWEST = 20  # units; below, perfect agreement has no spread to draw from, and a verdict would be luck
RELIABLE, TENTATIVE = 0.8, 2 / 3
MOST_UNDEFINED = 0.05  # of the draws
Table = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A coefficient over n units with its 95 % interval; without a value `why` says what is missing."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    verdict: str = "cannot tell"
    why: str = ""


def verdict_of(low: float, high: float, n: int) -> str:
    """reliable, tentative, unreliable, or cannot tell: too few units, or an interval over a bound."""
    if n < FEWEST:
        return "cannot tell"
    if low >= TENTATIVE:
        return "reliable" if low >= RELIABLE else "tentative"
    return "unreliable" if high < TENTATIVE else "cannot tell"


def cohen_kappa(table: Sequence[Sequence[int]]) -> Estimate:
    """`table[i][j]`: units the one reader put into category i and the other into j."""
    return _estimate(table, "kappa")


def krippendorff_alpha(table: Sequence[Sequence[int]]) -> Estimate:
    """Of two readings a unit; for nominal data, whichever of them stands in the rows."""
    return _estimate(table, "alpha")


def _estimate(table: Sequence[Sequence[int]], name: str) -> Estimate:
    """With an interval by percentile bootstrap over units: a draw is one multinomial over the cells."""
    counts = np.asarray(table, dtype=np.float64)
    n = int(counts.sum())
    if n < 2:
        return Estimate(None, None, None, n, why="fewer than 2 units read twice")
    drawn = np.random.default_rng(SEED).multinomial(n, counts.ravel() / n, size=DRAWS)
    value, *found = _beyond_chance(np.stack([counts, *drawn.reshape(DRAWS, *counts.shape)]), name).tolist()
    if np.isnan(value):
        why = f"every reading is of one category, so {name} has no value"
        return Estimate(None, None, None, n, why=why)
    low, high = map(float, np.nanpercentile(found, [2.5, 97.5]))
    too_many = np.isnan(found).sum() > MOST_UNDEFINED * DRAWS
    return Estimate(value, low, high, n, "cannot tell" if too_many else verdict_of(low, high, n))


def _beyond_chance(tables: Table, name: str) -> Table:
    """(tables, k, k) -> (tables,): 1 - observed / expected disagreement; NaN where all is of one category."""
    n = tables.sum(axis=(1, 2))
    rows, columns = tables.sum(axis=2) / n[:, None], tables.sum(axis=1) / n[:, None]
    if name == "alpha":  # both readers draw from one urn, without putting back
        expected = (1 - (((rows + columns) / 2) ** 2).sum(axis=1)) * 2 * n / (2 * n - 1)
    else:
        expected = 1 - (rows * columns).sum(axis=1)
    observed = 1 - np.trace(tables, axis1=1, axis2=2) / n
    nothing = expected < 1e-12
    return np.where(nothing, np.nan, 1 - observed / np.where(nothing, 1.0, expected))


def agreeing(table: Sequence[Sequence[int]]) -> tuple[int, int]:
    """(units in one category, all units)."""
    return sum(row[place] for place, row in enumerate(table)), sum(map(sum, table))


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
    spread = z * sqrt(value * (1 - value) / n + z**2 / (4 * n**2))
    middle, scale = value + z**2 / (2 * n), 1 + z**2 / n
    low, high = max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
    return Rate(hits, n, value, min(low, value), max(high, value))


class Bounds(NamedTuple):
    """A figure made of shares, with its 95 % interval."""

    value: float
    low: float
    high: float


def minus(left: Bounds, right: Bounds) -> Bounds:
    """The distances of the ends add in squares (Newcombe 1998; Zou and Donner 2008, MOVER)."""
    value = left.value - right.value
    below = hypot(left.value - left.low, right.high - right.value)
    return Bounds(value, value - below, value + hypot(left.high - left.value, right.value - right.low))


# How far the judge can be trusted: people's readings against its verdicts, and the share of samples to read.
#
# What the judge accepts is read in the queue or by batch, what it refuses by a draw, so the readings are not the
# samples: beside the numbers read stand weights, with which rates and kappa hold for all samples.

TARGET, FLOOR = 0.02, 0.05


@dataclass(frozen=True, slots=True)
class Reads:
    """People's readings of what the judge gave one verdict. `groups`: (outcome, how many, how many samples each stands
    for: 1 where all is read, N / n where n of N are by lot); `population`: all samples, read or not."""

    groups: tuple[tuple[str, int, float], ...] = ()
    population: int = 0

    @property
    def counts(self) -> list[int]:
        """Of readings, in the order of VERDICTS."""
        return [sum(n for outcome, n, _ in self.groups if outcome == verdict) for verdict in VERDICTS]

    @property
    def n(self) -> int:
        return sum(self.counts)

    def rate(self, *outcomes: str) -> Rate:
        """The weighted share of these outcomes, over as many readings of equal weight as they are worth (Kish)."""
        whole = sum(n * weight for _, n, weight in self.groups)
        if not whole:
            return wilson(0, 0)
        share = sum(n * weight for outcome, n, weight in self.groups if outcome in outcomes) / whole
        worth = whole**2 / sum(n * weight**2 for _, n, weight in self.groups)
        return wilson(share * worth, worth)


def pooled(strata: Iterable[Reads]) -> Reads:
    """Strata as one: each weighs as many samples as it has, not as many as happen to be read of it.

    A stratum nobody has read in adds to `population` alone: the rates say nothing about it.
    """
    groups, population = [], 0
    for reads in strata:
        population += reads.population
        whole = sum(n * weight for _, n, weight in reads.groups)
        scale = max(reads.population, reads.n) / whole if whole else 0.0
        groups += [(outcome, n, scale * weight) for outcome, n, weight in reads.groups]
    return Reads(tuple(groups), population)


@dataclass(frozen=True, slots=True)
class Judged:
    """Judge against people; `strict` counts an edit with the rejections: the text was not good as it stood."""

    accepted: Reads
    refused: Reads
    strict: bool = False

    @property
    def false_accept(self) -> Rate:
        """Of what the judge accepts, the share people reject."""
        return self.accepted.rate(*(("edit", "reject") if self.strict else ("reject",)))

    @property
    def false_refuse(self) -> Rate:
        """Of what the judge refuses, the share people approve."""
        return self.refused.rate(*(("approve",) if self.strict else ("approve", "edit")))

    @property
    def kappa(self) -> Estimate:
        """Cohen's, of all samples: a row weighs as often as the judge gave its verdict. The distances that either
        rate's Wilson ends move it add in squares (Zou and Donner 2008)."""
        accepted, refused = self.accepted, self.refused
        n = accepted.n + refused.n
        if not accepted.n or not refused.n:
            which = "refused" if accepted.n else "accepted"
            return Estimate(None, None, None, n, why=f"nothing the judge {which} was read")
        wide, narrow = (max(one.population, one.n) for one in (accepted, refused))
        share, wrong, missed = wide / (wide + narrow), self.false_accept, self.false_refuse

        def at(wrong: float, missed: float) -> float:
            """Kappa of the four cells; it falls as either rate grows."""
            good = share * (1 - wrong) + (1 - share) * missed
            above = 2 * share * (1 - share) * (1 - wrong - missed)
            return above / (share * (1 - good) + (1 - share) * good)

        assert wrong.value is not None and missed.value is not None
        value = at(wrong.value, missed.value)
        low = value - hypot(value - at(wrong.high, missed.value), value - at(wrong.value, missed.high))
        high = value + hypot(at(wrong.low, missed.value) - value, at(wrong.value, missed.low) - value)
        return Estimate(value, max(-1.0, low), min(1.0, high), n, verdict_of(low, high, n))


def share_to_read(false_accept: Rate, target: float = TARGET, floor: float = FLOOR) -> tuple[float, str]:
    """(the share of the judge's acceptances to read, its arithmetic): so much that what stays unread holds no more than
    `target` defects of all samples, p (1 - s) <= q.

    p is the upper end of the 95 % interval, so few readings ask for more reading. A rejected sample is taken to be
    replaced by a good one, as in the average outgoing quality of acceptance sampling.
    """
    upper = false_accept.high
    found = 1 - target / upper
    if not false_accept.n:
        return max(floor, found), f"nothing read, p may be 1: 1 - {target:.3f} / 1 = {found:.3f}"
    if upper <= target:
        return floor, f"p {upper:.3f} is within q {target:.3f}: the floor, {floor:.3f}"
    sum_up = f"1 - {target:.3f} / {upper:.3f} = {found:.3f}"
    return max(floor, found), f"{sum_up}, below the floor, {floor:.3f}" if found < floor else sum_up
