"""Reads of single answers: lists with filters, two evaluations paired, what touches one tool or one rule."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import numpy as np
from django.db.models import Avg, F, FloatField, Func, IntegerField, Q, QuerySet
from django.db.models.fields.json import KT

from catalog.models import Tool
from evaluation.benchmarks.selectors import RESULTS, metrics_of, newest_benchmarks, retrieval_benchmarks
from evaluation.core.metrics import METRICS
from evaluation.core.paired import score_interval
from evaluation.coverage.grouped import Sorting, group_filter, sorting_now
from evaluation.models import Answer, Benchmark, Evaluation, LabelledRequest
from rules.models import Rule
from synthesis.samples.checks import Span, trace_spans
from training.models import AliasMove

LETTERS = Evaluation.Decode.LETTERS
SHOWN = 10
MOST_TOOLS = 10_000
# what an answer is to its trace: what it is called and which it is; none where it was not measured
TRACES = {
    "follows": ("follows its trace", Q(output__follows_trace=True)),
    "differs": ("differs from its trace", Q(output__follows_trace=False) & ~Q(output__trace_tools=[])),
    "silent": ("its trace names no tool", Q(output__follows_trace=False, output__trace_tools=[])),
}
# what a trace cites, as a filter of answers
CITED = {
    "yes": "cites a rule",
    "no": "cites no rule",
    "right": "cites the rule that decides",
    "wrong": "a rule decides that it does not cite",
}
FOLDED = 3  # tools of a list that a row shows before the rest is folded away


def answers(of: Evaluation, filters: Mapping[str, str]) -> QuerySet[Answer]:
    """With their items; filters: only=wrong|right, trace=TRACES, cited=CITED, group, domain, tier, style, side, q, and
    a rule's code: rule=that decides, needless=that a trace cites and that does not decide."""
    found = of.answers.select_related("item")
    for name, column in (
        ("domain", "item__domain"),
        ("rule", "item__data__rule"),
        ("style", "item__data__style"),
        ("side", "item__data__side"),
        ("clause", "output__clause"),
    ):
        if filters.get(name):
            found = found.filter(**{column: filters[name]})
    if filters.get("group"):
        found = found.filter(group_filter(of, filters["group"]))
    if filters.get("tier"):
        found = of_tier(found, filters["tier"])
    if filters.get("cited") in CITED:
        found = citing(found, filters["cited"])
    if words := filters.get("q"):
        found = found.filter(Q(item__data__query__icontains=words) | Q(item__data__question__icontains=words))
    if filters.get("needless"):
        found = cites_needlessly(found, filters["needless"])
    if filters.get("trace") in TRACES:
        found = found.filter(TRACES[filters["trace"]][1])
    if filters.get("only"):
        right = found.filter(**{f"scores__{metrics_of(of)[0]}__gte": 1}).values("pk")
        found = found.filter(pk__in=right) if filters["only"] == "right" else found.exclude(pk__in=right)
    return found


def of_tier(rows: QuerySet[Answer], tier: str) -> QuerySet[Answer]:
    """As `core.items.tier_of` says: an item's own tier, else by its number of right tools."""
    many = Func(F("item__data__tools"), function="jsonb_array_length", output_field=IntegerField())
    bounds = {"easy": (1, 1), "medium": (2, 3), "hard": (4, MOST_TOOLS)}.get(tier)
    own = Q(item__data__tier=tier)
    if bounds is None:
        return rows.filter(own)
    counted = rows.annotate(many=many)
    return counted.filter(own | (Q(item__data__tier__isnull=True) & Q(many__range=bounds)))


def citing(rows: QuerySet[Answer], which: str) -> QuerySet[Answer]:
    """Those whose trace cites as CITED says."""
    if which in ("yes", "no"):
        none = Q(scores__cited=[]) | Q(scores__cited__isnull=True)
        return rows.filter(none if which == "no" else ~none)
    decided = rows.filter(item__data__rule__isnull=False).exclude(item__data__rule=None)
    right = decided.filter(scores__cited__contains=F("item__data__rule"))
    return right if which == "right" else decided.exclude(pk__in=right.values("pk"))


