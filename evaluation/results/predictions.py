"""Reads of single predictions: lists with filters, two evaluations paired, what touches one tool or one rule."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT

from catalog.models import Tool
from evaluation.benchmarks.selectors import COLUMNS, ORDER, RESULTS, benchmarks, retrieval_benchmarks
from evaluation.core.coverage import STATES
from evaluation.core.metrics import cited_codes
from evaluation.core.stats import Comparison, compare
from evaluation.coverage.selectors import DomainCoverage
from evaluation.models import Benchmark, BenchmarkItem, Evaluation, Prediction
from rules.models import Rule
from training.models import AliasMove

LETTERS = Evaluation.Decode.LETTERS
RANKED = (Evaluation.Decode.FAST, Evaluation.Decode.BEAM, Evaluation.Decode.EMBEDDING)
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
    return "hit@1" if of.decode in RANKED else "recall@gen"


def predictions(of: Evaluation, filters: dict[str, str]) -> QuerySet[Prediction]:
    """With their items; filters: only=wrong|right, trace=TRACES, group, domain, q, and a rule's code: rule=that
    decides, needless=that a trace cites and that does not decide."""
    found = of.predictions.select_related("item")
    if filters.get("domain"):
        found = found.filter(item__domain=filters["domain"])
    if filters.get("q"):
        words = filters["q"]
        found = found.filter(Q(item__data__query__icontains=words) | Q(item__data__question__icontains=words))
    if filters.get("rule"):
        found = found.filter(item__data__rule=filters["rule"])
    if filters.get("needless"):
        found = cites_needlessly(found, filters["needless"])
    if filters.get("group"):
        found = found.filter(scores__group=filters["group"])
    if filters.get("trace") in TRACES:
        found = found.filter(TRACES[filters["trace"]][1])
    if filters.get("only"):
        right = found.filter(**{f"scores__{main_metric(of)}__gte": 1}).values("pk")
        found = found.filter(pk__in=right) if filters["only"] == "right" else found.exclude(pk__in=right)
    return found


def cites_needlessly(rows: QuerySet[Prediction], code: str) -> QuerySet[Prediction]:
    """Those whose trace names a rule that does not decide the request."""
    cited = rows.annotate(said=KT("output__trace")).filter(said__regex=rf"\m{re.escape(code)}\M")
    return cited.filter(~Q(item__data__rule=code) | Q(item__data__rule__isnull=True))


@dataclass(frozen=True, slots=True)
class Shown:
    """One prediction as the table shows it."""

    prediction: Prediction
    text: str
    gold: list[str]
    given: list[tuple[str, bool]]
    missed: list[str]
    right: bool
    cited: list[str]
    group: str
    trace: str = ""  # one of TRACES
    ends_with: Sequence[str] = ()

    @property
    def later(self) -> list[int]:
        """Places of right tools that the table folds away."""
        return [place for place, (_, right) in enumerate(self.given, start=1) if right and place > FOLDED]


def shown(rows: Sequence[Prediction], of: Evaluation) -> list[Shown]:
    codes = list(Rule.objects.values_list("code", flat=True)) if of.decode not in RANKED else []
    return [shown_one(row, of, codes) for row in rows]


def shown_one(row: Prediction, of: Evaluation, codes: Sequence[str]) -> Shown:
    data = row.item.data
    right = row.scores.get(main_metric(of), 0) >= 1
    if of.decode == LETTERS:
        options = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", data.get("choices", ()), strict=False))
        letter = row.output.get("letter", "")
        gold = [f"{data['answer']}: {options.get(data['answer'], '')}"]
        given = [(f"{letter}: {options.get(letter, '')}", right)] if letter else []
        return Shown(row, data.get("question", ""), gold, given, [] if right else gold, right, [], "")
    gold, tools = data["tools"], row.output.get("tools", [])[:SHOWN]
    return Shown(
        row,
        data["query"],
        gold,
        [(name, name in gold) for name in tools],
        [name for name in gold if name not in tools],
        right,
        cited_codes(str(row.output.get("trace", "")), codes),
        row.scores.get("group", ""),
        to_its_trace(row.output),
        row.output.get("trace_tools", ()),
    )


def to_its_trace(output: dict[str, Any]) -> str:
    if output.get("follows_trace") is None:
        return ""
    if output["follows_trace"]:
        return "follows"
    return "differs" if output["trace_tools"] else "silent"


@dataclass(frozen=True, slots=True)
class Compared:
    metric: str
    a: float
    b: float
    result: Comparison

    @property
    def title(self) -> str:
        """The metric as the results page heads its column."""
        return COLUMNS[self.metric][0] if self.metric in COLUMNS else self.metric.replace("_", " ")


def compared(a: Evaluation, b: Evaluation, group: str = "") -> tuple[list[Compared], int]:
    """Paired differences on every metric both have, and over how many queries."""
    left, right = item_scores(a, group), item_scores(b, group)
    shared = sorted(left.keys() & right.keys())
    if not shared:
        return [], 0
    names = [name for name in ORDER if name in left[shared[0]] and name in right[shared[0]]]
    rows = []
    for name in names:
        ours, theirs = ([float(side[item][name]) for item in shared] for side in (left, right))
        result = compare(ours, theirs, seed=a.seed)
        rows.append(Compared(name, sum(ours) / len(ours), sum(theirs) / len(theirs), result))
    return rows, len(shared)


def item_scores(of: Evaluation, group: str) -> dict[int, dict[str, Any]]:
    found = of.predictions.filter(scores__group=group) if group else of.predictions.all()
    return dict(found.values_list("item_id", "scores"))


def tool_queries(tool: Tool) -> dict[str, Any]:
    """Benchmark queries this tool is gold for, with the champion's answer in the trace where there is one."""
    chosen = retrieval_benchmarks(benchmarks())
    items = BenchmarkItem.objects.filter(benchmark__in=chosen, data__tools__contains=[tool.name])
    found = list(items.select_related("benchmark").order_by("benchmark", "position")[:20])
    champion = AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION).first()
    asked = Evaluation.objects.filter(
        RESULTS, model=champion.model_id if champion else 0, decode=Evaluation.Decode.TRACE
    )
    made = Prediction.objects.filter(evaluation__in=asked, item__in=found).order_by("evaluation")
    answers = {row.item_id: row for row in made.select_related("item", "evaluation")}
    rows = [
        (item, shown_one(row, row.evaluation, ()) if (row := answers.get(item.pk)) else None)
        for item in found
    ]
    return {"champion": champion if answers else None, "rows": rows}


