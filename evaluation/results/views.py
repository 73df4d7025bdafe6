"""Pages of results: one evaluation with its predictions, two compared, one model or tool."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from catalog.models import Tool
from evaluation.benchmarks import selectors
from evaluation.benchmarks.selectors import evaluations, score_bar
from evaluation.core.coverage import COVERED, GROUPS, UNCOVERED
from evaluation.models import Benchmark
from evaluation.results import predictions as reads
from synthesis.samples.lineage import Made
from trace_site.lib.charts import bar_chart
from trace_site.paging import keyset, number_of
from training.models import Model

FILTERS = ("only", "trace", "group", "domain", "q", "rule", "needless")


@require_GET
def evaluation_detail(request: HttpRequest, pk: int) -> HttpResponse:
    evaluation = get_object_or_404(evaluations(), pk=pk)
    filters = {name: request.GET.get(name, "") for name in FILTERS}
    found = reads.predictions(evaluation, filters)
    page = keyset(found, request.GET.get("after", ""))
    context = {
        "evaluation": evaluation,
        "name": selectors.model_name(evaluation.model),
        "slices": selectors.slice_rows(evaluation),
        "filters": filters,
        "page": page,
        "shown": reads.shown(page.rows, evaluation),
        "groups": GROUPS,
        "traces": [(key, label) for key, (label, _) in reads.TRACES.items()]
        if evaluation.decode in selectors.TRACED
        else [],
        "total": found.count(),
        "others": evaluations().filter(benchmark=evaluation.benchmark, metrics__isnull=False).exclude(pk=pk),
    }
    return render(request, "evaluation/evaluation_detail.html", context)


@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """Model A minus model B on the queries both answered."""
    a, b = (evaluations().filter(pk=number_of(request.GET.get(name, ""))).first() for name in ("a", "b"))
    group = request.GET.get("group", "")
    options = evaluations().filter(metrics__isnull=False).order_by("benchmark__name", "-pk")
    context: dict[str, Any] = {"a": a, "b": b, "group": group, "options": options}
    context["groups"] = (COVERED, UNCOVERED)
    if a and b:
        context["mismatch"] = a.benchmark_id != b.benchmark_id
        if not context["mismatch"]:
            context["rows"], context["n"] = reads.compared(a, b, group)
            context |= {f"name_{side}": selectors.model_name(of.model) for side, of in (("a", a), ("b", b))}
    return render(request, "evaluation/compare.html", context)


@require_GET
def benchmark_detail(request: HttpRequest, pk: int) -> HttpResponse:
    benchmark = get_object_or_404(Benchmark, pk=pk)
    page = keyset(benchmark.items.select_related("query"), request.GET.get("after", ""))
    return render(request, "evaluation/benchmark_detail.html", {"benchmark": benchmark, "page": page})


@require_GET
def model_scores(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment for a model's page: what it scored on every benchmark."""
    model = get_object_or_404(Model.objects.select_related("run"), pk=pk)
    found = evaluations().filter(model=model).order_by("benchmark__kind", "benchmark__name", "decode")
    bars = [bar for bar in map(score_bar, found) if bar]
    chart = bar_chart("What does it find, and what does it know?", bars) if bars else None
    return render(
        request, "evaluation/_model_scores.html", {"model": model, "evaluations": found, "chart": chart}
    )


@require_GET
def tool_benchmark(request: HttpRequest, tool_id: int) -> HttpResponse:
    """Fragment for a tool's page: benchmark queries it is gold for."""
    tool = get_object_or_404(Tool.objects.only("pk", "name"), pk=tool_id)
    return render(request, "evaluation/_tool_benchmark.html", {"tool": tool, **reads.tool_queries(tool)})


def made_of_snapshots(snapshots: list[int]) -> Iterator[Made]:
    """How models made of snapshots were evaluated, for the lineage of a sample; one query."""
    for row in evaluations().filter(model__run__snapshot__in=snapshots).order_by("pk"):
        state = "done" if row.metrics else row.job.state if row.job else ""
        bar = score_bar(row) if row.metrics else None
        about = f"{bar.value:.2f} {bar.note}, n = {bar.n}" if bar else row.decode
        address = reverse("evaluation:detail", args=[row.pk])
        yield Made("evaluation", row.pk, row.model_id or 0, row.benchmark.title, address, state, about)
