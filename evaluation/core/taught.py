"""What rule samples taught: a champion, its control and the plain embedding on the same queries, group by group.

In: for each query its domain, its group and the recall of the first tool of each side. Out: one cell for each domain
and group: the three means and the two paired differences, all with 95 % intervals from the same draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evaluation.core.coverage import GROUPS
from evaluation.core.metrics import ALL
from evaluation.core.stats import Interval, bootstrap_table
from evaluation.core.versus import WORSE, Row

METRIC = "recall@1"
WHERE = {
    ALL: "on all requests",
    "covered": "where a rule covers the look-alikes",
    "uncovered": "where look-alikes have no rule",
    "outside": "on requests outside every cluster",
}


class Query(NamedTuple):
    """Recall of the first tool; None where there is no such side."""

    domain: str
    group: str
    champion: float
    control: float | None
    embedding: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    domain: str
    group: str
    champion: Interval
    control: Interval | None
    embedding: Interval | None
    over_control: Row | None
    over_embedding: Row | None

    @property
    def n(self) -> int:
        return self.champion.n

    @property
    def where(self) -> str:
        return WHERE[self.group]

    @property
    def warning(self) -> str:
        """A plain sentence where the champion is worse than the embedding; else, or where nobody can tell, empty."""
        found = self.over_embedding
        if found is None or found.verdict != WORSE:
            return ""
        means = f"{found.ours:.2f} against {found.theirs:.2f}"
        spread = f"{signed(found.low)} to {signed(found.high)}"
        return (
            f"Worse than plain embedding search {self.where}: {means} "
            f"(n {found.n}, difference {signed(found.difference)}, 95 % {spread})"
        )


def signed(value: float) -> str:
    """+0.10 or −0.10, with a real minus."""
    return f"{value:+.2f}".replace("-", "−")


def cells(queries: Sequence[Query], *, seed: int = 0) -> dict[tuple[str, str], Cell]:
    """{(domain or all, group or all): cell}, all queries first."""
    slices: dict[tuple[str, str], list[Query]] = {}
    for query in queries:
        for domain in (ALL, query.domain):
            for group in (ALL, query.group) if query.group else (ALL,):
                slices.setdefault((domain, group), []).append(query)
    order = (ALL, *GROUPS)
    keys = sorted(slices, key=lambda key: (key[0] != ALL, key[0], order.index(key[1])))
    return {key: _cell(*key, slices[key], seed) for key in keys}


def _cell(domain: str, group: str, queries: Sequence[Query], seed: int) -> Cell:
    ours = np.array([query.champion for query in queries])
    others = {
        name: np.array(values, dtype=np.float64)
        for name in ("control", "embedding")
        if None not in (values := [getattr(query, name) for query in queries])
    }
    columns = [ours, *(column for other in others.values() for column in (other, ours - other))]
    means = bootstrap_table(np.column_stack(columns), seed=seed)  # type: ignore[arg-type]
    found: dict[str, tuple[Interval, Row]] = {}
    for place, (name, other) in enumerate(others.items()):
        mean, difference = means[1 + 2 * place : 3 + 2 * place]
        differ = int(np.count_nonzero(ours - other))
        bounds = (means[0].mean, mean.mean, difference.low, difference.high)
        found[name] = mean, Row(domain, METRIC, len(ours), *bounds, differ)
    control, embedding = found.get("control"), found.get("embedding")
    return Cell(
        *(domain, group, means[0]),
        control[0] if control else None,
        embedding[0] if embedding else None,
        control[1] if control else None,
        embedding[1] if embedding else None,
    )


def warnings(found: Mapping[tuple[str, str], Cell], domain: str = ALL) -> list[str]:
    return [cell.warning for key, cell in found.items() if key[0] == domain and cell.warning]