# Results as lines of text for the command line.


HEADLINES = (
    "hit@1",
    "recall@1",
    "recall@5",
    "recall@10",
    "hit@10",
    "recall@gen",
    "precision@gen",
    "f1",
    "set_size",
    "refused",
)
MOST_GAPS = 10


def interval(cell: dict[str, Any]) -> str:
    return f"{cell['mean']:.3f} [{cell['low']:.3f}, {cell['high']:.3f}]"


def evaluation_lines(evaluation: Evaluation) -> Iterator[str]:
    """One line per domain and group: n, then every metric with its interval."""
    who = (
        f"model {evaluation.model_id} {evaluation.model.run.cell}"
        if evaluation.model
        else "embedding baseline"
    )
    yield f"{who} on {evaluation.benchmark.title}, {evaluation.decode}"
    if evaluation.benchmark.is_development:
        yield "  a development half: thresholds are chosen on it, so its figures are not shown"
        return
    if left_out := (evaluation.metrics or {}).get("left_out"):
        asked = f"{left_out} of {evaluation.benchmark.count} questions"
        yield f"  {asked} are about tools that Stage 1 may learn letters on: not counted"
    for domain, groups in ((evaluation.metrics or {}).get("slices") or {}).items():
        if "accuracy" in groups:
            yield f"  {domain}: n {groups['n']}  accuracy {interval(groups['accuracy'])}  chance {groups['random']:.3f}"
            continue
        for group, found in groups.items():
            cells = found["metrics"]
            shown = "  ".join(f"{name} {interval(cells[name])}" for name in HEADLINES if name in cells)
            off = found.get("off_vocabulary")
            rest = f"  off-vocabulary {off['rate']:.3f}" if evaluation.decode == "trace-free" and off else ""
            if rate := (found.get("citation") or {}).get("rate"):
                rest += f"  cites a rule {rate:.3f}"
            rest += following_words(found.get("following") or {"n": 0})
            yield f"  {domain}/{group}: n {found['n']}  {shown}{rest}"


def following_words(counts: dict[str, Any]) -> str:
    """Answers that follow their trace, of those that have one; empty where there is none or it was not measured."""
    if not counts["n"]:
        return ""
    silent = f", {counts['names_no_tool']} name no tool" if counts["names_no_tool"] else ""
    return f"  follows its trace {counts['rate']:.3f} ({counts['follows']} of {counts['n']}{silent})"


def coverage_lines(row: DomainCoverage) -> Iterator[str]:
    """The state of a domain and its costliest gaps."""
    if row.clustering is None:
        yield f"{row.domain}: {row.tools:,} tools, no clusters yet (run manage.py catalog_clusters)"
        return
    done = row.totals
    yield f"{row.domain}: {row.tools:,} tools, {row.rules} published rules"
    yield f"  clustering v{row.clustering}, tau {row.tau:.2f}"
    states = "  ".join(
        f"{state.replace('_', ' ')} {done.states[state]}" for state in STATES if done.states[state]
    )
    yield f"  {done.done} of {done.clusters} clusters resolved ({states})"
    yield f"  {done.edges_covered:,} of {done.edges:,} edges, {done.tools_covered:,} of {done.tools:,} clustered tools"
    lost = sum(len(one.outside) for one in row.outside)
    yield f"  {lost} pairs of {len(row.outside)} rules lie outside every cluster"
    if groups := row.recall.get("groups"):
        metric = "recall@gen" if row.recall["decode"] in ("trace", "trace-free") else "recall@1"
        tier = f", {row.recall['tier']} tier" if row.recall["tier"] else ""
        yield f"  {row.recall['benchmark']}{tier}, {row.recall['decode']}"
        for group, found in groups.items():
            base = row.recall["embedding"].get(group, {}).get("metrics", {}).get("recall@1")
            beside = f"   embedding recall@1 {interval(base)}" if base else ""
            yield f"  {group}: {metric} {interval(found['metrics'][metric])} n {found['n']}{beside}"
    for gap in row.gaps[:MOST_GAPS]:
        yield f"  gap {gap.gap_score:6.1f}  {gap.edges - gap.covered} of {gap.edges} edges  {gap.state:<8} {gap.label}"
    if len(row.gaps) > MOST_GAPS:
        yield f"  ... and {len(row.gaps) - MOST_GAPS} more"
