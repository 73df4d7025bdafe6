"""The two pages that show several rooms at once: the start page, and all results."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from evaluation.benchmarks import selectors
from evaluation.coverage import pages as coverage_pages
from evaluation.coverage.rows import DomainCoverage
from evaluation.coverage.selectors import coverage
from evaluation.figures import predictions_url, taught_figure
from evaluation.taught.selectors import Taught, taught
from training.registry import registry
from training.registry.selectors import alias_names

SHOWN_GAPS = 5


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """What the rules taught; per domain: which look-alikes no rule tells apart, what that costs, what to do next."""
    pages = coverage(recall=False)
    found = taught() if pages else Taught(None, "")
    context = {
        "pages": [_domain_context(page, found) for page in pages],
        "empty": not pages,
        "taught": found,
        "figures": [taught_figure(found, part) for part in found.headline],
        "warnings": found.warnings(),
    }
    return render(request, "coverage/home.html", context)


def _domain_context(page: DomainCoverage, found: Taught) -> dict[str, Any]:
    return {
        "page": page,
        "figure": taught_figure(found, found.headline[0], page.domain) if found.parts else None,
        "warnings": found.warnings(page.domain),
        "open": coverage_pages.without_rule(page),
        "parts": coverage_pages.state_parts(page),
        "gaps": [(gap, coverage_pages.write_url(page.domain, gap)) for gap in page.gaps[:SHOWN_GAPS]],
        "steps": list(coverage_pages.next_steps(page)),
        "clusters_url": coverage_pages.clusters_url(page.domain),
        "formula": coverage_pages.SCORE_FORMULA,
    }


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
