"""How often a model's confidence holds, and what it refuses: on shown benchmarks, which it was not fitted on."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from evaluation.benchmarks.services import latest
from evaluation.core.confidence import Bin, Fit, Reliability
from evaluation.core.confidence import reliability as measure_reliability
from evaluation.core.stats import Interval, bootstrap
from evaluation.models import Benchmark, Calibration, Evaluation, Prediction
from evaluation.retrieval.calibration import NOT_CALIBRATED, REQUESTS, first_is_right
from trace_site.lib.charts import Bar, BarChart, bar_chart
from training.models import Model
from training.registry.registry import current_aliases


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a shown benchmark: what was said of it, and what was true."""

    inside: bool
    right: bool
    confidence: float
    refused: bool | None


@dataclass(frozen=True, slots=True)
class Picture:
    calibration: Calibration
    found: Reliability
    chart: BarChart
    benchmarks: list[Benchmark]
    refused_outside: Interval | None
    refused_inside: Interval | None


def picture(model: Model) -> Picture | None:
    """None while the model is not calibrated, or has answered none of the shown benchmarks."""
    calibration = Calibration.objects.filter(model=model, decode=Evaluation.Decode.FAST).first()
    shown = [row for row in latest() if not row.is_development and row.kind in REQUESTS]
    if calibration is None or not shown:
        return None
    rows, measured = asked(model, Fit.of(calibration.fit), shown)
    if not rows:
        return None
    found = measure_reliability([row.confidence for row in rows], [row.right for row in rows])
    return Picture(
        calibration,
        found,
        bar_chart(title(found), [bar(rows, one) for one in found.bins if one.n]),
        [row for row in shown if row.pk in measured],
        share([row.refused for row in rows if not row.inside]),
        share([row.refused for row in rows if row.inside]),
    )


def asked(model: Model, fit: Fit, shown: Sequence[Benchmark]) -> tuple[list[Asked], set[int]]:
    """What the model says now of each shown request, and the benchmarks that it has answered."""
    newest: dict[int, int] = {}
    made = Evaluation.objects.filter(
        model=model, benchmark__in=shown, decode=Evaluation.Decode.FAST, metrics__isnull=False
    )
    for evaluation in made.order_by("pk"):
        newest[evaluation.benchmark_id] = evaluation.pk
    rows: list[Asked] = []
    for output, gold in Prediction.objects.filter(evaluation__in=newest.values()).values_list(
        "output", "item__data__tools"
    ):
        verdict = fit.verdict(output.get("features") or {})
        if verdict.confidence is not None:
            refused = None if verdict.fits is None else not verdict.fits
            right = first_is_right(output["tools"], gold)
            rows.append(Asked(bool(gold), right, verdict.confidence, refused))
    return rows, set(newest)


def share(values: Sequence[bool | None]) -> Interval | None:
    known = [float(value) for value in values if value is not None]
    return bootstrap(known) if known else None


def bar(rows: Sequence[Asked], of: Bin) -> Bar:
    """The share of right answers among those said with about this confidence."""
    last = of.high >= 1
    own = [
        float(row.right) for row in rows if of.low <= row.confidence and (row.confidence < of.high or last)
    ]
    found = bootstrap(own)
    assert of.confidence is not None
    return Bar(
        f"said {100 * of.low:.0f} to {100 * of.high:.0f} %",
        found.mean,
        found.low,
        found.high,
        of.n,
        note=f"mean {of.confidence:.2f}",
    )


def title(found: Reliability) -> str:
    assert found.error is not None
    return f"Confidence and the share of right answers lie {100 * found.error:.1f} points apart on average"


# Fragments that say how far a model's answers can be trusted.


@require_GET
def reliability(request: HttpRequest, pk: int) -> HttpResponse:
    """Of one model, for its page."""
    return shown(request, get_object_or_404(Model.objects.select_related("run"), pk=pk))


@require_GET
def reliability_of_champion(request: HttpRequest) -> HttpResponse:
    """Of the model that answers now, for the evaluation page; empty without one."""
    champion = current_aliases().get("champion")
    return shown(request, champion) if champion else HttpResponse()


def shown(request: HttpRequest, model: Model) -> HttpResponse:
    context = {"picture": picture(model), "model": model, "not_calibrated": NOT_CALIBRATED}
    return render(request, "evaluation/_reliability.html", context)
