"""Two models on the same questions: the paired difference of each metric, and what it allows to say.

In: scores of both, query by query, with the query's domain. Out: one row per domain (all first) and metric. The list
lengths of both stand beside every row: more tools find more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evaluation.core.metrics import ALL
from evaluation.core.stats import DRAWS, Table, bootstrap_table

RANKED, LISTED, LETTERS, TESTS = (
    ("hit@1", "recall@5"),
    ("recall@gen", "precision@gen"),
    ("accuracy",),
    ("passed",),
)
SIZE = "set_size"
FEWEST = (
    6  # queries that must differ: of 5 that all favour one side, the sign test's p is still 2 / 2**5 > 0.05
)
BETTER, WORSE, CANNOT_TELL = "better", "worse", "cannot tell"
Scores = Mapping[Any, tuple[str, Mapping[str, float]]]  # {query: (domain, {metric: score})}


@dataclass(frozen=True, slots=True)
class Row:
    """`ours` minus `theirs` on `n` queries they both answered, `differ` of which differ. Sizes: mean tools a list."""

    domain: str
    metric: str
    n: int
    ours: float
    theirs: float
    low: float
    high: float
    differ: int
    our_size: float | None = None
    their_size: float | None = None

    @property
    def difference(self) -> float:
        return self.ours - self.theirs

    @property
    def verdict(self) -> str:
        """By the 95 % interval, and only where enough queries differ for a sign test to tell at all."""
        if self.differ < FEWEST or self.low <= 0 <= self.high:
            return CANNOT_TELL
        return BETTER if self.low > 0 else WORSE

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def versus(ours: Scores, theirs: Scores, *, seed: int = 0, draws: int = DRAWS) -> list[Row]:
    """Rows for all queries and for each domain, over the queries that both sides have."""
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        return []
    first = ours[shared[0]][1].keys() & theirs[shared[0]][1].keys()
    metrics = next((set_ for set_ in (LETTERS, TESTS, LISTED, RANKED) if set(set_) <= first), ())
    names = [*metrics, *([SIZE] if SIZE in first else [])]
    tables = [np.array([[side[key][1][name] for name in names] for key in shared]) for side in (ours, theirs)]
    domains = np.array([ours[key][0] for key in shared])
    rows = _rows(ALL, metrics, tables, seed, draws)
    found = sorted(set(domains.tolist()))
    for domain in found if len(found) > 1 else ():
        chosen = domains == domain
        rows += _rows(domain, metrics, [table[chosen] for table in tables], seed, draws)
    return rows


def _rows(domain: str, metrics: Sequence[str], tables: Sequence[Table], seed: int, draws: int) -> list[Row]:
    a, b = tables
    many = len(metrics)
    difference = a[:, :many] - b[:, :many]
    intervals = bootstrap_table(difference, seed=seed, draws=draws)  # type: ignore[arg-type]
    sizes = (float(a[:, many].mean()), float(b[:, many].mean())) if a.shape[1] > many else (None, None)
    return [
        Row(
            domain,
            name,
            len(a),
            float(a[:, place].mean()),
            float(b[:, place].mean()),
            interval.low,
            interval.high,
            int(np.count_nonzero(difference[:, place])),
            *sizes,
        )
        for place, (name, interval) in enumerate(zip(metrics, intervals, strict=True))
    ]


def said(rows: Sequence[Row]) -> str:
    """The rows over all domains in one line: better on 2, worse on 0, cannot tell on 3."""
    overall = [row.verdict for row in rows if row.domain == ALL]
    return ", ".join(f"{word} on {overall.count(word)}" for word in (BETTER, WORSE, CANNOT_TELL))
