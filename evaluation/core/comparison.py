"""Two models on the same queries: the paired difference of each metric, and what it allows to say.

In: scores of both, query by query, with the query's domain. Out: a row per domain (all first) and metric; or, of a
champion beside its control and the embedding, a cell per domain and group. All intervals are of 95 %. The list
lengths of both stand beside every row: more tools find more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evaluation.core.coverage import EXCEPTIONS, LINES
from evaluation.core.metrics import ALL
from evaluation.core.report import sliced
from evaluation.core.stats import DRAWS, Interval, bootstrap_table

# the metrics that are compared, by what the evaluations hold
COMPARED = (("accuracy",), ("passed",), ("recall@gen", "precision@gen"), ("hit@1", "recall@5"))
SIZE = "set_size"
# queries that must differ: of 5 that all favour one side, the sign test's p is still 2 / 2**5 > 0.05
FEWEST = 6
BETTER, WORSE, CANNOT_TELL = "better", "worse", "cannot tell"
Scores = Mapping[Any, tuple[str, Mapping[str, float]]]  # {query: (domain, {metric: score})}


@dataclass(frozen=True, slots=True)
class Difference:
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
        return verdict_of(self.differ, self.low, self.high)


def verdict_of(differ: int, low: float, high: float) -> str:
    """By the 95 % interval of a difference, and only where enough queries differ for a sign test to tell at all."""
    if differ < FEWEST or low <= 0 <= high:
        return CANNOT_TELL
    return BETTER if low > 0 else WORSE


def differences(ours: Scores, theirs: Scores, *, seed: int = 0, draws: int = DRAWS) -> list[Difference]:
    """Rows for all queries and for each domain, over the queries that both sides have."""
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        return []
    known = ours[shared[0]][1].keys() & theirs[shared[0]][1].keys()
    metrics = next((names for names in COMPARED if known.issuperset(names)), ())
    domains = [ours[key][0] for key in shared]
    a, b = (
        np.array([[side[key][1][name] for name in (*metrics, *({SIZE} & known))] for key in shared])
        for side in (ours, theirs)
    )
    rows = []
    for (domain, _), chosen in sliced((domain, "") for domain in domains).items():
        if domain != ALL and len(set(domains)) == 1:
            continue
        left, right = a[chosen], b[chosen]
        gap = (left - right)[:, : len(metrics)]
        means, other_means = left.mean(axis=0).tolist(), right.mean(axis=0).tolist()
        intervals = bootstrap_table(gap, seed=seed, draws=draws)
        sizes = (means[-1], other_means[-1]) if SIZE in known else (None, None)
        for place, (name, interval) in enumerate(zip(metrics, intervals, strict=True)):
            bounds = (means[place], other_means[place], interval.low, interval.high)
            differ = int(np.count_nonzero(gap[:, place]))
            rows.append(Difference(domain, name, len(chosen), *bounds, differ, *sizes))
    return rows


# What rule samples taught: a champion, its control and the plain embedding on the same queries, group by group.

METRIC = "recall@1"
WHERE = {
    ALL: "on all requests",
    "covered": "where a rule covers the look-alikes",
    "exceptions": "on exceptions of rules",
    "uncovered": "where no rule tells look-alikes apart",
    "outside": "on requests outside every cluster",
}


class ThreeAnswers(NamedTuple):
    """Recall of the first tool of one query; None where there is no such side."""

    domain: str
    group: str
    champion: float
    control: float | None
    embedding: float | None
    is_exception: bool = False


@dataclass(frozen=True, slots=True)
class TaughtCell:
    domain: str
    group: str
    n: int
    champion: Interval
    control: Interval | None = None
    embedding: Interval | None = None
    over_control: Difference | None = None
    over_embedding: Difference | None = None

    @property
    def warning(self) -> str:
        """A plain sentence where the champion is worse than the embedding; else, or where nobody can tell, empty."""
        found = self.over_embedding
        if found is None or found.verdict != WORSE:
            return ""
        spread = f"{_signed(found.low)} to {_signed(found.high)}"
        return (
            f"Worse than plain embedding search {WHERE[self.group]}: {found.ours:.2f} against {found.theirs:.2f} "
            f"(n {found.n}, difference {_signed(found.difference)}, 95 % {spread})"
        )


def _signed(value: float) -> str:
    """+0.10 or −0.10, with a real minus."""
    return f"{value:+.2f}".replace("-", "−")


def taught_cells(queries: Sequence[ThreeAnswers], *, seed: int = 0) -> dict[tuple[str, str], TaughtCell]:
    """{(domain or all, group or all): cell}, all queries first; the intervals of a cell come from the same draws."""
    places = sliced(
        (query.domain, query.group, EXCEPTIONS if query.is_exception else "") for query in queries
    )
    order = (ALL, *LINES)
    found = {}
    for domain, group in sorted(places, key=lambda key: (key[0] != ALL, key[0], order.index(key[1]))):
        chosen = [queries[at] for at in places[domain, group]]
        ours = np.array([query.champion for query in chosen])
        others = {
            side: np.array(values)
            for side in ("control", "embedding")
            if None not in (values := [getattr(query, side) for query in chosen])
        }
        columns = [ours, *(column for other in others.values() for column in (other, ours - other))]
        champion, *rest = bootstrap_table(np.column_stack(columns), seed=seed)
        sides: dict[str, Any] = {}
        for (side, other), mean, gap in zip(others.items(), rest[::2], rest[1::2], strict=True):
            bounds = (champion.mean, mean.mean, gap.low, gap.high)
            differ = int(np.count_nonzero(ours - other))
            sides[side] = mean
            sides[f"over_{side}"] = Difference(domain, METRIC, len(chosen), *bounds, differ)
        found[domain, group] = TaughtCell(domain, group, len(chosen), champion, **sides)
    return found
