"""What pages read of rollups: a domain, its gaps in order, and the requests behind every number.

Each figure is as old as `DomainRollup.at` says; only answers reported wrong are counted at the look. Shares of nothing
are None, "not measured". Texts are shown to those who may read where they are from; others get the ids.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, NamedTuple

from django.db.models import BooleanField, Count, Q, QuerySet, Window
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Now, TruncDate
from django.urls import reverse

from catalog.models import Tool
from evaluation.core.confusion import MODEL, SIDES
from evaluation.core.coverage import DONE, EXCEPTIONS, LINES, STATES, UNCOVERED
from evaluation.core.metrics import ALL
from evaluation.coverage.outcomes import WINDOW, reported
from evaluation.models import (
    ClusterRollup,
    DomainFigures,
    DomainPoint,
    DomainRollup,
    LabelledOutcome,
    RetrievalRequest,
    ToolRollup,
)
from rules.models import Rule, RuleSuggestion
from rules.suggestions.selectors import proposed
from synthesis.core.agreement import Rate, wilson
from trace_site.access import may
from trace_site.database import database_now
from trace_site.paging import number_of

Source = LabelledOutcome.Source
MOST_MISSES = 200  # production misses told at once
# where a source's texts are read, and what its ids are of
UNSPOKEN = "unspoken"  # a wrong answer although a rule decides: its clause was not chosen
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


# A domain.


def domain_rollups() -> dict[str, DomainRollup]:
    """{slug: its figures}, each with its `domain`; one query."""
    rows = DomainRollup.objects.select_related("domain").order_by("domain")
    return {row.domain_id: row for row in rows}


def confusion_by_group(figures: DomainFigures) -> dict[str, Confusion]:
    """{all, covered, exceptions, uncovered, outside: shares}; of a rollup or of a point of the trend."""
    return {group: Confusion.of(counts) for group, counts in figures.groups.items()}


def trend(domain: str, newest: int | None = None) -> list[DomainPoint]:
    """All of its figures whenever rules, clusters or the model moved, or the `newest`, the oldest first; one query."""
    return list(DomainPoint.objects.filter(domain=domain).order_by("-pk")[:newest])[::-1]


# Its clusters.


# what a state may also be chosen by: clusters of which no pair is told apart; at least 80 % of them; less
STATE_GROUPS = {
    "open": ("no_rule", "draft", "named"),
    "apart": DONE,
    "not_apart": ("no_rule", "draft", "named", "touched"),
    "counted": tuple(state for state in STATES if state != "dismissed"),
}
COSTS = {
    "wrong": Q(score__gt=0),
    "measured": Q(score__isnull=False),
    "not_measured": Q(score__isnull=True),
}


@dataclass(frozen=True, slots=True)
class ClusterFilter:
    """What a list of clusters is narrowed by; empty narrows nothing. `gaps`: any value for those with a pair that no
    rule tells apart; `owner`: a name, `any` or `nobody`; `due`: `overdue`; `first`: the first so many by rank."""

    state: str = ""
    gaps: str = ""
    cost: str = ""
    owner: str = ""
    due: str = ""
    first: str = ""
    q: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ClusterFilter":
        return cls(**{field.name: given.get(field.name, "").strip()[:200] for field in fields(cls)})

    @property
    def narrows(self) -> bool:
        return self != ClusterFilter()


GAPS = ClusterFilter(gaps="yes")


def clusters(
    domain: str, chosen: ClusterFilter = GAPS, *, after: int = 0, size: int = 0
) -> list[ClusterRollup]:
    """The domain's clusters with `cluster` (label, tool_ids, owner) by rank: the gaps in order, then the rest; those
    after a rank, so many (0: all). One query."""
    rows = narrowed(domain, chosen).filter(rank__gt=after).select_related("cluster__owner")
    ordered = rows.defer("cluster__edges").order_by("rank")
    return list(ordered[:size] if size else ordered)


def narrowed(domain: str, chosen: ClusterFilter) -> QuerySet[ClusterRollup]:
    rows = ClusterRollup.objects.filter(clustering__domain=domain)
    if chosen.gaps:
        rows = rows.exclude(open_tools=[])
    if chosen.state:
        rows = rows.filter(state__in=STATE_GROUPS.get(chosen.state, (chosen.state,)))
    if chosen.cost:
        rows = rows.filter(COSTS.get(chosen.cost, Q(pk__in=[])), ~Q(open_tools=[]))
    if chosen.owner in ("any", "nobody"):
        rows = rows.filter(cluster__owner__isnull=chosen.owner == "nobody")
    elif chosen.owner:
        rows = rows.filter(cluster__owner__username=chosen.owner)
    if chosen.due == "overdue":
        rows = rows.filter(cluster__due__lt=TruncDate(Now()))
    if first := number_of(chosen.first, 9):
        rows = rows.filter(rank__lte=first)
    for word in chosen.q.split():
        named = Tool.objects.filter(domain=domain, name__icontains=word).order_by()
        ids = list(named.values_list("pk", flat=True))
        rows = rows.filter(Q(cluster__label__icontains=word) | Q(cluster__tool_ids__overlap=ids))
    return rows


def hold_most(totals: Mapping[str, float | None]) -> dict[str, int]:
    """Of each domain with so many wrong answers expected, how many of its first gaps hold more than half of them; 0
    where none are. One query."""
    found = ClusterRollup.objects.filter(COSTS["wrong"], clustering__domain__in=totals).exclude(open_tools=[])
    scores: dict[str, list[float]] = {domain: [] for domain in totals}
    for domain, score in found.order_by("rank").values_list("clustering__domain", "score"):
        scores[domain].append(score or 0.0)

    def most(domain: str, total: float) -> int:
        held = enumerate(accumulate(scores[domain]), start=1)
        return next((place for place, so_far in held if 2 * so_far > total), 0)

    return {domain: most(domain, total) if total else 0 for domain, total in totals.items()}


def cluster_rollup(cluster: int) -> ClusterRollup | None:
    """None: it belongs to an older clustering, or was not counted yet."""
    return ClusterRollup.objects.filter(pk=cluster).first()


@dataclass(frozen=True, slots=True)
class PairConfusion:
    """`wrong` of the `n` labelled requests that `tool` answers get `chosen` first (None: no tool of the catalog);
    `unspoken` of the wrong ones although a rule decides."""

    tool: str
    chosen: str | None
    at: str  # covered, uncovered or elsewhere
    wrong: int
    n: int
    unspoken: int = 0

    @property
    def share(self) -> Rate | None:
        return share(self.wrong, self.n)


def pair_confusion(found: QuerySet[LabelledOutcome], side: str = MODEL) -> list[PairConfusion]:
    """Right tool -> chosen tool over these outcomes, the most often first; three queries."""
    columns = (f"{side}_tool", f"{side}_chose", f"{side}_at")
    wrong = found.filter(**{f"{side}_wrong": True}).order_by()
    counted = list(wrong.values_list(*columns).annotate(many=Count("pk"), unspoken=Count("unspoken")))
    ids = {pk for tool, chosen, *_ in counted for pk in (tool, chosen) if pk}
    names = dict(Tool.objects.filter(pk__in=ids).values_list("pk", "name"))
    n_field = "n" if side == MODEL else "n_embedding"
    asked = dict(ToolRollup.objects.filter(pk__in=ids).values_list("pk", n_field))
    rows = [
        PairConfusion(names[tool], names.get(chosen), at, many, asked.get(tool, 0), unspoken)
        for tool, chosen, at, many, unspoken in counted
        if tool in names
    ]
    return sorted(rows, key=lambda row: (-row.wrong, row.tool, row.chosen or ""))


# The requests behind the numbers.


def outcomes(
    *,
    domain: str = "",
    cluster: int = 0,
    group: str = "",
    source: str = "",
    wrong: str = "",
    at: str = "",
    asked: str = "",
    tools: Iterable[int] = (),
) -> QuerySet[LabelledOutcome]:
    """Exactly the labelled requests that a figure counts. `wrong`: of a side (model, embedding); `at`: of its wrong
    answers those at covered or uncovered pairs, in `cluster` where that is given, or UNSPOKEN; without a model read the
    embedding's side (`side_of`). `asked`: `both` for those that both sides were asked; `tools`: a right tool is one of
    these."""
    found = LabelledOutcome.objects.all()
    if asked == "both":
        found = found.filter(**{f"{side}_wrong__isnull": False for side in SIDES})
    if tools:
        found = found.filter(gold__overlap=list(tools))
    if domain:
        found = found.filter(domain=domain)
    if cluster:
        found = found.filter(clusters__contains=[cluster])
    if group == EXCEPTIONS:
        found = found.filter(is_exception=True)
    elif group and group != ALL:
        found = found.filter(group=group)
    if source:
        found = found.filter(source=source)
    if wrong:
        found = found.filter(**{f"{wrong}_wrong": True})
    if at == UNSPOKEN:
        found = found.filter(unspoken__isnull=False)
    elif wrong and at:
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
class Asked:
    """Labelled requests of one group: `n` and `wrong` of the side that is shown, `gap`: those wrong at a pair that no
    rule tells apart, `unspoken`: those wrong although a rule decides, whose clause was not chosen; of the `both` that
    each side was asked, the wrong ones of each."""

    n: int = 0
    wrong: int = 0
    gap: int = 0
    unspoken: int = 0
    both: int = 0
    ours: int = 0
    theirs: int = 0


def asked_by_group(domains: Collection[str], side: str) -> dict[str, dict[str, Asked]]:
    """{domain: {all, covered, exceptions, uncovered, outside: counts}} from one query, so that what stands beside each
    other is of the same requests."""
    columns = ("domain", "group", "model_wrong", "embedding_wrong", f"{side}_at", "is_exception")
    rows: Any = LabelledOutcome.objects.filter(domain__in=domains).order_by()
    alike = rows.values_list(*columns, Q(unspoken__isnull=False)).annotate(Count("pk"))
    found = {domain: {group: Counter[str]() for group in (ALL, *LINES)} for domain in domains}
    for domain, group, ours, theirs, at, is_exception, unspoken, many in alike:
        both = ours is not None and theirs is not None
        counts = {
            "n": True,
            "wrong": ours if side == MODEL else theirs,
            "gap": at == UNCOVERED,
            "unspoken": unspoken,
            "both": both,
            "ours": both and ours,
            "theirs": both and theirs,
        }
        of = {name: many for name, counted in counts.items() if counted}
        found[domain][ALL].update(of)
        found[domain][group].update(of)
        if is_exception:
            found[domain][EXCEPTIONS].update(of)
    return {domain: {group: Asked(**of) for group, of in groups.items()} for domain, groups in found.items()}


@dataclass(frozen=True, slots=True)
class ShownOutcome:
    """`text` is empty where the reader may not see it, or no text is kept; `url` then too. `confused`: of a wrong
    answer of the side that is shown, the right tool it counts at and the one that was chosen (None: no tool)."""

    id: int
    source: str
    of: int  # id of the benchmark item, sample or request
    text: str
    url: str
    right: list[str]
    chosen: str | None
    embedding: str | None
    group: str
    model_wrong: bool | None  # None: not asked
    embedding_wrong: bool | None
    confused: tuple[str, str | None] | None
    unspoken: tuple[int, str] | None  # id and code of the rule that decides, whose clause was not chosen


def shown_outcomes(found: Iterable[LabelledOutcome], reader: Any) -> list[ShownOutcome]:
    """A part of `outcomes(...)` for a page; at most four queries. Select nothing related before."""
    rows = list(found)
    readable = {source for source, route in PAGES.items() if may(reader, route)}
    told = _texts([row for row in rows if row.source in readable])
    tools = {pk for row in rows for pk in (*row.gold, row.model_chose, row.embedding_chose) if pk}
    names = dict(Tool.objects.filter(pk__in=tools).order_by().values_list("pk", "name"))
    rules = {row.unspoken_id for row in rows if row.unspoken_id}
    codes = dict(Rule.objects.filter(pk__in=rules).values_list("pk", "code")) if rules else {}
    shown = []
    for row in rows:
        asked = row.model_wrong is not None
        tool = row.model_tool if asked else row.embedding_tool
        chose = row.model_chose if asked else row.embedding_chose
        shown.append(
            ShownOutcome(
                row.pk,
                row.source,
                row.item_id or row.sample_id or row.request_id or 0,
                *told.get(row.pk, ("", "")),
                [names[tool] for tool in row.gold if tool in names],
                names.get(row.model_chose or 0),
                names.get(row.embedding_chose or 0),
                row.group,
                row.model_wrong,
                row.embedding_wrong,
                (names.get(tool, ""), names.get(chose or 0)) if tool else None,
                (row.unspoken_id, codes[row.unspoken_id]) if row.unspoken_id else None,
            )
        )
    return shown


def _texts(rows: Sequence[LabelledOutcome]) -> dict[int, tuple[str, str]]:
    """{id: its text and where that stands}; one query. Of a benchmark the page that begins with its item."""
    if not rows:
        return {}
    by_id, told = {row.pk: row for row in rows}, {}
    found = LabelledOutcome.objects.filter(pk__in=by_id).order_by()
    columns = ("item__benchmark", "item__data__query", "sample__query", "request__query")
    for pk, benchmark, *texts in found.values_list("pk", *columns):
        row = by_id[pk]
        page, after = (
            (benchmark, f"?after={row.item_id - 1}") if row.item_id else (row.sample_id or row.request_id, "")
        )
        address = reverse(PAGES[Source(row.source)], args=[page])
        told[pk] = next(filter(None, texts), ""), address + after
    return told


# A gap as lists show it.

SHOWN_TOOLS, SHOWN_FAILING = 3, 2
SHOWN_COLUMNS = ("name", "version", "status", "deprecated", "description")


@dataclass(frozen=True, slots=True)
class Gap:
    """`tools`: the first few, those that are mistaken for each other first; `failing`: requests that get a look-alike
    which no rule tells apart; `suggestion`: a draft rule over two of its open tools, the strongest."""

    row: ClusterRollup
    tools: list[Tool]
    failing: list[ShownOutcome]
    suggestion: RuleSuggestion | None
    overdue: bool

    @property
    def more(self) -> int:
        return self.row.tools - len(self.tools)


def gaps_shown(rows: Sequence[ClusterRollup], reader: Any, side: str = MODEL) -> list[Gap]:
    """Clusters of one domain; at most nine queries for all."""
    home = {tool: row.pk for row in rows for tool in row.cluster.tool_ids}
    missed = LabelledOutcome.objects.filter(
        clusters__overlap=[row.pk for row in rows], **{f"{side}_at": UNCOVERED}
    )
    columns = ("pk", f"{side}_tool", f"{side}_chose")
    wrong: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for one in missed.order_by("pk").values_list(*columns):
        if one[1] in home and len(wrong[home[one[1]]]) < SHOWN_FAILING:
            wrong[home[one[1]]].append(one)
    wanted = [pk for found in wrong.values() for pk, _, _ in found]
    told = {one.id: one for one in shown_outcomes(LabelledOutcome.objects.filter(pk__in=wanted), reader)}
    first = {
        row.pk: list(
            dict.fromkeys(
                [*(pk for one in wrong[row.pk] for pk in one[1:]), *row.open_tools, *row.cluster.tool_ids]
            )
        )[:SHOWN_TOOLS]
        for row in rows
    }
    ids = [pk for of in first.values() for pk in of]
    tools = Tool.objects.only(*SHOWN_COLUMNS).order_by().in_bulk(ids)
    drafts = suggested_for([row.open_tools for row in rows])
    today = database_now().date() if any(row.cluster.due for row in rows) else None
    return [
        Gap(
            row,
            [tools[pk] for pk in first[row.pk] if pk in tools],
            [told[pk] for pk, _, _ in wrong[row.pk]],
            draft,
            bool(today and row.cluster.due and row.cluster.due < today),
        )
        for row, draft in zip(rows, drafts, strict=True)
    ]


def suggested_for(sets: Sequence[Sequence[int]]) -> list[RuleSuggestion | None]:
    """Of each set of tools the strongest suggested rule over two of them; one query."""
    every = {tool for tools in sets for tool in tools}
    found = list(proposed().filter(target__in=every).order_by("-score", "pk")) if every else []
    return [next((row for row in found if len({*row.tool_ids} & {*tools}) > 1), None) for tools in sets]


# of a request: whether it was answered with, or expects, a tool of a domain, whose names are read once
ABOUT = """
(evaluation_retrievalrequest.tools ->> 0 IN (SELECT name FROM catalog_tool WHERE domain_id = %s)) IS TRUE
OR EXISTS (SELECT 1 FROM jsonb_array_elements_text(expected) AS said (name)
           WHERE (said.name IN (SELECT name FROM catalog_tool WHERE domain_id = %s)) IS TRUE)