def cites_needlessly(rows: QuerySet[Answer], code: str) -> QuerySet[Answer]:
    """Those whose trace names a rule that does not decide the request."""
    cited = rows.annotate(trace=KT("output__trace")).filter(trace__regex=rf"\m{re.escape(code)}\M")
    return cited.filter(~Q(item__data__rule=code) | Q(item__data__rule__isnull=True))


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """One answer as the table shows it."""

    answer: Answer
    text: str
    gold: list[str]
    given: list[tuple[str, bool]]
    right: bool
    cited: Sequence[tuple[str, int | None]] = ()  # code, id of its rule
    decides: tuple[str, int | None] | None = None  # the rule that decides it
    group: str = ""
    trace: str = ""  # one of TRACES
    ends_with: Sequence[str] = ()
    spans: Sequence[Span] = ()
    wrote: str = ""  # by a language model, where the trace was written out from it

    @property
    def later(self) -> list[int]:
        """Places of right tools that the table folds away."""
        return [place for place, (_, right) in enumerate(self.given, start=1) if right and place > FOLDED]

    @property
    def cites_right(self) -> bool:
        return self.decides is not None and self.decides in self.cited


def shown(rows: Sequence[Answer], of: Evaluation, metric: str = "") -> list[ShownAnswer]:
    """`metric`: what says that an answer is right. Two queries."""
    metric = metric or metrics_of(of)[0]
    if of.decode == LETTERS:
        return [_letter(row, metric) for row in rows]
    known: dict[str, int] = {}
    if rows:
        codes = {str(row.item.data.get("rule")) for row in rows} | {
            code for row in rows for code in row.scores.get("cited", ())
        }
        known = dict(Rule.objects.filter(code__in=codes).values_list("code", "pk"))
    sorting = sorting_now() if of.benchmark.kind == Benchmark.Kind.PRB else None
    return [_list(row, of, metric, known, sorting) for row in rows]


def _letter(row: Answer, metric: str) -> ShownAnswer:
    data, right = row.item.data, row.scores.get(metric, 0) >= 1
    options = dict(zip(ascii_uppercase, data.get("choices", ()), strict=False))
    letter = row.output.get("letter", "")
    gold = [f"{data['answer']}: {options.get(data['answer'], '')}"]
    given = [(f"{letter}: {options.get(letter, '')}", right)] if letter else []
    return ShownAnswer(row, data.get("question", ""), gold, given, right)


def _list(
    row: Answer, of: Evaluation, metric: str, rules: Mapping[str, int], sorting: Sorting | None
) -> ShownAnswer:
    data, output, text = row.item.data, row.output, str(row.output.get("trace") or "")
    gold, tools = data["tools"], output.get("tools", [])[:SHOWN]
    trace = ""
    if output.get("follows_trace") is not None:
        trace = "follows" if output["follows_trace"] else "differs" if output["trace_tools"] else "silent"
    cited = row.scores.get("cited") or ()
    names = {*gold, *tools, *output.get("trace_tools", ())}
    rule = data.get("rule")
    return ShownAnswer(
        row,
        data["query"],
        gold,
        given=[(name, name in gold) for name in tools],
        right=row.scores.get(metric, 0) >= 1,
        cited=[(code, rules.get(code)) for code in cited],
        decides=(str(rule), rules.get(str(rule))) if rule else None,
        group=sorting.of(of.benchmark_id).get(row.item_id, "") if sorting else "",
        trace=trace,
        ends_with=output.get("trace_tools", ()),
        spans=trace_spans(text, names, gold, cited) if text else (),
        wrote=str(output.get("wrote") or ""),
    )


# Two evaluations of one benchmark, query by query.

EITHER = {
    "": "one of the two is right",
    "a": "only A is right",
    "b": "only B is right",
    "both": "both are right",
    "none": "neither is right",
}


