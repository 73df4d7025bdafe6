"""What look-alikes cost, as counted last: labelled requests, tools, clusters and domains.

The arithmetic is core/confusion.py, the counting results/rollups.py. A process reads a count once; a web request reads
one count, however often it asks.
"""

from collections.abc import Iterable
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from catalog.models import Cluster, Domain
from evaluation.models import Count, DomainPoint
from trace_site.middleware import Handler

EDITION = 1  # of the arithmetic and of these rows


class ToolCount(NamedTuple):
    """Of a tool that a labelled or recorded request concerns. `uncovered`, `covered`: wrong answers of the model at
    such a pair of the tool's cluster; without a model these are the embedding's. `traffic`: recorded requests of the
    window that concern it."""

    n: int = 0
    wrong: int = 0
    uncovered: int = 0
    covered: int = 0
    n_embedding: int = 0  # of the n, those that the embedding was asked
    wrong_embedding: int = 0
    traffic: int = 0


@dataclass
class ClusterCount:
    """Of a cluster of its domain's newest clustering. `cluster` is there where a page asked for it."""

    pk: int
    state: str
    rank: int  # place among the domain's clusters, from 1: gaps, then the rest
    tools: int
    pairs: int
    covered: int
    named: int  # of those not covered, the pairs that a rule only names
    open_tools: list[int]  # those with a pair that is not covered
    measured: int  # of the open tools, those with a labelled request
    n: int
    wrong: int
    wrong_uncovered: int
    wrong_covered: int
    n_embedding: int
    wrong_embedding: int
    requests: int  # that the score is of: traffic of the measured open tools
    score: float | None  # wrong answers to expect at uncovered pairs; None: not measured
    score_low: float | None
    score_high: float | None
    expected_rules: (
        float  # over its uncovered pairs, from signals alone: orders what is not measured; no cost
    )
    cluster: Cluster = field(init=False, compare=False, repr=False)

    @property
    def uncovered(self) -> int:
        return self.pairs - self.covered


class Outcome(NamedTuple):
    """A labelled request kept out of training, and what the shown model and the embedding choose first."""

    source: str  # benchmark, sample or production
    of: int  # id of the benchmark's item, the sample or the request
    domain: str  # of the first right tool
    group: str  # covered, uncovered or outside
    gold: list[int]  # ids of the right tools
    clusters: list[int]  # ids of those that hold a right tool
    is_exception: bool  # the rule that decides leads to another tool than its target here
    # of a wrong answer of the model: the rule that decides the request, whose clause was not chosen
    unspoken: int | None
    model_wrong: bool | None  # None: not asked
    model_chose: int | None  # None: no tool of the catalog
    model_tool: int | None  # the right tool that a wrong answer counts at
    model_at: str  # covered, uncovered or elsewhere; empty: right
    embedding_wrong: bool | None
    embedding_chose: int | None
    embedding_tool: int | None
    embedding_at: str

    @property
    def of_both(self) -> bool:
        """Whether the model and the embedding were asked."""
        return self.model_wrong is not None and self.embedding_wrong is not None

    def wrong(self, side: str) -> bool | None:
        return self.model_wrong if side == "model" else self.embedding_wrong

    def miss(self, side: str) -> tuple[int | None, int | None, str]:
        """The right tool that it counts at, the one that was chosen, and where."""
        if side == "model":
            return self.model_tool, self.model_chose, self.model_at
        return self.embedding_tool, self.embedding_chose, self.embedding_at


@dataclass(frozen=True)
class Counted:
    """`clusters`: of each domain by rank; `domains`: unsaved points. Pages share it: change nothing."""

    outcomes: tuple[Outcome, ...] = ()
    tools: dict[int, ToolCount] = field(default_factory=dict)
    clusters: dict[str, list[ClusterCount]] = field(default_factory=dict)
    domains: dict[str, DomainPoint] = field(default_factory=dict)


DAYS = ("window_from", "window_to")
OF_A_ROW = ("_state", "id", "why", "at")  # of a point: what is no figure


def as_json(found: Counted) -> dict[str, Any]:
    """As `Count.counted` holds it: the values of each row in the order of its fields, those of a domain by name."""
    return {
        "outcomes": found.outcomes,
        "tools": found.tools,
        "clusters": {
            slug: [list(vars(row).values()) for row in rows] for slug, rows in found.clusters.items()
        },
        "domains": {
            slug: {
                name: str(value) if name in DAYS else value
                for name, value in vars(point).items()
                if name not in OF_A_ROW
            }
            for slug, point in found.domains.items()
        },
    }


def newest_counts() -> QuerySet[Count]:
    """The newest first; of another edition none is read."""
    return Count.objects.filter(edition=EDITION)


@lru_cache(maxsize=1)
def read_count(newest: int) -> Counted:
    """The count of this id, or that which another process has put in its place since; one query."""
    row = newest_counts()[0]
    domains = {}
    for slug, values in row.counted["domains"].items():
        days = {name: date.fromisoformat(values[name]) for name in DAYS}
        domains[slug] = DomainPoint(**{**values, **days}, at=row.at)
    return Counted(
        tuple(Outcome(*values) for values in row.counted["outcomes"]),
        {int(tool): ToolCount(*values) for tool, values in row.counted["tools"].items()},
        {slug: [ClusterCount(*values) for values in rows] for slug, rows in row.counted["clusters"].items()},
        domains,
    )


_of_request: ContextVar[list[Counted] | None] = ContextVar("counted", default=None)


def one_count(get_response: Handler) -> Handler:
    """Middleware: all that a request shows is of one count, the newest when it first asks."""

    def answered(request: HttpRequest) -> HttpResponse:
        token = _of_request.set([])
        try:
            return get_response(request)
        finally:
            _of_request.reset(token)

    return answered


def counted(newest: int | None = None) -> Counted:
    """The newest count, or the one that this web request has read. `newest`: its id where that is known, 0 for none;
    else one query."""
    held = _of_request.get()
    if held:
        return held[0]
    if newest is None:
        newest = newest_counts().values_list("pk", flat=True).first()
    found = read_count(newest) if newest else Counted()
    if held is not None:
        held.append(found)
    return found


def figures_by_domain(domains: Iterable[Domain] | None = None) -> dict[str, DomainPoint]:
    """Of each domain, with its `domain`, to do with as one likes; one query for the domains, unless given."""
    found = {}
    for domain in Domain.objects.all() if domains is None else domains:
        if point := counted().domains.get(domain.pk):
            found[domain.pk] = copy(point)
            found[domain.pk].domain = domain
    return found
