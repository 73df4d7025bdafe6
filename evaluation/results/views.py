"""Pages of results: one evaluation with its answers, two compared, one model or tool, and how far it is trusted."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from catalog.models import Tool
from evaluation.benchmarks import selectors
from evaluation.benchmarks.selectors import evaluations, newest_benchmarks
from evaluation.core.confidence import Fit, reliability
from evaluation.core.coverage import LINES
from evaluation.core.gate import CHAMPION, EMBEDDING
from evaluation.core.metrics import ALL, METRICS
from evaluation.coverage.grouped import grouped, lists_beside_baseline
from evaluation.gate.evidence import judged
from evaluation.gate.selectors import answers
from evaluation.models import Answer, Benchmark, Calibration, Evaluation
from evaluation.results import answers as reads
from evaluation.results.comparison import MODELS, compare_models
from evaluation.retrieval.calibration import NOT_CALIBRATED, REQUESTS, first_is_right
from synthesis.core.agreement import wilson
from synthesis.samples.lineage import Made
from trace_site.lib.charts import Bar, bar_chart
from trace_site.paging import keyset
from training.models import Model
from training.registry.registry import current_aliases
from training.registry.selectors import alias_names

FILTERS = (
    "only",
    "trace",
    "cited",
    "group",
    "domain",
    "tier",
    "style",
    "side",
    "clause",
    "q",
    "rule",
    "needless",
)


@require_GET
def evaluation_detail(request: HttpRequest, pk: int) -> HttpResponse:
    evaluation = get_object_or_404(evaluations(), pk=pk)
    filters = {name: request.GET.get(name, "") for name in FILTERS}
    found = reads.answers(evaluation, filters)
    page = keyset(found, request.GET.get("after", ""))
    facets = selectors.facet_rows(evaluation)
    beside = lists_beside_baseline([evaluation]).get(evaluation.pk)
    slices = selectors.slice_rows(evaluation, grouped([evaluation])[evaluation.pk], beside)
    context = {
        "evaluation": evaluation,
        "name": selectors.model_name(evaluation.model),
        "answered": selectors.clause_words(evaluation),
        "slices": slices,
        "facets": facets,
        "titles": {name: metric.title for name, metric in METRICS.items()},
        "citing": [row for row in (*slices, *facets) if row["citations"]],
        "citations": selectors.CITATIONS,
        "cited": reads.CITED,
        "chosen": [(name, filters[name]) for name in ("tier", "style", "side") if filters[name]],
        "groups": LINES if evaluation.benchmark.kind == Benchmark.Kind.PRB else (),
        "filters": filters,
        "page": page,
        "shown": reads.shown(page.rows, evaluation),
        "traces": [(key, label) for key, (label, _) in reads.TRACES.items()]
        if evaluation.decode in selectors.TRACED
        else [],
        "total": found.count(),
        "others": evaluations()
        .filter(benchmark=evaluation.benchmark, metrics__isnull=False)
        .exclude(pk=pk)
        .defer("metrics"),
    }
    return render(request, "evaluation/evaluation_detail.html", context)


@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """A minus B. Two models (`model-ID`): on everything that both were measured on. Two evaluations (`ID`): on the
    queries both answered, with every query that only one of them answers right."""
    made = evaluations().filter(metrics__isnull=False).order_by("benchmark__name", "-pk").defer("metrics")
    models = {f"model-{one.pk}": one for one in MODELS.all()}
    known = models | {str(one.pk): one for one in made}
    names = ("a", "b", "group", "domain", "rule", "by", "flip", "q")
    filters = {name: request.GET.get(name, "") for name in names}
    a, b = known.get(filters["a"]), known.get(filters["b"])
    context: dict[str, Any] = {"a": a, "b": b, "filters": filters, "models": models, "made": made}
    context |= {
        "sides": ("a", "b"),
        "groups": LINES,
        "mismatch": isinstance(a, Model) != isinstance(b, Model),
    }
    if isinstance(a, Model) and isinstance(b, Model) and a != b:
        context["beside"] = compare_models(a, b)
    elif isinstance(a, Evaluation) and isinstance(b, Evaluation):
        context["mismatch"] = a.benchmark_id != b.benchmark_id
        if not context["mismatch"]:
            context |= paired(a, b, filters, request.GET.get("after", ""))
    return render(request, "evaluation/compare.html", context)


def paired(a: Evaluation, b: Evaluation, filters: dict[str, str], after: str) -> dict[str, Any]:
    """Of two evaluations of one benchmark."""
    chosen = {name: filters[name] for name in ("group", "domain", "rule") if filters[name]}
    rows, n = reads.compared(a, b, chosen)
    known = [(row.metric, row.title) for row in rows if row.low is not None]
    if filters["by"] not in dict(known):
        filters["by"] = next((name for name in ("hit@1", "accuracy") if name in dict(known)), "")
    found: dict[str, Any] = {
        "rows": rows,
        "n": n,
        "answer": answer_of(a.model, b.model, chosen),
        "known": known,
        "domains": sorted(name for name in selectors.slices(a) if name != ALL),
        "groups": LINES if a.benchmark.kind == Benchmark.Kind.PRB else (),
        "kept": urlencode({"a": a.pk, "b": b.pk, **chosen}),
        "either": reads.EITHER,
    }
    for side, of in (("a", a), ("b", b)):
        found[f"name_{side}"] = selectors.model_name(of.model)
        found[f"answered_{side}"] = selectors.backend_words(of)
        found[f"length_{side}"] = reads.list_length(of, chosen)
    if filters["by"]:
        which = reads.flips(a, b, filters)
        page = keyset(which, after)
        flips = reads.flip_rows(page.rows, a, b, filters["by"])
        found |= {"page": page, "flips": flips, "total": which.count()}
    return found


def answer_of(a: Model | None, b: Model | None, chosen: dict[str, str]) -> str:
    """Whether the model of A is better than that of B, or than plain search; empty of one model beside itself, and of
    the requests of a rule."""
    model, other = (a, b) if a else (b, None)
    if model is None or model == other or "rule" in chosen:
        return ""
    place = chosen.get("domain", ALL), chosen.get("group", ALL)
    found = answers(judged(model, other), model.pk, other.pk if other else None, *place)
    return found.get(CHAMPION if other else EMBEDDING, "")


@require_GET
def benchmark_detail(request: HttpRequest, pk: int) -> HttpResponse:
    benchmark = get_object_or_404(Benchmark, pk=pk)
    page = keyset(benchmark.items.select_related("query"), request.GET.get("after", ""))
    return render(request, "evaluation/benchmark_detail.html", {"benchmark": benchmark, "page": page})


@require_GET
def model_results(request: HttpRequest, pk: int) -> HttpResponse:
    """What stands behind a model's row: every benchmark, decoding and group, every probe, and what it refuses."""
    model = get_object_or_404(Model.objects.select_related("run__snapshot"), pk=pk)
    domain = request.GET.get("domain", ALL)
    rows = model_matrix(model, domain)
    probes = (
        evaluations().filter(model=model, metrics__isnull=False).exclude(benchmark__kind=Benchmark.Kind.PRB)
    )
    context = {
        "model": model,
        "name": selectors.model_name(model),
        "names": alias_names(current_aliases()).get(model.pk, []),
        "domain": domain,
        "domains": sorted({name for of, _ in rows for name in selectors.slices(of) if name != ALL}),
        "rows": rows,
        "columns": [(metric.title, metric.column) for metric in selectors.COLUMNS.values()],
        "probes": [
            (of, sorted(selectors.slices(of).items(), key=lambda part: (part[0] != ALL, part[0])))
            for of in probes.order_by("benchmark__kind", "benchmark__name", "-pk")
        ],
    }
    return render(request, "evaluation/model_results.html", context)