"""


class ProductionMiss(NamedTuple):
    """An answer that was reported wrong. `expected` may be empty; `text` and `comment` too, see ShownOutcome."""

    id: int
    at: datetime
    chosen: str
    expected: list[str]
    text: str
    comment: str
    url: str


def production_misses(domain: str, reader: Any, shown: int = MOST_MISSES) -> tuple[list[ProductionMiss], int]:
    """Reported wrong in the window, about tools of the domain: expected, or answered first. The newest first, so many,
    and how many there are in all; one query."""
    may_read = may(reader, PAGES[Source.PRODUCTION])
    wrong = reported().filter(
        RawSQL(ABOUT, [domain, domain], BooleanField()),
        verdict=RetrievalRequest.Verdict.WRONG,
        at__gte=Now() - timedelta(days=WINDOW),
    )
    columns = ("pk", "at", KeyTextTransform("0", "tools"), "expected", "query", "comment")
    rows = list(wrong.order_by("-pk").values_list(*columns, Window(Count("pk")))[:shown])
    misses = [
        ProductionMiss(
            pk,
            at,
            answered or "",
            expected,
            query if may_read else "",
            comment if may_read else "",
            reverse(PAGES[Source.PRODUCTION], args=[pk]) if may_read else "",
        )
        for pk, at, answered, expected, query, comment, _ in rows
    ]
    return misses, rows[0][-1] if rows else 0
