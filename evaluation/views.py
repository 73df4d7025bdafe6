"""The page of all results, which shows several rooms at once."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from evaluation.benchmarks import selectors
from evaluation.core.comparison import TaughtCell
from evaluation.core.metrics import ALL
from evaluation.core.paired import BETTER, WORSE
from evaluation.taught.selectors import Taught, TaughtPart, answers_url, taught
from trace_site.lib.charts import Dot, DotChart, DotRow
from trace_site.paging import number_of
from training.registry import registry
from training.registry.selectors import alias_names

# Figures of what the rules taught: champion, control and embedding beside each other, a figure a tier and decoding.
#
# In: a part of `taught.selectors`. Out: dots whose title is the answer, each row linked to the answers it counts.

LABELS = {
    ALL: "all requests",
    "covered": "a rule covers the look-alikes",
    "exceptions": "exceptions of rules",
    "uncovered": "look-alikes without a rule",
    "outside": "outside every cluster",
}
WORDS = {BETTER: ("better than embedding", "good"), WORSE: ("worse than embedding", "bad")}


def taught_figure(found: Taught, part: TaughtPart, domain: str = ALL) -> DotChart | None:
    """None where the domain has no request in this benchmark."""
    shown = [cell for cell in part.of(domain) if cell.group != ALL] or part.of(domain)
    if not shown:
        return None
    title = f"{part.title if domain == ALL else part.short}, {part.decode}"
    rows = []
    for cell in shown:
        if cell.group == "covered":
            others = (("without rule samples", cell.control), ("embedding", cell.embedding))
            beside = ", ".join(f"{who} {mean.value:.2f}" for who, mean in others if mean)
            title += f". Where a rule covers, the {found.name} finds {cell.champion.value:.2f}"
            title += f" ({beside})" if beside else ""
        sides = (
            (found.name, "circle", cell.champion),
            ("control, no rule samples", "square", cell.control),
            ("embedding", "diamond", cell.embedding),
        )
        dots = [Dot(who, shape, mean.value or 0.0, mean.low, mean.high) for who, shape, mean in sides if mean]
        word, tone = "", ""
        if cell.over_embedding is not None:
            word, tone = WORDS.get(cell.over_embedding.answer, ("cannot tell", "wait"))
        rows.append(DotRow(LABELS[cell.group], cell.n, dots, cell_url(part, cell), word, tone))
    return DotChart(title, rows)


def cell_url(part: TaughtPart, cell: TaughtCell) -> str:
    chosen = {name: value for name, value in (("group", cell.group), ("domain", cell.domain)) if value != ALL}
    return answers_url(part.champion, **chosen)


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


def taught_context(domain: str) -> dict[str, Any]:
    """What the rules taught, a benchmark at a time: its figures, and the cells of every decoding."""
    found = taught()
    blocks = [
        {
            "first": parts[0],
            "figures": [figure for part in parts if (figure := taught_figure(found, part, domain))],
            "rows": [
                (part, cell, cell_url(part, cell), cell == part.of(domain)[0])
                for part in parts
                for cell in part.of(domain)
            ],
        }
        for parts in found.benchmarks
    ]
    return {"taught": found, "blocks": blocks, "warnings": found.warnings(domain)}
