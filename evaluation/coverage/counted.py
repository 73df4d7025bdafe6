"""What look-alikes cost, as counted last: labelled requests, tools, clusters and domains. A process reads a count once.

The arithmetic is core/confusion.py, the counting results/rollups.py.
"""

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from copy import copy
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime
from functools import lru_cache, wraps
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse

from catalog.models import Cluster, Domain
from evaluation.coverage.selectors import shown_model
from evaluation.models import Count, DomainPoint

EDITION = 1  # of the arithmetic and of these rows


@dataclass(frozen=True, slots=True)
class ToolCount:
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
        float  # over its uncovered pairs, from signals alone; orders what is not measured; no cost
    )
    cluster: Cluster = field(default_factory=Cluster, compare=False, repr=False)

    @property
    def uncovered(self) -> int:
        return self.pairs - self.covered


@dataclass(frozen=True, slots=True)
class Outcome:
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

    def wrong(self, side: str) -> bool | None:
        return self.model_wrong if side == "model" else self.embedding_wrong

    def miss(self, side: str) -> tuple[int | None, int | None, str]:
        """The right tool that it counts at, the one that was chosen, and where."""
        if side == "model":
            return self.model_tool, self.model_chose, self.model_at
        return self.embedding_tool, self.embedding_chose, self.embedding_at


@dataclass(frozen=True)
class Counted:
    """`clusters`: of each domain by rank; `domains`: unsaved points. Rows are shared between pages: change none."""

    key: str = ""
    at: datetime | None = None
    outcomes: tuple[Outcome, ...] = ()
    tools: dict[int, ToolCount] = field(default_factory=dict)
    clusters: dict[str, list[ClusterCount]] = field(default_factory=dict)
    domains: dict[str, DomainPoint] = field(default_factory=dict)


DAYS = ("window_from", "window_to")


def as_json(found: Counted) -> dict[str, Any]:
    """As `Count.counted` holds it."""
    names = [one.name for one in fields(ClusterCount) if one.name != "cluster"]
    return {
        "outcomes": [list(asdict(row).values()) for row in found.outcomes],
        "tools": {pk: list(asdict(row).values()) for pk, row in found.tools.items()},
        "clusters": {
            slug: [[getattr(row, name) for name in names] for row in rows]
            for slug, rows in found.clusters.items()
        },
        "domains": {slug: values_of(row) for slug, row in found.domains.items()},
    }


def values_of(point: DomainPoint) -> dict[str, Any]:
    """What was counted of a domain, days as texts."""
    names = [one.attname for one in point._meta.concrete_fields if one.attname not in ("id", "at", "why")]
    values = {name: getattr(point, name) for name in names}
    return values | {name: str(values[name]) for name in DAYS}


_pinned: ContextVar[Counted | None] = ContextVar("counted", default=None)


def counted() -> Counted:
    """The newest count, that of the page where one holds it; one query."""
    if (held := _pinned.get()) is not None:
        return held
    newest = newest_counts().values_list("pk", flat=True).first()
    return read_count(newest) if newest else Counted()


def newest_counts() -> QuerySet[Count]:
    return Count.objects.filter(edition=EDITION)


def figures_by_domain(domains: Iterable[Domain] | None = None) -> dict[str, DomainPoint]:
    """Of each domain, with its `domain` and the `alias` that its model has now, to do with as one likes; one query for
    the domains, and at most two for the alias."""
    known = {one.pk: one for one in (Domain.objects.all() if domains is None else domains)}
    model, alias = shown_model()
    found = {}
    for slug, point in counted().domains.items():
        if slug in known:
            row = found[slug] = copy(point)
            row.domain, row.alias = known[slug], alias if model and model.pk == point.model_id else ""
    return found


@lru_cache(maxsize=2)
def read_count(pk: int) -> Counted:
    row = Count.objects.get(pk=pk)
    domains = {}
    for slug, values in row.counted["domains"].items():
        days = {name: date.fromisoformat(values[name]) for name in DAYS}
        domains[slug] = DomainPoint(**{**values, **days}, at=row.at)
    return Counted(
        row.key,
        row.at,
        tuple(Outcome(*values) for values in row.counted["outcomes"]),
        {int(pk): ToolCount(*values) for pk, values in row.counted["tools"].items()},
        {slug: [ClusterCount(*values) for values in rows] for slug, rows in row.counted["clusters"].items()},
        domains,
    )


View = Callable[..., HttpResponse]


def one_count(view: View) -> View:
    """A page whose numbers are all of one count, though many ask for it."""

    @wraps(view)
    def shown(*args: Any, **kwargs: Any) -> HttpResponse:
        token = _pinned.set(counted())
        try:
            return view(*args, **kwargs)
        finally:
            _pinned.reset(token)

    return shown
