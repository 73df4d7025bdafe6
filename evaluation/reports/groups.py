"""What covered, exceptions, uncovered and outside mean, and how many queries of each benchmark fall into which now."""

from collections import Counter

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from evaluation.benchmarks.selectors import RESULTS
from evaluation.core.coverage import EXCEPTIONS, GROUP_DEFINITION, LINES
from evaluation.core.items import is_exception
from evaluation.coverage.grouped import rows_of, sorting_now
from evaluation.models import Evaluation


@require_GET
def groups(request: HttpRequest) -> HttpResponse:
    """Two queries, and one more for each benchmark that this process has not read."""
    sorting = sorting_now()
    made = Evaluation.objects.filter(RESULTS).select_related("benchmark").defer("metrics")
    newest = made.order_by("benchmark__name", "-benchmark__version", "-pk").distinct("benchmark__name")
    counts = []
    for row in newest:
        items = rows_of(row.benchmark_id)
        n = Counter(sorting.of(row.benchmark_id).values())
        n[EXCEPTIONS] = sum(map(is_exception, items))
        counts.append((row, [(group, n[group]) for group in LINES], len(items)))
    context = {
        "lines": [f"{part.rstrip('.')}.".split(": ", 1) for part in GROUP_DEFINITION.split(". ")],
        "definition": sorting.definition,
        "groups": LINES,
        "counts": counts,
    }
    return render(request, "evaluation/groups.html", context)
