"""May a candidate take the champion's place? One verdict a slice, and one over all of them.

In: what was asked of both, score by score. Out: a row a slice (benchmark, decoding, metric x domain x group) and the
verdict. Two questions are asked of each slice, because an interval that holds zero shows no equality:

pass         not worse: the 95 % interval of candidate minus opponent lies above -MARGIN (non-inferiority, one-sided
             2.5 %).
fail         worse, by the paired test (`core.paired`), adjusted for all slices asked of one opponent. Worse by less
             than the margin is worse all the same.
cannot tell  neither was shown. `shows` says which difference so many queries would show four times in five.

The whole: one failed slice fails the model; it passes when every slice passes; else nobody can tell. Error rates:
a model that loses MARGIN or more on some slice passes with a chance of at most 2.5 %, however many slices there are
(an intersection-union test needs no correction, Berger 1982), and a model that is no worse anywhere fails with a chance
of at most 2.5 % an opponent. Small slices therefore end in "cannot tell", which is an answer. The tests of changed
rules are no sample of anything, they are what the rule asks for: they are counted, not inferred.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import comb
from typing import Annotated, Any

import numpy as np

from evaluation.core.metrics import ALL
from evaluation.core.paired import (
    ALPHA,
    CANNOT_TELL,
    FLIPS,
    POWER,
    WORSE,
    Asked,
    answer_of,
    score_interval,
    weigh,
)

MARGIN = 0.03  # the largest loss that may stay unseen: one query in 33
PASS, FAIL = "pass", "fail"
VERDICTS = PASS, FAIL, CANNOT_TELL
CHAMPION, EMBEDDING = "champion", "embedding"
CHANGED_RULES = "changed rules"  # counted: their p is of "not better"
LABELLED = "labelled requests"  # their first tools answer whether a model is better than another


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
    p_better: Annotated[float, "one-sided, that it is not better, adjusted alike"] = 1.0

    @property
    def answer(self) -> str:
        """Whether the candidate is better than the opponent here, worse, or nobody can tell."""
        return answer_of(1.0 if self.kind == CHANGED_RULES else self.p_adjusted, self.p_better)

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

    @property
    def slices(self) -> list[GateRow]:
        """What the verdict is of, and what could not be asked."""
        return [row for row in self.rows if row.kind != LABELLED]

    def first_tools(self, opponent: str) -> dict[tuple[str, str], GateRow]:
        """{(domain, group): the answer to "is it better than this opponent?"}, by the first tools of labelled
        requests."""
        return {
            (row.domain, row.group): row
            for row in self.rows
            if row.kind == LABELLED and row.opponent == opponent
        }

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
    found, critical = weigh(asked, seed=seed, flips=flips)
    return [
        GateRow(
            opponent,
            one.asked.kind,
            one.asked.name,
            one.asked.decode,
            one.asked.metric,
            one.asked.tier,
            domain=one.domain,
            group=one.group,
            n=one.n,
            candidate=one.ours,
            other=one.theirs,
            won=one.won,
            lost=one.lost,
            low=one.low,
            high=one.high,
            p=one.worse,
            p_adjusted=one.worse_adjusted,
            p_better=one.better_adjusted,
            shows=one.shows,
            verdict=FAIL if one.answer == WORSE else PASS if one.low > -MARGIN else CANNOT_TELL,
            binds=one.asked.kind != LABELLED,
            ids=one.asked.ids,
        )
        for one in found
    ], critical


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
        *(CHAMPION, CHANGED_RULES, "tests of changed rules", "fast", "passed", "", ALL, ALL),
        *(n, ours / n, theirs / n, float(won), float(lost), float(low[0]), float(high[0])),
        *(p, p, None, verdict),
        margin=0.0,
        note=notes[verdict],
        p_better=p,
    )
