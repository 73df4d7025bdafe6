"""Two to six runs beside each other, under an address of its own."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from training import comparison, selectors
from training.selectors_curves import AXES
from training.views import table


@require_GET
def run_compare(request: HttpRequest) -> HttpResponse:
    """?run=1&run=2&x=step|tokens|seconds&scale=log"""
    asked = request.GET.getlist("run")
    runs = comparison.chosen(asked)
    axis = request.GET.get("x", "") if request.GET.get("x", "") in AXES else "step"
    log = request.GET.get("scale") == "log"
    context = {"runs": runs, "asked": len(set(asked)), "most": comparison.MOST, "axes": AXES, "axis": axis}
    if len(runs) > 1:
        lines = comparison.lines(runs)
        context |= {
            **table(runs),
            "differing": [line for line in lines if not line.same],
            "equal": [line for line in lines if line.same],
            "fields": len(lines),
            "sections": comparison.charts(runs, axis, log),
            "pairs": comparison.pairs(runs),
            "models": [run.model for run in runs if hasattr(run, "model")],
            "scale": "log" if log else "linear",
        }
    else:
        context["offered"] = list(selectors.runs().order_by("-pk")[:20])
    return render(request, "training/compare.html", context, status=200 if runs or not asked else 404)
