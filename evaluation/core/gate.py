"""May a candidate take the champion's place? One verdict a slice, and one over all of them.

In: what was asked of both, score by score. Out: a row a slice (benchmark, decoding, metric x domain x group) and the
verdict. Two questions are asked of each slice, because an interval that holds zero shows no equality:

pass         not worse: the 95 % interval of candidate minus opponent lies above -MARGIN (non-inferiority, one-sided
             2.5 %). The interval is Tango's score interval of a paired difference (Statistics in Medicine 1998), which
             stays honest where few or no queries differ. A score between 0 and 1 counts as that part of a query that
             is won or lost, which overstates the variance and never understates it.
fail         worse: the sign-flip test of the paired differences, one-sided. Its p is adjusted for all slices asked of
             one opponent by the distribution of their smallest statistic (max-T, Westfall and Young 1993): all
             decodings and metrics of one query are flipped together, so slices that share queries cost little. Worse
             by less than the margin is worse all the same.
cannot tell  neither was shown. `shows` says which difference so many queries would show four times in five.

The whole: one failed slice fails the model; it passes when every slice passes; else nobody can tell. Error rates:
a model that loses MARGIN or more on some slice passes with a chance of at most 2.5 %, however many slices there are
(an intersection-union test needs no correction, Berger 1982), and a model that is no worse anywhere fails with a chance
of at most 2.5 % an opponent. Small slices therefore end in "cannot tell", which is an answer. The tests of changed
rules are no sample of anything, they are what the rule asks for: they are counted, not inferred.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import comb
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from evaluation.core.coverage import EXCEPTIONS
from evaluation.core.metrics import ALL
from evaluation.core.report import sliced

MARGIN = 0.03  # the largest loss that may stay unseen: one query in 33
ALPHA = 0.025  # one-sided, of both questions
POWER = 0.8
FLIPS = 9_999
FLIPS_A_BLOCK = 500
PASS, FAIL, CANNOT_TELL = VERDICTS = "pass", "fail", "cannot tell"
CHAMPION, EMBEDDING = "champion", "embedding"
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
class GateRow:
    """Candidate minus opponent on n queries. `note`: why it does not bind."""

    opponent: Annotated[str, "champion or embedding"]
    kind: Annotated[str, "of the benchmark; rules: tests of rules; changed rules: counted"]
    name: str
    decode: str
    metric: str
    tier: str
    domain: str
    group: Annotated[str, "all, covered, exceptions, uncovered or outside"]
    n: int
    candidate: float
    other: float
    won: Annotated[float, "queries for the candidate; parts of a query count as such"]
    lost: float
    low: Annotated[float, "95 % interval of the difference"]
    high: float
    p: Annotated[float, "one-sided, that it is not worse (changed rules: not better)"]
    p_adjusted: Annotated[float, "for all slices asked of this opponent"]
    shows: Annotated[float | None, "the smallest loss that so many queries would show; null: none"]
    verdict: str
    margin: float = MARGIN
    binds: Annotated[bool, "whether it counts for the whole"] = True
    note: str = ""
    ids: tuple[int, int] | None = None

    @property
    def difference(self) -> Annotated[float, "candidate minus opponent"]:
        return self.candidate - self.other

    @property
    def place(self) -> tuple[str, ...]:
        return self.name, self.decode, self.metric, self.domain, self.group


@dataclass(frozen=True, slots=True)
class ChangedRule:
    """The tests of a rule version that the candidate learned and the champion did not."""

    rule: int
    code: str
    number: Annotated[int, "its version"]
    total: int
    candidate: Annotated[int, "tests passed"]
    champion: int | None  # None: there is no champion

    @property
    def word(self) -> str:
        if self.champion is None or self.candidate == self.champion:
            return "as before" if self.champion is not None else ""
        return "better" if self.candidate > self.champion else "worse"


@dataclass(frozen=True, slots=True)
class Gate:
    """All rows, the changed rules, and what could not be asked; `critical`: {opponent: the statistic that fails}."""

    rows: tuple[GateRow, ...]
    rules: tuple[ChangedRule, ...] = ()
    notes: tuple[str, ...] = ()
    critical: dict[str, float] = field(default_factory=dict)
    margin: float = MARGIN
    alpha: float = ALPHA
    power: float = POWER
    flips: int = FLIPS
    seed: int = 0

    @property
    def verdict(self) -> str:
        return overall(row.verdict for row in self.rows if row.binds)

    @property
    def counts(self) -> dict[str, int]:
        """{verdict: slices that count for the whole}."""
        found = [row.verdict for row in self.rows if row.binds]
        return {verdict: found.count(verdict) for verdict in (PASS, FAIL, CANNOT_TELL)}

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, stored: dict[str, Any]) -> "Gate":
        rows = tuple(GateRow(**{**row, "ids": row["ids"] and tuple(row["ids"])}) for row in stored["rows"])
        rules = tuple(ChangedRule(**row) for row in stored["rules"])
        return cls(**{**stored, "rows": rows, "rules": rules, "notes": tuple(stored["notes"])})


def overall(verdicts: Iterable[str]) -> str:
    """Fail where one fails, pass where there is one and all pass."""
    found = set(verdicts)
    return FAIL if FAIL in found else PASS if found == {PASS} else CANNOT_TELL


def judge(
    asked: Sequence[Asked], opponent: str, *, seed: int = 0, flips: int = FLIPS
) -> tuple[list[GateRow], float]:
    """The rows of one opponent, and the statistic below minus which a slice fails."""
    parts = [(one, *part) for one in asked for part in _slices(one)]
    if not parts:
        return [], Z
    gaps = [np.asarray(one.ours, float) - np.asarray(one.theirs, float) for one in asked]
    gap_of = dict(zip(map(id, asked), gaps, strict=True))
    chosen = [gap_of[id(one)][places] for one, _, _, places in parts]
    won, lost = (np.array([np.clip(sign * gap, 0, None).sum() for gap in chosen]) for sign in (1, -1))
    n = np.array([len(gap) for gap in chosen])
    low, high = score_interval(won, lost, n)
    p, adjusted, critical = flip_tests(
        [
            ([one.queries[place] for place in places], gap)
            for (one, _, _, places), gap in zip(parts, chosen, strict=True)
        ],
        seed=seed,
        flips=flips,
    )
    rows = []
    for at, (one, domain, group, places) in enumerate(parts):
        ours, theirs = (float(np.mean(np.asarray(side, float)[places])) for side in (one.ours, one.theirs))
        differ = float(np.square(chosen[at]).mean())
        verdict = FAIL if adjusted[at] <= ALPHA else PASS if low[at] > -MARGIN else CANNOT_TELL
        rows.append(
            GateRow(
                *(opponent, one.kind, one.name, one.decode, one.metric, one.tier, domain, group),
                *(int(n[at]), ours, theirs, float(won[at]), float(lost[at])),
                *(float(low[at]), float(high[at]), float(p[at]), float(adjusted[at])),
                smallest_shown(int(n[at]), differ, critical),
                verdict,
                ids=one.ids,
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
) -> tuple[Numbers, Numbers, float]:
    """(p, p adjusted for all slices, critical statistic) of the slices' (queries, differences).

    If two models are equally good, each difference might as well have had the other sign. The statistic of a slice is
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
    as_low, lowest = np.ones(len(slices)), np.empty(flips)
    for start in range(0, flips, FLIPS_A_BLOCK):
        rows = min(FLIPS_A_BLOCK, flips - start)
        kept = generator.integers(0, 256, size=(rows, -(-len(table) // 8)), dtype=np.uint8)
        bits = np.unpackbits(kept, axis=1, count=len(table)).astype(np.float32)  # 1 keeps a sign, 0 turns it
        drawn = 2 * (bits @ table) - found
        as_low += np.sum(drawn <= found + 1e-4, axis=0)
        lowest[start : start + rows] = drawn.min(axis=1)
    lowest.sort()
    adjusted = (1 + np.searchsorted(lowest, found + 1e-4, side="right")) / (flips + 1)
    critical = max(Z, -float(lowest[int(ALPHA * (flips + 1)) - 1]))
    return as_low / (flips + 1), adjusted, critical


def smallest_shown(n: int, differ: float, critical: float = Z) -> float | None:
    """The loss that n queries, of which the share `differ` differs, show with POWER; None: not even the loss of all."""
    reach = critical + NormalDist().inv_cdf(POWER)
    least = max(reach * (differ / n) ** 0.5, reach**2 / n)
    return least if least <= 1 else None


def known_weakness(rows: Sequence[GateRow], champion: Sequence[GateRow]) -> list[GateRow]:
    """The candidate against the embedding: where the champion is worse than it too, the loss is no new one."""
    weak = {row.place for row in champion if row.verdict == FAIL}
    note = "the champion is worse than the embedding here too"
    return [
        replace(row, binds=False, note=note) if row.verdict == FAIL and row.place in weak else row
        for row in rows
    ]


def unmeasured(
    kind: str, name: str, tier: str, decode: str, note: str, verdict: str = CANNOT_TELL
) -> GateRow:
    """What a side has no answer to; it fails where the candidate can have none and the champion has."""
    numbers = (0, 0.0, 0.0, 0.0, 0.0, -1.0, 1.0, 1.0, 1.0, None, verdict)
    return GateRow(CHAMPION, kind, name, decode, "", tier, ALL, ALL, *numbers, note=note)


def rules_row(rules: Sequence[ChangedRule]) -> GateRow | None:
    """The tests of changed rules as one row: it fails unless the candidate passes more of them than the champion, or
    all; where one rule passes fewer than before, more of the others cannot make up for it, and nobody can tell. p is
    the exact one-sided sign test. None: no changed rule has tests, or there is no champion."""
    known = [(rule, rule.champion) for rule in rules if rule.champion is not None]
    if not known:
        return None
    n = sum(rule.total for rule, _ in known)
    ours, theirs = sum(rule.candidate for rule, _ in known), sum(champion for _, champion in known)
    won, lost = (
        sum(max(0, sign * (rule.candidate - champion)) for rule, champion in known) for sign in (1, -1)
    )
    low, high = score_interval(*np.array([[won], [lost], [n]], float))
    p = sum(comb(won + lost, k) for k in range(won, won + lost + 1)) / 2 ** (won + lost)
    worse = [rule.code for rule, champion in known if rule.candidate < champion]
    verdict = FAIL if ours <= theirs and ours < n else CANNOT_TELL if worse else PASS
    notes = {
        PASS: "",
        FAIL: "a changed rule must pass more of its tests than before",
        CANNOT_TELL: f"fewer tests than before pass of {', '.join(worse)}",
    }
    return GateRow(
        *(CHAMPION, "changed rules", "tests of changed rules", "fast", "passed", "", ALL, ALL),
        *(n, ours / n, theirs / n, float(won), float(lost), float(low[0]), float(high[0])),
        *(p, p, None, verdict),
        margin=0.0,
        note=notes[verdict],
    )
