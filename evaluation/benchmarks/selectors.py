"""Reads behind the evaluation pages: benchmarks, evaluations, and the numbers of evaluations as tables show them."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet

from evaluation.core.coverage import GROUPS
from evaluation.core.metrics import ALL, METRICS
from evaluation.models import Benchmark, Evaluation
from trace_site.lib.charts import Bar
from training.models import Model, Run

TRACED = (Evaluation.Decode.TRACE, Evaluation.Decode.TRACE_FREE)
COLUMNS = {name: (metric.title, metric.column) for name, metric in METRICS.items() if metric.column}
PROBES = (Benchmark.Kind.MCQ, Benchmark.Kind.QA, Benchmark.Kind.MCQ_EXPERT)
# as they are shown; where one number must do, the first
TIERS = (Benchmark.Tier.HARD, "", Benchmark.Tier.PLAIN)
# evaluations of requests whose figures are results: a development half chooses thresholds and is none
RESULTS = Q(benchmark__kind=Benchmark.Kind.PRB, benchmark__is_development=False, metrics__isnull=False)


def evaluations() -> QuerySet[Evaluation]:
    """Those whose figures may be shown: of no development half."""
    found = Evaluation.objects.filter(benchmark__is_development=False)
    return found.select_related("benchmark", "job", "model__run__snapshot").defer(
        "model__run__snapshot__manifest", "model__card", "model__run__log_tail"
    )


def newest_benchmarks() -> list[Benchmark]:
    """The newest version of every benchmark."""
    return list(Benchmark.objects.order_by("name", "-version").distinct("name"))


def retrieval_benchmarks(tests: Iterable[Benchmark]) -> list[Benchmark]:
    """Those a model is shown on, a tier at a time; development halves are left out."""
    found = [test for test in tests if test.kind == Benchmark.Kind.PRB and not test.is_development]
    return sorted(found, key=lambda test: TIERS.index(test.tier))


def model_name(model: Model | None) -> str:
    """How a row is called: the cell as the paper writes it, untrained base and Stage 1 by name."""
    if model is None:
        return "embedding baseline"
    run = model.run
    if run.memo == run.retrieval == Run.Memo.NONE:
        return f"untrained base {run.base}"
    return f"{run.cell} Stage 1 only" if run.retrieval == Run.Retrieval.NONE else run.cell


def slices(evaluation: Evaluation) -> dict[str, Any]:
    """{domain or all: {group: figures}} (probes: {domain or all: figures})."""
    metrics: dict[str, Any] = evaluation.metrics or {}
    found: dict[str, Any] = metrics.get("slices", metrics)
    return found


def slice_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Every number of one evaluation, all domains first: a row a domain and group, its `cells` (metric, {mean, low,
    high, n}) in the order of METRICS; what the decoding does not define is empty or None."""
    found, same = slices(evaluation), (evaluation.metrics or {}).get("same_length", {})
    is_probe = evaluation.decode == Evaluation.Decode.LETTERS
    has_traces = evaluation.decode in TRACED and evaluation.benchmark.kind != Benchmark.Kind.OUTSIDE
    rows = []
    for domain in sorted(found, key=lambda name: (name != ALL, name)):
        groups = {ALL: found[domain] | {"metrics": found[domain]}} if is_probe else found[domain]
        for group in (ALL, *GROUPS):
            if group not in groups:
                continue
            figures, metrics = groups[group], groups[group].get("metrics", {})
            chosen = {name: value for name, value in (("domain", domain), ("group", group)) if value != ALL}
            # evaluations that were stored before it was counted have none
            following = figures.get("following") or {"n": 0, "not_measured": figures["n"]}
            filters = "".join(f"{urlencode({name: value})}&" for name, value in chosen.items())
            off = figures.get("off_vocabulary") if evaluation.decode == "trace-free" else None
            rows.append(
                {
                    "domain": domain,
                    "group": group,
                    "n": figures["n"],
                    "cells": [(name, metrics[name]) for name in METRICS if name in metrics],
                    "random": figures.get("random"),
                    "off_vocabulary": off and off["rate"],
                    "citation": (figures.get("citation") or {}).get("rate"),
                    "following": {**following, "filters": filters} if has_traces else None,
                    "same_length": same.get(domain, {}).get(group, {}).get("embedding", {}),
                }
            )
    return rows


def matrix(
    benchmark: Benchmark, domain: str = ALL, snapshot: int | None = None
) -> list[tuple[Evaluation, str, list[dict[str, Any]]]]:
    """Every evaluation, its name and its rows of the domain with `cells` in the order of COLUMNS; the baseline last."""
    found = evaluations().filter(benchmark=benchmark, metrics__isnull=False)
    if snapshot:
        found = found.filter(model__run__snapshot=snapshot) | found.filter(model=None)
    matrix = []
    for of in sorted(found, key=lambda one: (one.model is None, -(one.model_id or 0), one.decode)):
        rows = [
            row | {"cells": [dict(row["cells"]).get(name, {}) for name in COLUMNS]}
            for row in slice_rows(of)
            if row["domain"] == domain
        ]
        if rows:
            matrix.append((of, model_name(of.model), rows))
    return matrix


def probe_rows(snapshot: int | None = None) -> tuple[list[Benchmark], list[dict[str, Any]]]:
    """Models x knowledge probes; one query for benchmarks, one for evaluations."""
    tests = [test for test in newest_benchmarks() if test.kind in PROBES]
    found = evaluations().filter(benchmark__in=tests, metrics__isnull=False, model__isnull=False)
    if snapshot:
        found = found.filter(model__run__snapshot=snapshot)
    by_model: dict[Model, dict[int, Evaluation]] = {}
    for evaluation in found.order_by("-model_id", "pk"):  # of two the newer one
        assert evaluation.model is not None
        by_model.setdefault(evaluation.model, {})[evaluation.benchmark_id] = evaluation

    def cell(of: Evaluation | None) -> tuple[Evaluation | None, dict[str, Any]]:
        return of, (slices(of).get(ALL) or {}).get("accuracy", {}) if of else {}

    return tests, [
        {"model": model, "name": model_name(model), "cells": [cell(own.get(test.pk)) for test in tests]}
        for model, own in by_model.items()
    ]


def score_bar(evaluation: Evaluation) -> Bar | None:
    """One evaluation as one bar: accuracy of a probe, or recall of the list."""
    found = slices(evaluation).get(ALL) or {}
    if evaluation.decode == Evaluation.Decode.LETTERS:
        cell, note = found.get("accuracy"), f"accuracy, guessing gives {found.get('random', 0):.2f}"
    else:
        metrics = (found.get(ALL) or {}).get("metrics", {})
        name = next((name for name in ("recall@gen", "refused") if name in metrics), "recall@5")
        cell, note = metrics.get(name), f"{METRICS[name].title}, {evaluation.decode}"
    if not cell:
        return None
    return Bar(evaluation.benchmark.title, cell["mean"], cell["low"], cell["high"], cell["n"], note=note)
