"""Is one side better than another on the same queries? The one paired test and interval of all pages and reports.

In: scores of both sides, query by query, for all that is asked of a pair. Out: a row a slice (benchmark, decoding,
metric x domain x group) with its interval and its answer.

The interval is Tango's score interval of a paired difference (Statistics in Medicine 1998), which stays honest where
few or no queries differ. A score between 0 and 1 counts as that part of a query that is won or lost, which overstates
the variance and never understates it.

The test is the sign-flip test of the paired differences. Its p is adjusted for all slices asked of a pair by the
distribution of their extreme statistic (max-T, Westfall and Young 1993): all decodings and metrics of one query are
flipped together, so slices that share queries cost little. Better or worse is what ALPHA shows on its side; else nobody
can tell.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from evaluation.core.coverage import EXCEPTIONS
from evaluation.core.metrics import ALL
from evaluation.core.report import sliced

ALPHA = 0.025  # one-sided, on each side
POWER = 0.8
FLIPS = 9_999
FLIPS_A_BLOCK = 500
BETTER, WORSE, CANNOT_TELL = "better", "worse", "cannot tell"
Z = NormalDist().inv_cdf(1 - ALPHA)
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """One metric of one benchmark and decoding, answered by both: a score from 0 to 1 a query and side.

    `queries`: who a score is of; the same query may stand in several `Asked`. `groups`: "" where there are none.
    """

    kind: str
    name: str
    decode: str
    metric: str
    queries: Sequence[Hashable]
    domains: Sequence[str]
    groups: Sequence[str]
    ours: Sequence[float]
    theirs: Sequence[float]
    tier: str = ""
    exceptions: Sequence[bool] = ()  # of each query, whether it is one; empty: none is
    ids: tuple[int, int] | None = None  # of the two evaluations, for links


@dataclass(frozen=True, slots=True)
class Weighed:
    """Ours minus theirs on the n queries of one slice. `worse`, `better`: one-sided p, and adjusted for all slices."""

    asked: Asked
    domain: str
    group: str
    n: int
    ours: float
    theirs: float
    won: float
    lost: float
    low: float
    high: float
    worse: float
    worse_adjusted: float
    better_adjusted: float
    shows: float | None  # the smallest loss that so many queries would show

    @property
    def difference(self) -> float:
        return self.ours - self.theirs

    @property
    def answer(self) -> str:
        return answer_of(self.worse_adjusted, self.better_adjusted)


def answer_of(worse: float, better: float) -> str:
    """By both adjusted p."""
    return WORSE if worse <= ALPHA else BETTER if better <= ALPHA else CANNOT_TELL


def weigh(asked: Sequence[Asked], *, seed: int = 0, flips: int = FLIPS) -> tuple[list[Weighed], float]:
    """The slices of a pair, and the statistic below minus which one is worse."""
    parts = [(one, *part) for one in asked for part in _slices(one)]
    if not parts:
        return [], Z
    gaps = [np.asarray(one.ours, float) - np.asarray(one.theirs, float) for one in asked]
    gap_of = dict(zip(map(id, asked), gaps, strict=True))
    chosen = [gap_of[id(one)][places] for one, _, _, places in parts]
    won, lost = (np.array([np.clip(sign * gap, 0, None).sum() for gap in chosen]) for sign in (1, -1))
    n = np.array([len(gap) for gap in chosen])
    low, high = score_interval(won, lost, n)
    slices = [
        ([one.queries[place] for place in places], gap)
        for (one, _, _, places), gap in zip(parts, chosen, strict=True)
    ]
    worse, worse_adjusted, better_adjusted, critical = flip_tests(slices, seed=seed, flips=flips)
    rows = []
    for at, (one, domain, group, places) in enumerate(parts):
        ours, theirs = (float(np.mean(np.asarray(side, float)[places])) for side in (one.ours, one.theirs))
        differ = float(np.square(chosen[at]).mean())
        rows.append(
            Weighed(
                one,
                domain,
                group,
                int(n[at]),
                ours,
                theirs,
                won=float(won[at]),
                lost=float(lost[at]),
                low=float(low[at]),
                high=float(high[at]),
                worse=float(worse[at]),
                worse_adjusted=float(worse_adjusted[at]),
                better_adjusted=float(better_adjusted[at]),
                shows=smallest_shown(int(n[at]), differ, critical),
            )
        )
    return rows, critical


def _slices(one: Asked) -> Iterator[tuple[str, str, list[int]]]:
    """All queries first; a domain or group that holds all queries is no slice of its own."""
    exceptions = [EXCEPTIONS if told else "" for told in one.exceptions or [False] * len(one.groups)]
    found = sliced(zip(one.domains, one.groups, exceptions, strict=True))
    for (domain, group), places in sorted(found.items(), key=lambda it: (it[0][0] != ALL, it[0][1] != ALL)):
        same = domain != ALL and len(places) == len(found[ALL, group])
        if not same and (group == ALL or len(places) != len(found[domain, ALL])):
            yield domain, group, places


class Counted(Protocol):
    @property
    def n(self) -> int: ...


Row = TypeVar("Row", bound=Counted)


def row_of(rows: Mapping[tuple[str, str], Row], domain: str, group: str, n: int) -> Row | None:
    """The row of (domain, group): what holds the same queries as more does has its row there."""
    places = ((domain, group), (ALL, group), (domain, ALL), (ALL, ALL))
    return next((rows[one] for one in places if one in rows and rows[one].n == n), None)


def score_interval(won: Numbers, lost: Numbers, n: Numbers, z: float = Z) -> tuple[Numbers, Numbers]:
    """Tango's interval of (won - lost) / n, for arrays of slices: where the score statistic is z and -z."""
    n = np.asarray(n, float)
    middle = (won - lost) / n

    def score(at: Numbers) -> Numbers:
        """With the variance under the difference `at`; q is the likeliest share of lost queries then."""
        b = -won - lost + (2 * n - won + lost) * at
        q = (np.sqrt(np.clip(b * b + 8 * n * lost * at * (1 - at), 0, None)) - b) / (4 * n)
        spread = np.sqrt(np.clip(n * (2 * q + at * (1 - at)), 1e-12, None))
        return np.asarray((won - lost - n * at) / spread)

    ends = []
    for sign, far in ((1, -1.0), (-1, 1.0)):
        inside, outside = middle.copy(), np.full_like(middle, far)
        for _ in range(40):
            half = (inside + outside) / 2
            within = sign * score(half) < z
            inside, outside = np.where(within, half, inside), np.where(within, outside, half)
        ends.append((inside + outside) / 2)
    return ends[0], ends[1]


