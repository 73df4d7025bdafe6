"""What rule samples taught: a champion, its control and the plain embedding on the same queries, group by group.

In: of each query whether the first tool of each side is right. Out: a cell per domain and group: shares with Wilson's
interval, and the paired differences (`core.paired`), whose answers are those of the gate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evaluation.core.coverage import EXCEPTIONS, GROUP_WORDS, LINES
from evaluation.core.gate import GateRow
from evaluation.core.metrics import ALL
from evaluation.core.paired import WORSE, Asked, Weighed, row_of, weigh
from evaluation.core.report import sliced
from synthesis.core.agreement import Rate, wilson

METRIC = "hit@1"


class ThreeAnswers(NamedTuple):
    """Whether the first tool of one query is right; None where there is no such side."""

    domain: str
    group: str
    champion: bool
    control: bool | None
    embedding: bool | None
    is_exception: bool = False


@dataclass(frozen=True, slots=True)
class TaughtCell:
    domain: str
    group: str
    n: int
    champion: Rate
    control: Rate | None = None
    embedding: Rate | None = None
    over_control: Weighed | None = None
    over_embedding: GateRow | None = None

    @property
    def warning(self) -> str:
        """A plain sentence where the champion is worse than the embedding; else, or where nobody can tell, empty."""
        found = self.over_embedding
        if found is None or found.answer != WORSE:
            return ""
        spread = f"{_signed(found.low)} to {_signed(found.high)}"
        return (
            f"Worse than plain embedding search {GROUP_WORDS[self.group]}: {found.candidate:.2f} against "
            f"{found.other:.2f} (n {found.n}, difference {_signed(found.difference)}, 95 % {spread})"
        )


def _signed(value: float) -> str:
    """+0.10 or −0.10, with a real minus."""
    return f"{value:+.2f}".replace("-", "−")


def taught_cells(
    queries: Sequence[ThreeAnswers], over_embedding: Mapping[tuple[str, str], GateRow] | None = None
) -> dict[tuple[str, str], TaughtCell]:
    """{(domain or all, group or all): cell}, all queries first; `over_embedding`: the gate's rows of these queries."""
    places = sliced(
        (query.domain, query.group, EXCEPTIONS if query.is_exception else "") for query in queries
    )
    over_control = _over_control(queries)
    order = (ALL, *LINES)
    found = {}
    for domain, group in sorted(places, key=lambda key: (key[0] != ALL, key[0], order.index(key[1]))):
        chosen = [queries[at] for at in places[domain, group]]
        n = len(chosen)
        found[domain, group] = TaughtCell(
            *(domain, group, n),
            wilson(sum(query.champion for query in chosen), n),
            _share([query.control for query in chosen]),
            _share([query.embedding for query in chosen]),
            row_of(over_control, domain, group, n),
            row_of(over_embedding or {}, domain, group, n),
        )
    return found


def _share(right: Sequence[bool | None]) -> Rate | None:
    return None if None in right else wilson(sum(map(bool, right)), len(right))


def _over_control(queries: Sequence[ThreeAnswers]) -> dict[tuple[str, str], Weighed]:
    known = [query for query in queries if query.control is not None]
    ours, theirs = (
        [float(bool(getattr(query, side))) for query in known] for side in ("champion", "control")
    )
    asked = Asked(
        *("taught", "", "", METRIC, range(len(known))),
        *([query.domain for query in known], [query.group for query in known], ours, theirs),
        exceptions=[query.is_exception for query in known],
    )
    return {(row.domain, row.group): row for row in weigh([asked] if known else [])[0]}
