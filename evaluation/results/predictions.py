"""Reads of single predictions: lists with filters, two evaluations paired, what touches one tool or one rule."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT

from catalog.models import Tool
from evaluation.benchmarks.selectors import RESULTS, newest_benchmarks, retrieval_benchmarks
from evaluation.core.metrics import METRICS, RANKED_DECODES, cited_codes
from evaluation.core.stats import compare
from evaluation.models import Benchmark, BenchmarkItem, Evaluation, Prediction
from rules.models import Rule
from training.models import AliasMove

LETTERS = Evaluation.Decode.LETTERS
SHOWN = 10
# what an answer is to its trace: what it is called and which it is; none where it was not measured
TRACES = {
    "follows": ("follows its trace", Q(output__follows_trace=True)),
    "differs": ("differs from its trace", Q(output__follows_trace=False) & ~Q(output__trace_tools=[])),
    "silent": ("its trace names no tool", Q(output__follows_trace=False, output__trace_tools=[])),
}
FOLDED = 3  # tools of a list that a row shows before the rest is folded away


def main_metric(of: Evaluation) -> str:
    """The score that says whether one prediction is right."""
    if of.decode == LETTERS:
        return "accuracy"
    if of.benchmark.kind == Benchmark.Kind.OUTSIDE:
        return "refused"
    return "hit@1" if of.decode in RANKED_DECODES else "recall@gen"


def predictions(of: Evaluation, filters: dict[str, str]) -> QuerySet[Prediction]:
    """With their items; filters: only=wrong|right, trace=TRACES, group, domain, q, and a rule's code: rule=that
    decides, needless=that a trace cites and that does not decide."""
    found = of.predictions.select_related("item")
    for name, column in (
        ("domain", "item__domain"),
        ("rule", "item__data__rule"),
        ("group", "scores__group"),
    ):
        if filters.get(name):
            found = found.filter(**{column: filters[name]})
    if words := filters.get("q"):
        found = found.filter(Q(item__data__query__icontains=words) | Q(item__data__question__icontains=words))
    if filters.get("needless"):
        found = cites_needlessly(found, filters["needless"])
    if filters.get("trace") in TRACES:
        found = found.filter(TRACES[filters["trace"]][1])
    if filters.get("only"):
        right = found.filter(**{f"scores__{main_metric(of)}__gte": 1}).values("pk")
        found = found.filter(pk__in=right) if filters["only"] == "right" else found.exclude(pk__in=right)
    return found


def cites_needlessly(rows: QuerySet[Prediction], code: str) -> QuerySet[Prediction]:
    """Those whose trace names a rule that does not decide the request."""
    cited = rows.annotate(trace=KT("output__trace")).filter(trace__regex=rf"\m{re.escape(code)}\M")
    return cited.filter(~Q(item__data__rule=code) | Q(item__data__rule__isnull=True))


@dataclass(frozen=True, slots=True)
class ShownPrediction:
    """One prediction as the table shows it."""

    prediction: Prediction
    text: str
    gold: list[str]
    given: list[tuple[str, bool]]
    right: bool
    cited: Sequence[str] = ()
    group: str = ""
    trace: str = ""  # one of TRACES
    ends_with: Sequence[str] = ()

    @property
    def later(self) -> list[int]:
        """Places of right tools that the table folds away."""
        return [place for place, (_, right) in enumerate(self.given, start=1) if right and place > FOLDED]


def shown(rows: Sequence[Prediction], of: Evaluation) -> list[ShownPrediction]:
    has_traces = of.decode not in RANKED_DECODES
    codes = list(Rule.objects.values_list("code", flat=True)) if has_traces else []
    return [shown_one(row, of, codes) for row in rows]


def shown_one(row: Prediction, of: Evaluation, codes: Sequence[str]) -> ShownPrediction:
    data, output = row.item.data, row.output
    right = row.scores.get(main_metric(of), 0) >= 1
    if of.decode == LETTERS:
        options = dict(zip(ascii_uppercase, data.get("choices", ()), strict=False))
        letter = output.get("letter", "")
        gold = [f"{data['answer']}: {options.get(data['answer'], '')}"]
        given = [(f"{letter}: {options.get(letter, '')}", right)] if letter else []
        return ShownPrediction(row, data.get("question", ""), gold, given, right)
    gold, tools = data["tools"], output.get("tools", [])[:SHOWN]
    trace = ""
    if output.get("follows_trace") is not None:
        trace = "follows" if output["follows_trace"] else "differs" if output["trace_tools"] else "silent"
    return ShownPrediction(
        row,
        data["query"],
        gold,
        given=[(name, name in gold) for name in tools],
        right=right,
        cited=cited_codes(str(output.get("trace", "")), codes),
        group=row.scores.get("group", ""),
        trace=trace,
        ends_with=output.get("trace_tools", ()),
    )


def compared(a: Evaluation, b: Evaluation, group: str = "") -> tuple[list[dict[str, Any]], int]:
    """[{"metric", "title", "a", "b", "result"}]: paired differences on every metric both have; and over how many
    queries."""
    sides: list[dict[int, dict[str, Any]]] = []
    for of in (a, b):
        found = of.predictions.filter(scores__group=group) if group else of.predictions.all()
        sides.append(dict(found.values_list("item_id", "scores")))
    shared = sorted(sides[0].keys() & sides[1].keys())
    rows = []
    for name, metric in METRICS.items() if shared else ():
        if all(name in side[shared[0]] for side in sides):
            ours, theirs = ([float(side[item][name]) for item in shared] for side in sides)
            means = {"a": sum(ours) / len(ours), "b": sum(theirs) / len(theirs)}
            result = compare(ours, theirs, seed=a.seed)
            rows.append({"metric": name, "title": metric.title, **means, "result": result})
    return rows, len(shared)


def tool_queries(tool: Tool) -> dict[str, Any]:
    """Benchmark queries this tool is gold for, and whether the champion, writing a trace, finds all of their tools."""
    chosen = retrieval_benchmarks(newest_benchmarks())
    items = BenchmarkItem.objects.filter(benchmark__in=chosen, data__tools__contains=[tool.name])
    found = list(items.select_related("benchmark").order_by("benchmark", "position")[:20])
    champion = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION).first()
    asked = Evaluation.objects.filter(
        RESULTS, model=champion.model_id if champion else 0, decode=Evaluation.Decode.TRACE
    )
    made = Prediction.objects.filter(evaluation__in=asked, item__in=found).order_by("evaluation")
    found_it = {item: scores["recall@gen"] >= 1 for item, scores in made.values_list("item", "scores")}
    rows = [(item, found_it.get(item.pk)) for item in found]
    return {"champion": champion if found_it else None, "rows": rows}