def flip_tests(
    slices: Sequence[tuple[Sequence[Hashable], Numbers]], *, seed: int, flips: int
) -> tuple[Numbers, Numbers, Numbers, float]:
    """(p of worse, p of worse and p of better adjusted for all slices, critical statistic) of the slices' (queries,
    differences).

    If two sides are equally good, each difference might as well have had the other sign. The statistic of a slice is
    the sum of its differences over the root of the sum of their squares, which no flip changes.
    """
    places = {
        query: at for at, query in enumerate(dict.fromkeys(q for queries, _ in slices for q in queries))
    }
    table = np.zeros((len(places), len(slices)), np.float32)
    for column, (queries, gaps) in enumerate(slices):
        np.add.at(table[:, column], [places[query] for query in queries], gaps)
    table = table[np.any(table != 0, axis=1)]
    scale = np.sqrt(np.square(table).sum(axis=0))
    table /= np.where(scale > 0, scale, 1)
    found = table.sum(axis=0)
    generator = np.random.default_rng(seed)
    as_low, lowest, highest = np.ones(len(slices)), np.empty(flips), np.empty(flips)
    for start in range(0, flips, FLIPS_A_BLOCK):
        rows = min(FLIPS_A_BLOCK, flips - start)
        kept = generator.integers(0, 256, size=(rows, -(-len(table) // 8)), dtype=np.uint8)
        bits = np.unpackbits(kept, axis=1, count=len(table)).astype(np.float32)  # 1 keeps a sign, 0 turns it
        drawn = 2 * (bits @ table) - found
        as_low += np.sum(drawn <= found + 1e-4, axis=0)
        lowest[start : start + rows] = drawn.min(axis=1)
        highest[start : start + rows] = drawn.max(axis=1)
    lowest.sort()
    highest.sort()
    worse = (1 + np.searchsorted(lowest, found + 1e-4, side="right")) / (flips + 1)
    better = (1 + flips - np.searchsorted(highest, found - 1e-4, side="left")) / (flips + 1)
    critical = max(Z, -float(lowest[int(ALPHA * (flips + 1)) - 1]))
    return as_low / (flips + 1), worse, better, critical


def smallest_shown(n: int, differ: float, critical: float = Z) -> float | None:
    """The loss that n queries, of which the share `differ` differs, show with POWER; None: not even the loss of all."""
    reach = critical + NormalDist().inv_cdf(POWER)
    least = max(reach * (differ / n) ** 0.5, reach**2 / n)
    return least if least <= 1 else None
