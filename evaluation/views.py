"""Pages of results: the matrix, one evaluation with its predictions, two compared, the playground."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from catalog.models import Tool
from evaluation import playground, selectors
from evaluation import selectors_predictions as reads
from evaluation.figures import predictions_url, taught_figure
from evaluation.models import Benchmark, Evaluation
from evaluation.selectors_taught import taught
from trace_site.lib.charts import bar_chart
from trace_site.paging import keyset
from training import registry
from training.models import Model
from training.selectors import alias_names

FILTERS = ("only", "trace", "group", "domain", "q", "rule", "needless")


@require_GET
def results(request: HttpRequest) -> HttpResponse:
    """Every model on one retrieval benchmark, and on every knowledge probe."""
    tests = selectors.benchmarks()
    retrieval = selectors.retrieval_benchmarks(tests)
    chosen = next((test for test in retrieval if test.name == request.GET.get("benchmark")), None)
    benchmark = chosen or (retrieval[0] if retrieval else None)
    domain = request.GET.get("domain", "all")
    snapshot = int(request.GET["snapshot"]) if request.GET.get("snapshot", "").isdecimal() else None
    rows = selectors.matrix(benchmark, domain, snapshot) if benchmark else []
    probes, probe_rows = selectors.probe_rows(snapshot)
    context = {
        "tests": tests,
        "retrieval": retrieval,
        "has_development": any(test.is_development for test in tests),
        "benchmark": benchmark,
        "domain": domain,
        "domains": selectors.domains_of(row.evaluation for row in rows) if rows else [],
        "snapshot": snapshot,
        "columns": list(selectors.COLUMNS.values()),
        "rows": rows,
        **taught_context(domain),
        "probes": probes,
        "probe_rows": probe_rows,
        "aliases": alias_names(registry.current_aliases()),
        "has_pocket": any(row.evaluation.model and row.evaluation.model.run.base == "pocket" for row in rows),
        "running": selectors.evaluations().filter(metrics=None, job__isnull=False)[:5],
    }
    return render(request, "evaluation/results.html", context)


def taught_context(domain: str) -> dict[str, Any]:
    """What the rules taught, a benchmark at a time: its figures, and the cells of every decoding."""
    found = taught()
    blocks = [
        {
            "first": parts[0],
            "figures": [figure for part in parts if (figure := taught_figure(found, part, domain))],
            "rows": [
                (part, cell, predictions_url(part, cell), cell == part.of(domain)[0])
                for part in parts
                for cell in part.of(domain)
            ],
        }
        for parts in found.benchmarks
    ]
    return {"taught": found, "blocks": blocks, "warnings": found.warnings(domain)}


@require_GET
def evaluation_detail(request: HttpRequest, pk: int) -> HttpResponse:
    evaluation = get_object_or_404(selectors.evaluations(), pk=pk)
    filters = {name: request.GET.get(name, "") for name in FILTERS}
    found = reads.predictions(evaluation, filters)
    page = keyset(found, request.GET.get("after", ""))
    context = {
        "evaluation": evaluation,
        "name": selectors.model_name(evaluation),
        "slices": selectors.slice_rows(evaluation),
        "filters": filters,
        "page": page,
        "shown": reads.shown(page.rows, evaluation),
        "groups": selectors.GROUPS[1:],
        "traces": [(key, label) for key, (label, _) in reads.TRACES.items()]
        if evaluation.decode in selectors.TRACED
        else [],
        "total": found.count(),
        "others": selectors.evaluations()
        .filter(benchmark=evaluation.benchmark, metrics__isnull=False)
        .exclude(pk=pk),
    }
    return render(request, "evaluation/evaluation_detail.html", context)


@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """Model A minus model B on the queries both answered."""
    a, b = (chosen_evaluation(request.GET.get(name, "")) for name in ("a", "b"))
    group = request.GET.get("group", "")
    options = selectors.evaluations().filter(metrics__isnull=False).order_by("benchmark__name", "-pk")
    context: dict[str, Any] = {"a": a, "b": b, "group": group, "options": options, "groups": selectors.SIDES}
    if a and b:
        context["mismatch"] = a.benchmark_id != b.benchmark_id
        if not context["mismatch"]:
            context["rows"], context["n"] = reads.compared(a, b, group)
            context["name_a"], context["name_b"] = selectors.model_name(a), selectors.model_name(b)
    return render(request, "evaluation/compare.html", context)


def chosen_evaluation(value: str) -> Evaluation | None:
    return selectors.evaluations().filter(pk=value).first() if value.isdecimal() else None


@require_GET
def benchmark_detail(request: HttpRequest, pk: int) -> HttpResponse:
    benchmark = get_object_or_404(Benchmark, pk=pk)
    page = keyset(benchmark.items.select_related("query"), request.GET.get("after", ""))
    return render(request, "evaluation/benchmark_detail.html", {"benchmark": benchmark, "page": page})


@require_GET
def model_scores(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment for a model's page: what it scored on every benchmark."""
    model = get_object_or_404(Model.objects.select_related("run"), pk=pk)
    found = selectors.for_model(model)
    bars = [bar for bar in map(selectors.score_bar, found) if bar]
    chart = bar_chart("What does it find, and what does it know?", bars) if bars else None
    return render(
        request, "evaluation/_model_scores.html", {"model": model, "evaluations": found, "chart": chart}
    )


@require_GET
def tool_benchmark(request: HttpRequest, tool_id: int) -> HttpResponse:
    """Fragment for a tool's page: benchmark queries it is gold for."""
    tool = get_object_or_404(Tool.objects.only("pk", "name"), pk=tool_id)
    return render(request, "evaluation/_tool_benchmark.html", {"tool": tool, **reads.tool_queries(tool)})


@require_GET
def playground_page(request: HttpRequest) -> HttpResponse:
    """A query, one or two models, a mode; the answers load one by one beside each other."""
    choice = playground.choice(request.GET)
    return render(request, "evaluation/playground.html", {"choice": choice, **playground.page_facts(choice)})


@require_GET
def playground_answer(request: HttpRequest) -> HttpResponse:
    """Fragment: one model's answer to the query."""
    choice = playground.choice(request.GET)
    context = playground.answered(choice) if choice.query and choice.model else {}
    return render(request, "evaluation/_answer.html", {"choice": choice, **context})