def model_matrix(model: Model, domain: str = ALL) -> list[tuple[Evaluation, list[dict[str, Any]]]]:
    """Every evaluation of a model on requests, the hard tier and the newest version of a benchmark first, and its rows
    of the domain with `cells` in the order of COLUMNS; three queries, and two more for
    what this process has not counted."""
    found = list(evaluations().filter(model=model, benchmark__kind=Benchmark.Kind.PRB, metrics__isnull=False))
    decodes = Evaluation.Decode.values
    figures, matrix = grouped(found), []
    for of in sorted(
        found,
        key=lambda one: (
            selectors.TIERS.index(one.benchmark.tier),
            one.benchmark.name,
            -one.benchmark.version,
            decodes.index(one.decode),
            one.pk,
        ),
    ):
        rows = [
            row | {"cells": [dict(row["cells"]).get(name, {}) for name in selectors.COLUMNS]}
            for row in selectors.slice_rows(of, figures[of.pk])
            if row["over"] == domain
        ]
        if rows:
            matrix.append((of, rows))
    return matrix


@require_GET
def tool_benchmark(request: HttpRequest, tool_id: int) -> HttpResponse:
    """Fragment for a tool's page: benchmark queries it is gold for."""
    tool = get_object_or_404(Tool.objects.only("pk", "name"), pk=tool_id)
    return render(request, "evaluation/_tool_benchmark.html", {"tool": tool, **reads.tool_queries(tool)})