@dataclass(frozen=True, slots=True)
class PairedMetric:
    """A minus B over the queries both answered; `won`, `lost`: queries that one alone answers right. A length has no
    interval."""

    metric: str
    title: str
    a: float
    b: float
    won: int
    lost: int
    low: float | None = None
    high: float | None = None

    @property
    def difference(self) -> float:
        return self.a - self.b


def compared(a: Evaluation, b: Evaluation, filters: Mapping[str, str]) -> tuple[list[PairedMetric], int]:
    """Every metric both have, and over how many queries; two queries."""
    sides = [dict(answers(of, filters).values_list("item_id", "scores")) for of in (a, b)]
    shared = sorted(sides[0].keys() & sides[1].keys())
    rows = []
    for name, metric in METRICS.items() if shared else ():
        if all(name in side[shared[0]] for side in sides):
            ours, theirs = (np.array([float(side[item][name]) for item in shared]) for side in sides)
            alone = (int(np.sum((x >= 1) & (y < 1))) for x, y in ((ours, theirs), (theirs, ours)))
            gap, n = ours - theirs, np.array([len(shared)])
            won, lost = (np.array([np.clip(sign * gap, 0, None).sum()]) for sign in (1, -1))
            ends = () if metric.is_length else (float(end[0]) for end in score_interval(won, lost, n))
            means = float(ours.mean()), float(theirs.mean())
            rows.append(PairedMetric(name, metric.title, *means, *alone, *ends))
    return rows, len(shared)


def list_length(of: Evaluation, filters: Mapping[str, str]) -> float | None:
    """Mean number of tools in a list; one query. None for letters."""
    if of.decode == LETTERS:
        return None
    many = Func(F("output__tools"), function="jsonb_array_length", output_field=FloatField())
    found: float | None = answers(of, filters).aggregate(mean=Avg(many))["mean"]
    return found


def flips(a: Evaluation, b: Evaluation, filters: Mapping[str, str]) -> QuerySet[Answer]:
    """A's answers of the queries that, by a metric (`by`), A and B answer right as EITHER says (`flip`), with their
    items; other filters are those of `answers`."""
    asked, right = b.answers.all(), Q(**{f"scores__{filters['by']}__gte": 1})
    mine = answers(a, filters).filter(item__in=asked.values("item"))
    other = Q(item__in=asked.filter(right).values("item"))
    ways = {"a": right & ~other, "b": ~right & other, "both": right & other, "none": ~right & ~other}
    return mine.filter(ways.get(filters["flip"], ways["a"] | ways["b"]))


def flip_rows(
    rows: Sequence[Answer], a: Evaluation, b: Evaluation, metric: str
) -> list[tuple[ShownAnswer, ShownAnswer]]:
    """Each of A's answers beside B's; two queries, and those of `shown`."""
    others = {row.item_id: row for row in b.answers.filter(item__in=[one.item_id for one in rows])}
    theirs = []
    for row in rows:
        other = others[row.item_id]
        other.item = row.item
        theirs.append(other)
    return list(zip(shown(rows, a, metric), shown(theirs, b, metric), strict=True))


def tool_queries(tool: Tool) -> dict[str, Any]:
    """Benchmark queries this tool is gold for, and whether the champion, writing a trace, finds all of their tools."""
    chosen = retrieval_benchmarks(newest_benchmarks())
    items = LabelledRequest.objects.filter(benchmark__in=chosen, data__tools__contains=[tool.name])
    found = list(items.select_related("benchmark").order_by("benchmark", "position")[:20])
    champion = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION).first()
    asked = Evaluation.objects.filter(
        RESULTS, model=champion.model_id if champion else 0, decode=Evaluation.Decode.TRACE
    )
    made = Answer.objects.filter(evaluation__in=asked, item__in=found).order_by("evaluation")
    found_it = {item: scores["recall@gen"] >= 1 for item, scores in made.values_list("item", "scores")}
    rows = [(item, found_it.get(item.pk)) for item in found]
    return {"champion": champion if found_it else None, "rows": rows}
