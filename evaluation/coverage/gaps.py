"""What pages read of rollups: a domain, its gaps in order, the requests behind every number, and what closing gaps
would save.

Nothing here is counted at the look: each figure is as old as `DomainRollup.at` says. Shares of nothing are None, "not
measured". Texts are shown to those who may read where they are from; others get the ids.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count, QuerySet
from django.urls import reverse
from django.utils import timezone

from catalog.models import Tool
from evaluation.core.confusion import MODEL, Tally, Term, WhatIf, gap_terms, what_if
from evaluation.coverage.outcomes import WINDOW, label_of, reported
from evaluation.models import (
    ClusterRollup,
    DomainFigures,
    DomainPoint,
    DomainRollup,
    LabelledOutcome,
    RetrievalRequest,
    ToolRollup,
)
from synthesis.core.agreement import Rate, wilson
from synthesis.generate.estimates import Estimate, estimate_new
from synthesis.models import LoopSettings
from trace_site.access import may

Source = LabelledOutcome.Source
MOST_MISSES = 200  # production misses told at once
# where a source's texts are read, and what its ids are of
PAGES = {
    Source.BENCHMARK: "evaluation:benchmark",
    Source.SAMPLE: "synthesis:sample",
    Source.PRODUCTION: "evaluation:request",
}


def share(wrong: int, n: int) -> Rate | None:
    """With its 95 % Wilson interval; None: not measured."""
    return wilson(wrong, n) if n else None


@dataclass(frozen=True, slots=True)
class Confusion:
    """The shares of the same labelled requests that go to another tool first. `ours`: of the model, or without one of
    the embedding."""

    ours: Rate | None
    embedding: Rate | None

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> "Confusion":
        return cls(
            share(counts["wrong"], counts["n"]), share(counts["wrong_embedding"], counts["n_embedding"])
        )


COUNTED = ("n", "wrong", "n_embedding", "wrong_embedding")


# A domain.


def domain_rollups() -> dict[str, DomainRollup]:
    """{slug: its figures}, each with `model.run`, `domain` and `definition`; one query."""
    rows = DomainRollup.objects.select_related("domain", "model__run", "definition").order_by("domain")
    deferred = ("model__card", "model__lineage", "model__run__log_tail", "definition__rules")
    return {row.domain_id: row for row in rows.defer(*deferred)}


def confusion_by_group(figures: DomainFigures) -> dict[str, Confusion]:
    """{all, covered, uncovered, outside: shares}; of a rollup or of a point of the trend."""
    return {group: Confusion.of(counts) for group, counts in figures.groups.items()}


def trend(domain: str) -> list[DomainPoint]:
    """Its figures whenever rules, clusters or the model moved, the oldest first; one query."""
    return list(DomainPoint.objects.filter(domain=domain).select_related("model__run").order_by("pk"))


# Its clusters.


def clusters(
    domain: str, *, state: str = "", only_gaps: bool = True, after: int = 0, size: int = 0
) -> list[ClusterRollup]:
    """The domain's clusters with `cluster` (label, tool_ids) by rank: the gaps in order, then the rest; those after a
    rank, so many (0: all). One query."""
    rows = ClusterRollup.objects.filter(clustering__domain=domain, rank__gt=after).select_related("cluster")
    if only_gaps:
        rows = rows.exclude(open_tools=[])
    if state:
        rows = rows.filter(state=state)
    ordered = rows.defer("cluster__edges").order_by("rank")
    return list(ordered[:size] if size else ordered)


def cluster_rollup(cluster: int) -> ClusterRollup | None:
    """None: it belongs to an older clustering, or was not counted yet."""
    return ClusterRollup.objects.filter(pk=cluster).first()


def confusion_of(row: ClusterRollup | ToolRollup) -> Confusion:
    return Confusion.of({name: getattr(row, name) for name in COUNTED})


def tool_confusion(tools: Iterable[int]) -> dict[int, Confusion]:
    """{tool: shares} of these; a tool that is missing is not measured. One query."""
    rows = ToolRollup.objects.filter(pk__in=list(tools), n__gt=0)
    return {row.pk: confusion_of(row) for row in rows}


@dataclass(frozen=True, slots=True)
class PairConfusion:
    """`wrong` of the `n` labelled requests of `tool` get `chosen` first (None: no tool of the catalog)."""

    tool: str
    chosen: str | None
    at: str  # covered, uncovered or elsewhere
    wrong: int
    n: int
    ids: tuple[int, int | None]

    @property
    def share(self) -> Rate | None:
        return share(self.wrong, self.n)


def pair_confusion(found: QuerySet[LabelledOutcome], side: str = MODEL) -> list[PairConfusion]:
    """Right tool -> chosen tool over these outcomes, the most often first; three queries."""
    columns = (f"{side}_tool", f"{side}_chose", f"{side}_at")
    wrong = found.filter(**{f"{side}_wrong": True}).order_by()
    counted = list(wrong.values_list(*columns).annotate(many=Count("pk")))
    ids = {pk for tool, chosen, _, _ in counted for pk in (tool, chosen) if pk}
    names = dict(Tool.objects.filter(pk__in=ids).values_list("pk", "name"))
    n_field = "n" if side == MODEL else "n_embedding"
    asked = dict(ToolRollup.objects.filter(pk__in=ids).values_list("pk", n_field))
    rows = [
        PairConfusion(names[tool], names.get(chosen), at, many, asked.get(tool, 0), (tool, chosen))
        for tool, chosen, at, many in counted
        if tool in names
    ]
    return sorted(rows, key=lambda row: (-row.wrong, row.tool, row.chosen or ""))


# The requests behind the numbers.


def outcomes(
    *,
    domain: str = "",
    cluster: int = 0,
    tool: int = 0,
    group: str = "",
    source: str = "",
    wrong: str = "",
    at: str = "",
) -> QuerySet[LabelledOutcome]:
    """Exactly the labelled requests that a figure counts. `wrong`: of a side (model, embedding); `at`: of its wrong
    answers those at covered or uncovered pairs, in `cluster` where that is given; without a model read the embedding's
    side (`side_of`)."""
    found = LabelledOutcome.objects.all()
    if domain:
        found = found.filter(domain=domain)
    if cluster:
        found = found.filter(clusters__contains=[cluster])
    if tool:
        found = found.filter(gold__contains=[tool])
    if group and group != "all":
        found = found.filter(group=group)
    if source:
        found = found.filter(source=source)
    if wrong:
        found = found.filter(**{f"{wrong}_wrong": True})
    if wrong and at:
        found = found.filter(**{f"{wrong}_at": at})
        if cluster:
            own = ClusterRollup.objects.filter(pk=cluster).values("cluster__tool_ids")
            held = {pk for ids in own.values_list("cluster__tool_ids", flat=True) for pk in ids}
            found = found.filter(**{f"{wrong}_tool__in": held})
    return found


def side_of(figures: DomainFigures) -> str:
    """Whose wrong answers the figures count: the model's, or without one the embedding's."""
    return MODEL if figures.model_id else "embedding"


@dataclass(frozen=True, slots=True)
class ShownOutcome:
    """`text` is empty where the reader may not see it, or no text is kept; `url` then too."""

    id: int
    source: str
    of: int  # id of the benchmark item, sample or request
    text: str
    url: str
    right: list[str]
    chosen: str | None
    embedding: str | None
    at: str
    group: str


def shown_outcomes(found: Sequence[LabelledOutcome], reader: Any) -> list[ShownOutcome]:
    """A part of `outcomes(...)` for a page; at most five queries. Select nothing related before."""
    rows = list(found)
    of = {
        Source.BENCHMARK: [row.item_id for row in rows if row.item_id],
        Source.SAMPLE: [row.sample_id for row in rows if row.sample_id],
        Source.PRODUCTION: [row.request_id for row in rows if row.request_id],
    }
    texts: dict[tuple[str, int], tuple[str, int]] = {}  # (source, id): its text and the id of its page
    for source, ids in of.items():
        if ids and may(reader, PAGES[source]):
            texts |= _texts(source, ids)
    tools = {pk for row in rows for pk in (*row.gold, row.model_chose, row.embedding_chose) if pk}
    names = dict(Tool.objects.filter(pk__in=tools).values_list("pk", "name"))
    shown = []
    for row in rows:
        pk = int(row.item_id or row.sample_id or row.request_id or 0)
        text, page = texts.get((row.source, pk), ("", 0))
        shown.append(
            ShownOutcome(
                row.pk,
                row.source,
                pk,
                text,
                reverse(PAGES[Source(row.source)], args=[page]) if page else "",
                [names[tool] for tool in row.gold if tool in names],
                names.get(row.model_chose or 0),
                names.get(row.embedding_chose or 0),
                row.model_at or row.embedding_at,
                row.group,
            )
        )
    return shown


def _texts(source: str, ids: Sequence[int | None]) -> dict[tuple[str, int], tuple[str, int]]:
    if source == Source.BENCHMARK:
        rows = LabelledOutcome.objects.filter(item__in=ids)
        columns = ("item", "item__data__query", "item__benchmark")
    elif source == Source.SAMPLE:
        rows = LabelledOutcome.objects.filter(sample__in=ids)
        columns = ("sample", "sample__query", "sample")
    else:
        rows = LabelledOutcome.objects.filter(request__in=ids)
        columns = ("request", "request__query", "request")
    return {(source, pk): (text or "", page) for pk, text, page in rows.values_list(*columns)}


class ProductionMiss(NamedTuple):
    """An answer that was reported wrong. `expected` may be empty; `text` and `comment` too, see ShownOutcome."""

    id: int
    at: datetime
    chosen: str
    expected: list[str]
    text: str
    comment: str
    url: str


def production_misses(reader: Any, *, domain: str = "", tools: Iterable[int] = ()) -> list[ProductionMiss]:
    """Reported wrong in the window, about tools of the domain or about these (of a cluster: its `tool_ids`): expected,
    or answered first. The newest first, at most MOST_MISSES; two queries."""
    chosen = Tool.objects.filter(domain=domain) if domain else Tool.objects.filter(pk__in=list(tools))
    names = set(chosen.order_by().values_list("name", flat=True))
    may_read = may(reader, PAGES[Source.PRODUCTION])
    wrong = reported().filter(verdict=RetrievalRequest.Verdict.WRONG)
    recent = wrong.filter(at__gte=timezone.now() - timedelta(days=WINDOW)).order_by("-pk")
    columns = ("pk", "at", "tools", "expected", "query", "comment", "verdict")
    found = []
    for pk, at, answered, expected, query, comment, verdict in recent.values_list(*columns):
        about = {*answered[:1], *label_of(verdict, expected, answered)}
        if about & names:
            text, said = (query, comment) if may_read else ("", "")
            url = reverse(PAGES[Source.PRODUCTION], args=[pk]) if may_read else ""
            first = answered[0] if answered else ""
            found.append(ProductionMiss(pk, at, first, expected, text, said, url))
        if len(found) == MOST_MISSES:
            break
    return found


# What closing gaps would save, and what it would take.


@dataclass(frozen=True)
class Plan:
    """`found`: wrong answers saved in `found.requests` requests of the window; `samples`: a rule a gap, as many samples
    as rules are filled up to; `cost`: calls, tokens, money and time to write them, each with what it rests on."""

    found: WhatIf
    rules: int
    samples: int
    cost: Estimate


def plan_of(domain: str, chosen: Iterable[int], *, writer: str = "") -> Plan:
    """Of these clusters of the domain; what is no gap of its newest clustering is left out. Four queries, and those of
    the estimate."""
    rows = ClusterRollup.objects.filter(clustering__domain=domain, pk__in=list(chosen))
    gaps = list(rows.exclude(open_tools=[]))
    tools = [tool for gap in gaps for tool in gap.open_tools]
    rollups = {row.pk: row for row in ToolRollup.objects.filter(pk__in=tools)}
    tallies = {pk: Tally(row.n, row.wrong, row.uncovered, row.covered) for pk, row in rollups.items()}
    terms: list[Term] = gap_terms(tools, tallies, {pk: row.traffic for pk, row in rollups.items()})
    figures = DomainRollup.objects.filter(domain=domain).values_list("covered_n", "covered_wrong").first()
    n, wrong = figures or (0, 0)
    per_rule = LoopSettings.now().per_rule
    cost = estimate_new([per_rule] * len(gaps), writer=writer)
    found = what_if(len(gaps), terms, Tally(n=n, covered=wrong))
    return Plan(found, len(gaps), per_rule * len(gaps), cost)
