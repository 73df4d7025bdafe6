"""Fragments that say how far a model's answers can be trusted."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from evaluation.calibration import NOT_CALIBRATED
from evaluation.reliability import picture
from training.models import Model
from training.registry import current_aliases


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
