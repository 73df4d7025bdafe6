"""How often a model's confidence holds, and what it refuses: on shown benchmarks, which it was not fitted on."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from evaluation.benchmarks.selectors import newest_benchmarks
from evaluation.core.confidence import Fit
from evaluation.core.confidence import reliability as measured
from evaluation.core.stats import Interval, bootstrap
from evaluation.models import Calibration, Evaluation, Prediction
from evaluation.retrieval.calibration import NOT_CALIBRATED, REQUESTS, first_is_right
from trace_site.lib.charts import Bar, bar_chart
from training.models import Model
from training.registry.registry import current_aliases


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
    answers = Prediction.objects.filter(evaluation__in=newest.values())
    said: list[float] = []
    right: list[bool] = []
    refused: dict[bool, list[float]] = {True: [], False: []}  # by whether the request has a tool
    for output, gold in answers.values_list("output", "item__data__tools"):
        verdict = fit.verdict(output.get("features") or {})
        if verdict.confidence is not None:
            said.append(verdict.confidence)
            right.append(first_is_right(output["tools"], gold))
            if verdict.fits is not None:
                refused[bool(gold)].append(float(not verdict.fits))
    if not said:
        return None
    found = measured(said, right)
    bars = []
    for one in found.bins:
        if n := len(one.right):
            share, label = bootstrap(one.right), f"said {100 * one.low:.0f} to {100 * one.high:.0f} %"
            note = f"mean {sum(one.said) / n:.2f}"
            bars.append(Bar(label, share.mean, share.low, share.high, n, note=note))
    error = 100 * (found.error or 0)
    title = f"Confidence and the share of right answers lie {error:.1f} points apart on average"

    def interval(values: list[float]) -> Interval | None:
        return bootstrap(values) if values else None

    return {
        "calibration": calibration,
        "found": found,
        "chart": bar_chart(title, bars),
        "benchmarks": [row for row in shown if row.pk in newest],
        "refused_outside": interval(refused[False]),
        "refused_inside": interval(refused[True]),
    }


# Fragments that say how far a model's answers can be trusted.


@require_GET
def reliability(request: HttpRequest, pk: int) -> HttpResponse:
    """Of one model, for its page."""
    return _shown(request, get_object_or_404(Model.objects.select_related("run"), pk=pk))


@require_GET
def reliability_of_champion(request: HttpRequest) -> HttpResponse:
    """Of the model that answers now, for the evaluation page; empty without one."""
    champion = current_aliases().get("champion")
    return _shown(request, champion) if champion else HttpResponse()


def _shown(request: HttpRequest, model: Model) -> HttpResponse:
    context = {"picture": picture(model), "model": model, "not_calibrated": NOT_CALIBRATED}
    return render(request, "evaluation/_reliability.html", context)
