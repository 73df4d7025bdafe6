"""The page of all results, which shows several rooms at once."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from evaluation.benchmarks import selectors
from evaluation.core.metrics import ALL
from evaluation.taught.views import taught_context
from trace_site.paging import number_of
from training.registry import registry
from training.registry.selectors import alias_names


@require_GET
def results(request: HttpRequest) -> HttpResponse:
    """A row a model: one retrieval benchmark, and every knowledge probe."""
    tests = selectors.newest_benchmarks()
    retrieval = selectors.retrieval_benchmarks(tests)
    chosen = next((test for test in retrieval if test.name == request.GET.get("benchmark")), None)
    benchmark = chosen or (retrieval[0] if retrieval else None)
    domain = request.GET.get("domain", "all")
    snapshot = number_of(request.GET.get("snapshot", "")) or None
    probes, rows = selectors.summary_rows(benchmark, domain, snapshot)
    shown = [cell.of for row in rows for cell in row.cells if cell.of]
    context = {
        "tests": tests,
        "retrieval": retrieval,
        "has_development": any(test.is_development for test in tests),
        "benchmark": benchmark,
        "domain": domain,
        "domains": sorted({name for of in shown for name in selectors.slices(of) if name != ALL}),
        "snapshot": snapshot,
        "columns": [(title, help_) for *_, title, help_ in selectors.SUMMARY],
        "rows": rows,
        **taught_context(domain),
        "probes": probes,
        "guessing": [selectors.guessing(shown, probe, domain) for probe in probes],
        "aliases": alias_names(registry.current_aliases()),
        "mixed": selectors.mixed_backends(shown),
        "has_pocket": any(row.model and row.model.run.base == "pocket" for row in rows),
        "running": selectors.evaluations().filter(metrics__isnull=True, job__isnull=False)[:5],
    }
    return render(request, "evaluation/results.html", context)
