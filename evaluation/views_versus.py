"""Fragments: a model beside the champion, for its own page and for its run's."""

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from evaluation import versus
from training.models import Model


def _models() -> QuerySet[Model]:
    return Model.objects.select_related("run").defer("card", "run__log_tail")


@require_GET
def beside(request: HttpRequest, pk: int) -> HttpResponse:
    return _shown(request, get_object_or_404(_models(), pk=pk))


@require_GET
def beside_of_run(request: HttpRequest, run_id: int) -> HttpResponse:
    """The same, asked with the run; a run without a model has nothing to show."""
    model = _models().filter(run=run_id).first()
    return _shown(request, model) if model else HttpResponse("")


def _shown(request: HttpRequest, model: Model) -> HttpResponse:
    return render(request, "evaluation/_beside_champion.html", {"beside": versus.beside(model)})
