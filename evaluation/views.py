"""The page of all results, which shows several rooms at once."""

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from evaluation.benchmarks.selectors import (
    evaluations,
    guessing,
    mixed_backends,
    model_name,
    newest_benchmarks,
)
from evaluation.models import Evaluation
from evaluation.reports.measures import Choice, Column, cell, domains
from evaluation.taught.views import taught_context
from training.registry.registry import current_aliases
from training.registry.selectors import alias_names

Decode = Evaluation.Decode
RANKED, LISTED = (Decode.FAST, Decode.EMBEDDING), (Decode.TRACE, Decode.TRACE_FREE)
# what a model ranks, what it writes, and which rule it names: a metric, the first decoding counts that was measured
SUMMARY = (
    (RANKED, "hit@1", "hit@1", "a gold tool is ranked first; fast decoding"),
    (RANKED, "recall@10", "R@10", "share of the gold tools among the first 10; fast decoding"),
    (LISTED, "recall@gen", "R@gen", "share of the gold tools in the list it wrote, with its trace if it can"),
    (LISTED, "precision@gen", "precision", "share of the written tools that are gold"),
    (LISTED, "set_size", "tools per list", "longer lists find more"),
    (LISTED, "correct_rule", "the right rule", "of the requests that a rule decides, its trace names it"),
)


@require_GET
def results(request: HttpRequest) -> HttpResponse:
    """A row a model, the newest first and the baseline last: one retrieval benchmark, and every knowledge probe."""
    tests, choice = newest_benchmarks(), Choice.of_query(request.GET)
    domain = request.GET.get("domain", "all")
    columns: list[tuple[tuple[str, ...], Column]]
    columns = [((Decode.LETTERS,), Column(test, domain, "accuracy", "")) for test in choice.probes]
    if of := choice.benchmark:
        columns[:0] = [(decodes, Column(of, domain, metric, title)) for decodes, metric, title, _ in SUMMARY]
    asked = Q(benchmark__in=choice.probes, model__isnull=False)
    asked |= Q(benchmark=choice.benchmark, decode__in=RANKED + LISTED)
    found = evaluations().filter(asked, metrics__isnull=False)
    if choice.snapshot:
        found = found.filter(Q(model__run__snapshot=choice.snapshot) | Q(model=None))
    # of two the newer one
    known = {(one.model, one.benchmark_id, one.decode): one for one in found.order_by("pk")}
    rows = []
    for model in sorted({one.model for one in known.values()}, key=lambda one: -(one.pk if one else 0)):
        cells = []
        for decodes, column in columns:
            made = (known.get((model, column.benchmark.pk, decode)) for decode in decodes)
            cells.append(cell(next(filter(None, made), None), column, "–"))
        rows.append((model, model_name(model), cells))
    shown = list(known.values())
    context = {
        "tests": tests,
        "has_development": any(test.is_development for test in tests),
        "choice": choice,
        "domain": domain,
        "domains": domains(shown),
        "columns": [(title, help_) for *_, title, help_ in SUMMARY] if choice.benchmark else [],
        "rows": rows,
        **taught_context(domain),
        "guessing": [guessing(shown, probe, domain) for probe in choice.probes],
        "aliases": alias_names(current_aliases()),
        "mixed": mixed_backends(shown),
        "has_pocket": any(model and model.run.base == "pocket" for model, *_ in rows),
        "running": evaluations().filter(metrics__isnull=True, job__isnull=False)[:5],
    }
    return render(request, "evaluation/results.html", context)
