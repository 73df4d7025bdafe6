"""Starting a run: the form, what it would read, need and take as it stands, and its recipe as a file."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from synthesis.models import Snapshot
from trace_site.lib.errors import TraceError
from trace_site.paging import number_of
from training.models import Run
from training.runs import forms, services
from training.runs.curves import STAGES
from training.runs.estimates import estimate
from training.runs.forms import CARDS, RunForm
from training.runs.stages import run_recipe

FILLED = ("snapshot", "base", "format", "memo", "retrieval", "seed", "cloned_from")


@require_http_methods(["GET", "POST"])
def run_create(request: HttpRequest) -> HttpResponse:
    """GET ?from=RUN fills in that run's recipe. POST starts a run; with `fill` it fills in the pasted YAML instead.

    What was typed is never lost: a refusal shows the form as it was sent, with the reason.
    """
    given, problem = _given(request)
    if request.method == "GET" or "fill" in request.POST:
        status = 422 if problem else 200
        return _page(request, RunForm(initial=_initial(given)), given, problem, status)
    form = RunForm(request.POST)
    if form.is_valid():
        try:
            run = services.run_create(**_options(form), actor=request.user)
        except TraceError as error:
            form.add_error(None, str(error))
        else:
            return redirect("training:detail", run.pk)
    return _page(request, form, request.POST, "", 422)


def _options(form: RunForm) -> dict[str, Any]:
    return {name: form.cleaned_data[name] for name in (*FILLED, "recipe")}


def _given(request: HttpRequest) -> tuple[Mapping[str, Any], str]:
    """(what the form starts with, why the pasted YAML was refused)"""
    if "fill" in request.POST:
        try:
            return forms.pasted(request.POST), ""
        except TraceError as error:
            return request.POST, str(error)
    run = Run.objects.filter(pk=number_of(request.GET.get("from", ""))).first()
    if run is not None and run.recipe:
        return forms.given_by(run_recipe(run), run.snapshot_id, run.pk), ""
    return request.GET, ""


def _initial(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in FILLED if given.get(name)}


def _page(
    request: HttpRequest, form: RunForm, given: Mapping[str, Any], problem: str, status: int
) -> HttpResponse:
    base = str(form["base"].value() or services.configured_bases()[0])
    origin = str(form["cloned_from"].value() or "")
    context = {
        "form": form,
        "cells": forms.cell_choices({name: form[name].value() for name in CARDS}),
        "groups": forms.recipe_groups(base, given),
        "base": base,
        "origin": origin,
        "problem": problem,
        "pasted": given.get("yaml", "") if problem or form.errors else "",
    }
    return render(request, "training/run_form.html", context, status=status)


@require_GET
def recipe_fields(request: HttpRequest) -> HttpResponse:
    """The recipe's fields with the defaults of another base; what was edited stays."""
    base = request.GET.get("base", "").strip() or services.configured_bases()[0]
    groups = forms.recipe_groups(base, request.GET)
    return render(request, "training/_recipe.html", {"groups": groups, "base": base})


@require_GET
def run_estimate(request: HttpRequest) -> HttpResponse:
    """Fragment: what the form as it stands would do; starts nothing."""
    form = RunForm(request.GET)
    form.is_valid()
    wrong = [str(text) for texts in form.errors.values() for text in texts]
    data = form.cleaned_data
    if wrong or "recipe" not in data:
        return render(request, "training/_estimate.html", {"wrong": wrong})
    cell = {name: data[name] for name in ("base", "format", "memo", "retrieval", "seed")}
    snapshot: Snapshot = data["snapshot"]
    recipe = services.cell_recipe(data["recipe"], **cell)
    equal = Run.objects.filter(key=services.run_key(snapshot.hash, recipe)).first()
    found = estimate(recipe, snapshot)
    context = {
        "estimate": found,
        "equal": equal,
        "names": STAGES,
        "changes": forms.changes_of(recipe, data["base"]),
    }
    return render(request, "training/_estimate.html", context)


@require_POST
def recipe_download(request: HttpRequest) -> HttpResponse:
    """The form's recipe as YAML; the form with its mistakes when it is none."""
    form = RunForm(request.POST)
    if not form.is_valid():
        return _page(request, form, request.POST, "", 422)
    name = 'attachment; filename="recipe.yaml"'
    text = forms.recipe_yaml(form)
    return HttpResponse(text, "application/yaml; charset=utf-8", headers={"Content-Disposition": name})
