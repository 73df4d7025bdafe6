"""Acceptance sampling by attributes: single plans for normal inspection (ISO 2859-1, the same as ANSI/ASQ Z1.4).

In: lot size, inspection level, AQL in per cent. Out: how many to read (n), how many defects are allowed (Ac), and what
that promises: the operating characteristic, by the hypergeometric distribution, since a lot is finite and drawn
without putting back. Table 1 gives a code letter for the lot, table 2-A the plan of the letter; its arrows lead to the
first plan below or above, and a sample as large as the lot means that all of it is read. AQLs end at 10: higher ones
count several defects on one item, and a sample is right or not.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, floor, inf, lgamma

from trace_site.lib.errors import TraceError

LEVELS = ("S-1", "S-2", "S-3", "S-4", "I", "II", "III")
AQLS = (0.010, 0.015, 0.025, 0.040, 0.065, 0.10, 0.15, 0.25, 0.40, 0.65, 1.0, 1.5, 2.5, 4.0, 6.5, 10.0)
CONSUMERS_RISK = 0.10  # the quality that is accepted this seldom is a plan's limiting quality

# Table 1. The last lot size of a row, then its letters by level, in the order of LEVELS.
LETTERS = {
    8: "AAAAAAB", 15: "AAAAABC", 25: "AABBBCD", 50: "ABBCCDE", 90: "BBCCCEF", 150: "BBCDDFG", 280: "BCDEEGH",
    500: "BCDEFHJ", 1_200: "CCEFGJK", 3_200: "CDEGHKL", 10_000: "CDFGJLM", 35_000: "CDFHKMN", 150_000: "DEGJLNP",
    500_000: "DEGJMPQ", inf: "DEHKNQR",
}  # fmt: skip
SIZES = dict(
    zip(
        "ABCDEFGHJKLMNPQR", (2, 3, 5, 8, 13, 20, 32, 50, 80, 125, 200, 315, 500, 800, 1250, 2000), strict=True
    )
)
# Table 2-A, in the order of AQLS: Ac, or v and ^ for the first plan below and above. Re is always Ac + 1.
ACCEPT = {
    "A": "v v v v v v v v v v v v v v 0 v",
    "B": "v v v v v v v v v v v v v 0 ^ v",
    "C": "v v v v v v v v v v v v 0 ^ v 1",
    "D": "v v v v v v v v v v v 0 ^ v 1 2",
    "E": "v v v v v v v v v v 0 ^ v 1 2 3",
    "F": "v v v v v v v v v 0 ^ v 1 2 3 5",
    "G": "v v v v v v v v 0 ^ v 1 2 3 5 7",
    "H": "v v v v v v v 0 ^ v 1 2 3 5 7 10",
    "J": "v v v v v v 0 ^ v 1 2 3 5 7 10 14",
    "K": "v v v v v 0 ^ v 1 2 3 5 7 10 14 21",
    "L": "v v v v 0 ^ v 1 2 3 5 7 10 14 21 ^",
    "M": "v v v 0 ^ v 1 2 3 5 7 10 14 21 ^ ^",
    "N": "v v 0 ^ v 1 2 3 5 7 10 14 21 ^ ^ ^",
    "P": "v 0 ^ v 1 2 3 5 7 10 14 21 ^ ^ ^ ^",
    "Q": "0 ^ v 1 2 3 5 7 10 14 21 ^ ^ ^ ^ ^",
    "R": "^ ^ 1 2 3 5 7 10 14 21 ^ ^ ^ ^ ^ ^",
}
ORDER = list(SIZES)
CELLS = {letter: row.split() for letter, row in ACCEPT.items()}


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Read `size` of `lot_size` items; the lot is accepted with at most `accept` defects among them."""

    lot_size: int
    level: str
    aql: float
    letter: str
    size: int
    accept: int

    @property
    def reads_all(self) -> bool:
        return self.size == self.lot_size

    def accepted(self, defects: int) -> float:
        """The probability that a lot with so many defects in it is accepted."""
        return at_most(self.accept, lot=self.lot_size, defects=defects, drawn=self.size)

    @property
    def producers_risk(self) -> float:
        """The probability that a lot just as good as the AQL fails."""
        return 1 - self.accepted(floor(self.lot_size * self.aql / 100 + 1e-9))

    @property
    def limiting_quality(self) -> float:
        """The least share of defects, per cent, with which a lot is accepted with at most CONSUMERS_RISK (LTPD)."""
        counts = range(self.lot_size + 1)
        return 100 * bisect_left(counts, -CONSUMERS_RISK, key=lambda d: -self.accepted(d)) / self.lot_size

    def curve(self, points: int = 60) -> list[tuple[float, float]]:
        """The operating characteristic: (defects in the lot, per cent; probability of acceptance, per cent)."""
        end = min(100.0, max(2 * self.limiting_quality, 2 * self.aql))
        last = max(1, min(self.lot_size, round(self.lot_size * end / 100)))
        counts = sorted({round(last * step / points) for step in range(points + 1)})
        return [(100 * count / self.lot_size, 100 * self.accepted(count)) for count in counts]


def plan(lot_size: int, *, level: str = "II", aql: float = 1.0) -> SamplingPlan:
    """The single sampling plan of the tables. Raises TraceError for what they do not hold."""
    letter = code_letter(lot_size, level)
    if aql not in AQLS:
        raise TraceError(
            f"{aql:g} is no AQL of the standard up to 10.",
            code="bad_aql",
            where="aql",
            hint=f"One of: {', '.join(f'{value:g}' for value in AQLS)}.",
        )
    while (cell := CELLS[letter][AQLS.index(aql)]) in ("v", "^"):
        letter = ORDER[ORDER.index(letter) + (1 if cell == "v" else -1)]
    return SamplingPlan(lot_size, level, aql, letter, min(SIZES[letter], lot_size), int(cell))


def code_letter(lot_size: int, level: str) -> str:
    """Table 1. Raises TraceError for a level it does not have, or a lot of less than two."""
    if level not in LEVELS:
        raise TraceError(
            f"there is no inspection level '{level}'.",
            code="bad_level",
            where="level",
            hint=f"One of: {', '.join(LEVELS)}.",
        )
    if lot_size < 2:
        raise TraceError(
            "a lot has two items or more.", code="small_lot", where="lot size", hint="Read it as it is."
        )
    return next(row[LEVELS.index(level)] for last, row in LETTERS.items() if lot_size <= last)


def at_most(most: int, *, lot: int, defects: int, drawn: int) -> float:
    """The probability of at most `most` defects among `drawn` of `lot` items that hold `defects` (hypergeometric)."""
    least, top = max(0, drawn - (lot - defects)), min(most, drawn, defects)
    whole = _log_choose(lot, drawn)
    parts = (
        exp(_log_choose(defects, found) + _log_choose(lot - defects, drawn - found) - whole)
        for found in range(least, top + 1)
    )
    return min(1.0, sum(parts))


def _log_choose(among: int, chosen: int) -> float:
    return lgamma(among + 1) - lgamma(chosen + 1) - lgamma(among - chosen + 1)


def draw(keys: Iterable[str], count: int, seed: int) -> list[str]:
    """`count` of the keys by lot. The same for the same seed, in whatever order the keys come."""
    return sorted(keys, key=lambda key: hashlib.sha256(f"batch|{seed}|{key}".encode()).digest())[:count]
