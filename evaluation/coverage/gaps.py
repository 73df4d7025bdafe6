"""What pages read of the newest count: a domain, its gaps in order, and the requests behind every number.

Each figure is as old as the count; only answers reported wrong are counted at the look. Shares of nothing are None,
"not measured". Texts are shown to those who may read where they are from; others get the ids.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from itertools import accumulate, chain
from typing import Any, NamedTuple

from django.db.models import BooleanField, Count, Q, Window
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Now, TruncDate
from django.urls import reverse

from catalog.models import Cluster, Tool
from evaluation.core.confusion import MODEL
from evaluation.core.coverage import DONE, EXCEPTIONS, LINES, STATES, UNCOVERED
from evaluation.core.metrics import ALL
from evaluation.coverage.counted import ClusterCount, Outcome, counted
from evaluation.coverage.outcomes import WINDOW, Source, reported
from evaluation.models import DomainPoint, LabelledRequest, RetrievalRequest
from rules.models import Rule, RuleSuggestion
from rules.suggestions.selectors import proposed
from synthesis.core.agreement import Rate, wilson
from synthesis.models import Sample
from trace_site.access import may
from trace_site.database import database_now
from trace_site.paging import number_of

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


def confusion_by_group(figures: DomainPoint) -> dict[str, Confusion]:
    """{all, covered, exceptions, uncovered, outside: shares}; of now or of a point of the trend."""
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
COSTS: dict[str, Callable[[ClusterCount], bool]] = {
    "wrong": lambda row: bool(row.score),
    "measured": lambda row: row.score is not None,
    "not_measured": lambda row: row.score is None,
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
) -> list[ClusterCount]:
    """The domain's clusters with `cluster` (label, tool_ids, owner) by rank: the gaps in order, then the rest; those
    after a rank, so many (0: all)."""
    rows = [row for row in narrowed(domain, chosen) if row.rank > after]
    return with_clusters(rows[:size] if size else rows)


def with_clusters(rows: Sequence[ClusterCount]) -> list[ClusterCount]:
    """Each with its `cluster`; one query. Those that are gone are left out."""
    found = Cluster.objects.select_related("owner").defer("edges").in_bulk([row.pk for row in rows])
    shown = [copy(row) for row in rows if row.pk in found]
    for row in shown:
        row.cluster = found[row.pk]
    return shown


def narrowed(domain: str, chosen: ClusterFilter) -> list[ClusterCount]:
    """By rank; a query where it is narrowed by what somebody may have changed since."""
    rows = counted().clusters.get(domain, [])
    if chosen.gaps:
        rows = [row for row in rows if row.open_tools]
    if chosen.state:
        states = STATE_GROUPS.get(chosen.state, (chosen.state,))
        rows = [row for row in rows if row.state in states]
    if chosen.cost:
        costs = COSTS.get(chosen.cost)
        rows = [row for row in rows if costs and row.open_tools and costs(row)]
    if first := number_of(chosen.first, 9):
        rows = [row for row in rows if row.rank <= first]
    if chosen.owner or chosen.due == "overdue" or chosen.q.split():
        known = _narrowed_by_now(domain, [row.pk for row in rows], chosen)
        rows = [row for row in rows if row.pk in known]
    return rows


def _narrowed_by_now(domain: str, ids: Sequence[int], chosen: ClusterFilter) -> set[int]:
    found = Cluster.objects.filter(pk__in=ids)
    if chosen.owner in ("any", "nobody"):
        found = found.filter(owner__isnull=chosen.owner == "nobody")
    elif chosen.owner:
        found = found.filter(owner__username=chosen.owner)
    if chosen.due == "overdue":
        found = found.filter(due__lt=TruncDate(Now()))
    for word in chosen.q.split():
        named = Tool.objects.filter(domain=domain, name__icontains=word).order_by()
        tools = list(named.values_list("pk", flat=True))
        found = found.filter(Q(label__icontains=word) | Q(tool_ids__overlap=tools))
    return set(found.values_list("pk", flat=True))


def hold_most(domain: str, total: float | None) -> int:
    """Of so many wrong answers expected in a domain, how many of its first gaps hold more than half; 0 where none is
    expected."""
    scores = [row.score for row in counted().clusters.get(domain, ()) if row.open_tools and row.score]
    held = enumerate(accumulate(scores), start=1)
    return next((place for place, so_far in held if total and 2 * so_far > total), 0)


def cluster_count(domain: str, cluster: int) -> ClusterCount | None:
    """None: it belongs to an older clustering, or was not counted yet."""
    return next((row for row in counted().clusters.get(domain, ()) if row.pk == cluster), None)


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


def pair_confusion(found: Iterable[Outcome], side: str = MODEL) -> list[PairConfusion]:
    """Right tool -> chosen tool over these outcomes, the most often first; one query."""
    wrong, unspoken = Counter[Any](), Counter[Any]()
    for row in found:
        if row.wrong(side):
            wrong[row.miss(side)] += 1
            unspoken[row.miss(side)] += row.unspoken is not None
    ids = {pk for tool, chosen, _ in wrong for pk in (tool, chosen) if pk}
    names = dict(Tool.objects.filter(pk__in=ids).values_list("pk", "name"))
    asked = {tool: row.n if side == MODEL else row.n_embedding for tool, row in counted().tools.items()}
    rows = [
        PairConfusion(
            names[miss[0]], names.get(miss[1]), miss[2], many, asked.get(miss[0], 0), unspoken[miss]
        )
        for miss, many in wrong.items()
        if miss[0] in names
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
) -> list[Outcome]:
    """Exactly the labelled requests that a figure counts. `wrong`: of a side (model, embedding); `at`: of its wrong
    answers those at covered or uncovered pairs, in `cluster` where that is given, or UNSPOKEN; without a model read the
    embedding's side (`side_of`). `asked`: `both` for those that both sides were asked; `tools`: a right tool is one of
    these. A query where wrong answers of a cluster are asked for."""
    rows: Sequence[Outcome] = counted().outcomes
    if domain:
        rows = [row for row in rows if row.domain == domain]
    if cluster:
        rows = [row for row in rows if cluster in row.clusters]
    if wanted := set(tools):
        rows = [row for row in rows if not wanted.isdisjoint(row.gold)]
    if group == EXCEPTIONS:
        rows = [row for row in rows if row.is_exception]
    elif group not in ("", ALL):
        rows = [row for row in rows if row.group == group]
    if source:
        rows = [row for row in rows if row.source == source]
    if asked == "both":
        rows = [row for row in rows if row.of_both]
    if wrong:
        rows = [row for row in rows if row.wrong(wrong)]
    if at == UNSPOKEN:
        rows = [row for row in rows if row.unspoken is not None]
    elif wrong and at:
        rows = [row for row in rows if row.miss(wrong)[2] == at]
        if cluster:
            ids = Cluster.objects.filter(pk=cluster).values_list("tool_ids", flat=True)
            own = set(chain.from_iterable(ids))
            rows = [row for row in rows if row.miss(wrong)[0] in own]
    return list(rows)


def side_of(figures: DomainPoint) -> str:
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


def asked_by_group(domain: str, side: str) -> dict[str, Asked]:
    """{all, covered, exceptions, uncovered, outside: counts}."""
    found = {}
    for group in (ALL, *LINES):
        rows = outcomes(domain=domain, group=group)
        both = [row for row in rows if row.of_both]
        found[group] = Asked(
            len(rows),
            sum(bool(row.wrong(side)) for row in rows),
            sum(row.miss(side)[2] == UNCOVERED for row in rows),
            sum(row.unspoken is not None for row in rows),
            len(both),
            sum(bool(row.model_wrong) for row in both),
            sum(bool(row.embedding_wrong) for row in both),
        )
    return found


@dataclass(frozen=True, slots=True)
class ShownOutcome:
    """`text` is empty where the reader may not see it, or no text is kept; `url` then too. `confused`: of a wrong
    answer of the side that is shown, the right tool it counts at and the one that was chosen (None: no tool)."""

    source: str
    id: int  # of the benchmark item, sample or request
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


def shown_outcomes(rows: Sequence[Outcome], reader: Any) -> list[ShownOutcome]:
    """For a page; at most five queries."""
    told = _texts([row for row in rows if may(reader, PAGES[Source(row.source)])])
    tools = {pk for row in rows for pk in (*row.gold, row.model_chose, row.embedding_chose) if pk}
    names = dict(Tool.objects.filter(pk__in=tools).order_by().values_list("pk", "name"))
    rules = {row.unspoken for row in rows if row.unspoken}
    codes = dict(Rule.objects.filter(pk__in=rules).values_list("pk", "code"))
    shown = []
    for row in rows:
        tool, chose, _ = row.miss(MODEL if row.model_wrong is not None else "embedding")
        shown.append(
            ShownOutcome(
                row.source,
                row.of,
                *told.get((row.source, row.of), ("", "")),
                [names[tool] for tool in row.gold if tool in names],
                names.get(row.model_chose or 0),
                names.get(row.embedding_chose or 0),
                row.group,
                row.model_wrong,
                row.embedding_wrong,
                (names.get(tool, ""), names.get(chose or 0)) if tool else None,
                (row.unspoken, codes[row.unspoken]) if row.unspoken in codes else None,
            )
        )
    return shown


TEXTS = {
    Source.BENCHMARK: LabelledRequest.objects.values_list("pk", "data__query", "benchmark"),
    Source.SAMPLE: Sample.objects.values_list("pk", "query", "pk"),
    Source.PRODUCTION: RetrievalRequest.objects.values_list("pk", "query", "pk"),
}


def _texts(rows: Sequence[Outcome]) -> dict[tuple[str, int], tuple[str, str]]:
    """{(source, id): its text and where that stands}; a query a source. Of a benchmark the page that begins with its
    item."""
    told = {}
    for source in {row.source for row in rows}:
        ids = [row.of for row in rows if row.source == source]
        for pk, text, page in TEXTS[Source(source)].filter(pk__in=ids):
            after = f"?after={pk - 1}" if source == Source.BENCHMARK else ""
            told[source, pk] = text or "", reverse(PAGES[Source(source)], args=[page]) + after
    return told


# A gap as lists show it.

SHOWN_TOOLS, SHOWN_FAILING = 3, 2
SHOWN_COLUMNS = ("name", "version", "status", "deprecated", "description")


@dataclass(frozen=True, slots=True)
class Gap:
    """`tools`: the first few, those that are mistaken for each other first; `failing`: requests that get a look-alike
    which no rule tells apart; `suggestion`: a draft rule over two of its open tools, the strongest."""

    row: ClusterCount
    tools: list[Tool]
    failing: list[ShownOutcome]
    suggestion: RuleSuggestion | None
    overdue: bool

    @property
    def more(self) -> int:
        return self.row.tools - len(self.tools)


def gaps_shown(rows: Sequence[ClusterCount], reader: Any, side: str = MODEL) -> list[Gap]:
    """Clusters of one domain; at most nine queries for all."""
    home = {tool: row.pk for row in rows for tool in row.cluster.tool_ids}
    wrong: defaultdict[int, list[Outcome]] = defaultdict(list)
    for one in counted().outcomes:
        tool, _, at = one.miss(side)
        if at == UNCOVERED and tool in home and len(wrong[home[tool]]) < SHOWN_FAILING:
            wrong[home[tool]].append(one)
    wanted = [one for found in wrong.values() for one in found]
    told = {(one.source, one.id): one for one in shown_outcomes(wanted, reader)}
    first = {
        row.pk: list(
            dict.fromkeys(
                [
                    *(pk for one in wrong[row.pk] for pk in one.miss(side)[:2] if pk),
                    *row.open_tools,
                    *row.cluster.tool_ids,
                ]
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
            [told[one.source, one.of] for one in wrong[row.pk]],
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
