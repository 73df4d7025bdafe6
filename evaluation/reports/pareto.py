"""Samples a rule against what they cost: k of the snapshot, R@gen on requests and accuracy on MCQ_expert (the paper's
Pareto sweep).

Models lie on one line when they share format, Stage 1, base, seed, recipe and catalog and the way samples were added:
then they differ in k, and in the other samples only as far as their snapshots do, whose numbers stand beside them.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from evaluation.benchmarks.selectors import (
    evaluations,
    mixed_backends,
    newest_benchmarks,
    retrieval_benchmarks,
)
from evaluation.core.metrics import ALL, METRICS
from evaluation.models import Benchmark, Evaluation
from evaluation.reports.grid import models
from evaluation.reports.measures import Cell, Column, cell, domains, why_missing
from evaluation.taught.control import recipe
from trace_site.lib.charts import LineChart, Series, line_chart
from trace_site.lib.files import content_hash
from training.models import Model, Run

SWEPT = (Run.Retrieval.REASONED, Run.Retrieval.RULES)
# what is asked of requests: decoding and metric
RECALLS = {
    "trace": (Evaluation.Decode.TRACE, "recall@gen"),
    "trace-free": (Evaluation.Decode.TRACE_FREE, "recall@gen"),
    "fast": (Evaluation.Decode.FAST, "recall@1"),
}


@dataclass(slots=True)
class Point:
    """One model: k samples a rule (0: it learned from none), the recall and the accuracy it came to."""

    model: Model
    k: int
    recall: Cell
    accuracy: Cell
    best: bool = False  # no other model is at least as good at both and better at one

    @property
    def line(self) -> tuple[Any, ...]:
        run = self.model.run
        return run.format, run.memo, run.base, run.seed, run.snapshot.catalog_hash, content_hash(recipe(run))

    @property
    def strategy(self) -> str:
        return self.model.run.snapshot.strategy if self.k else ""

    @property
    def both(self) -> tuple[float, float] | None:
        recall, accuracy = self.recall.value.get("mean"), self.accuracy.value.get("mean")
        return None if recall is None or accuracy is None else (recall, accuracy)


@require_GET
def pareto(request: HttpRequest) -> HttpResponse:
    """Four queries, however many models there are."""
    tests = newest_benchmarks()
    asked, experts = (
        retrieval_benchmarks(tests),
        [one for one in tests if one.kind == Benchmark.Kind.MCQ_EXPERT],
    )
    benchmark = chosen(asked, request.GET.get("benchmark", ""))
    expert = chosen(experts, request.GET.get("expert", ""))
    by = request.GET.get("by", "")
    by = by if by in RECALLS else "trace"
    domain = request.GET.get("domain", ALL)
    decode, metric = RECALLS[by]
    found = evaluations().filter(
        benchmark__in=[one for one in (benchmark, expert) if one],
        decode__in=(decode, Evaluation.Decode.LETTERS),
        model__run__retrieval__in=SWEPT,
        metrics__isnull=False,
    )
    known = {(one.model_id, one.benchmark_id): one for one in found.order_by("pk")}
    points = []
    for model in models().filter(run__retrieval__in=SWEPT).order_by("pk"):
        cells = [
            cell(known.get((model.pk, of.pk)), Column(of, at, name, ""), why_missing(model, with_))
            if of
            else Cell({}, why="no benchmark")
            for of, at, name, with_ in (
                (benchmark, domain, metric, decode),
                (expert, ALL, "accuracy", Evaluation.Decode.LETTERS),
            )
        ]
        learned = model.run.retrieval == Run.Retrieval.RULES
        points.append(Point(model, model.run.snapshot.per_rule if learned else 0, cells[0], cells[1]))
    points.sort(key=lambda one: (one.line, one.strategy, one.k, one.model.pk))
    mark_best(points)
    title = METRICS[metric].title
    context = {
        "points": points,
        "benchmarks": asked,
        "benchmark": benchmark,
        "experts": experts,
        "expert": expert,
        "by": by,
        "bys": {name: f"{METRICS[one].title}, {name}" for name, (_, one) in RECALLS.items()},
        "title": title,
        "domain": domain,
        "domains": domains(one for one in known.values() if benchmark and one.benchmark_id == benchmark.pk),
        "charts": [
            chart(points, "recall", f"What do more samples per rule add to {title}?", title),
            chart(points, "accuracy", "What do they cost in MCQ_expert?", "accuracy", expert),
        ],
        "mixed": mixed_backends(known.values()),
        "has_pocket": any(one.model.run.base == "pocket" for one in points),
    }
    return render(request, "evaluation/pareto.html", context)


def chosen(tests: list[Benchmark], name: str) -> Benchmark | None:
    return next((one for one in tests if one.name == name), tests[0] if tests else None)


def mark_best(points: list[Point]) -> None:
    """By the point estimates: intervals overlap, so this names candidates for a paired comparison, not winners."""
    known = [(one, one.both) for one in points]
    for one, own in known:
        if own is not None:
            others = [both for other, both in known if both is not None and other is not one]
            one.best = not any(
                all(a >= b for a, b in zip(both, own, strict=True)) and both != own for both in others
            )


def chart(
    points: list[Point], part: str, title: str, label: str, expert: Benchmark | None = None
) -> LineChart | None:
    """A curve a line of models; k = 0 is the model without rule samples, which every strategy starts from. The band
    reaches from the lowest to the highest bound of the intervals at a k. None with fewer than two values of k."""
    lines: defaultdict[tuple[Any, ...], dict[int, list[dict[str, Any]]]] = defaultdict(dict)
    strategies: defaultdict[tuple[Any, ...], set[str]] = defaultdict(set)
    for one in points:
        if one.k:
            strategies[one.line].add(one.strategy)
    for one in points:
        value = getattr(one, part).value
        if value:
            for strategy in [one.strategy] if one.k else strategies[one.line]:
                lines[(*one.line, strategy)].setdefault(one.k, []).append(value)
    series = []
    for (form, memo, base, seed, _, _, strategy), by_k in lines.items():
        if len(by_k) > 1:
            ks = sorted(by_k)
            means = [(float(k), sum(one["mean"] for one in by_k[k]) / len(by_k[k])) for k in ks]
            band = [
                (float(k), min(one["low"] for one in by_k[k]), max(one["high"] for one in by_k[k]))
                for k in ks
            ]
            series.append(Series(f"({form}, {memo}) {base}, {strategy}, seed {seed}", means, band))
    note = f"guessing {expert.random_baseline:.2f}" if expert and expert.random_baseline else ""
    return (
        line_chart(title, series, x_label="samples per rule (k)", y_label=label, note=note)
        if series
        else None
    )