def made_of_snapshots(snapshots: list[int]) -> Iterator[Made]:
    """How models made of snapshots were evaluated, for the lineage of a sample; one query."""
    for row in evaluations().filter(model__run__snapshot__in=snapshots).order_by("pk"):
        state = "done" if row.metrics else row.job.state if row.job else ""
        address, about = reverse("evaluation:detail", args=[row.pk]), score_words(row) or row.decode
        yield Made("evaluation", row.pk, row.model_id or 0, row.benchmark.title, address, state, about)


def score_words(of: Evaluation) -> str:
    """Accuracy of a probe, or recall of the list; empty before it was measured."""
    found = selectors.slices(of).get(ALL) or {}
    if of.decode == Evaluation.Decode.LETTERS:
        cell, what = found.get("accuracy"), f"accuracy, guessing gives {found.get('random', 0):.2f}"
    else:
        metrics = (found.get(ALL) or {}).get("metrics", {})
        name = next((name for name in ("recall@gen", "refused") if name in metrics), "recall@5")
        cell, what = metrics.get(name), f"{METRICS[name].title}, {of.decode}"
    return f"{cell['mean']:.2f} {what}, n = {cell['n']}" if cell else ""


# How often a model's confidence holds, and what it refuses: on shown benchmarks, which it was not fitted on.


@require_GET
def model_reliability(request: HttpRequest, pk: int) -> HttpResponse:
    """Of one model, for its page."""
    return _reliability(request, get_object_or_404(Model.objects.select_related("run"), pk=pk))


@require_GET
def champion_reliability(request: HttpRequest) -> HttpResponse:
    """Of the model that answers now, for the evaluation page; empty without one."""
    champion = current_aliases().get("champion")
    return _reliability(request, champion) if champion else HttpResponse()


def _reliability(request: HttpRequest, model: Model) -> HttpResponse:
    context = {"picture": picture(model), "model": model, "not_calibrated": NOT_CALIBRATED}
    return render(request, "evaluation/_reliability.html", context)


def picture(model: Model) -> dict[str, Any] | None:
    """{"calibration", "found", "chart", "benchmarks", "refused_outside", "refused_inside"}: what the model says now of
    each shown request; None while it is not calibrated, or has answered none of the shown benchmarks."""
    calibration = Calibration.objects.filter(model=model, decode=Evaluation.Decode.FAST).first()
    shown = [row for row in newest_benchmarks() if not row.is_development and row.kind in REQUESTS]
    if calibration is None or not shown:
        return None
    fit = Fit.of(calibration.fit)
    made = Evaluation.objects.filter(model=model, benchmark__in=shown, metrics__isnull=False)
    newest = dict(made.filter(decode=calibration.decode).order_by("pk").values_list("benchmark", "pk"))
    answers = Answer.objects.filter(evaluation__in=newest.values())
    said: list[float] = []
    right: list[bool] = []
    refused: dict[bool, list[bool]] = {True: [], False: []}  # by whether the request has a tool
    for output, gold in answers.values_list("output", "item__data__tools"):
        verdict = fit.verdict(output.get("features") or {})
        if verdict.confidence is not None:
            said.append(verdict.confidence)
            right.append(first_is_right(output["tools"], gold))
            if verdict.fits is not None:
                refused[bool(gold)].append(not verdict.fits)
    if not said:
        return None
    found = reliability(said, right)
    bars = []
    for one in found.bins:
        if n := len(one.right):
            rate, label = wilson(sum(one.right), n), f"said {100 * one.low:.0f} to {100 * one.high:.0f} %"
            note = f"mean {sum(one.said) / n:.2f}"
            bars.append(Bar(label, rate.value, rate.low, rate.high, n, note=note))
    error = 100 * (found.error or 0)
    title = f"Confidence and the share of right answers lie {error:.1f} points apart on average"
    return {
        "calibration": calibration,
        "found": found,
        "chart": bar_chart(title, bars),
        "benchmarks": [row for row in shown if row.pk in newest],
        "refused_outside": wilson(sum(refused[False]), len(refused[False])),
        "refused_inside": wilson(sum(refused[True]), len(refused[True])),
    }
