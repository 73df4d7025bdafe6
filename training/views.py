"""Pages of runs and models."""

from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from trace_site import jobs
from trace_site.access import ADMIN, role_required
from trace_site.lib.errors import TraceError
from trace_site.live import refresh_at_end
from trace_site.paging import keyset
from training import registry, selectors, services
from training.forms import RunForm, cell_choices, recipe_rows
from training.models import Model, Run


@require_GET
def run_list(request: HttpRequest) -> HttpResponse:
    found = selectors.runs()
    if request.GET.get("snapshot", "").isdecimal():
        found = found.filter(snapshot=int(request.GET["snapshot"]))
    page = keyset(found, request.GET.get("after", ""), newest=True)
    return render(request, "training/run_list.html", {"page": page, **table(page.rows)})


def table(runs: Iterable[Run]) -> dict[str, Any]:
    """What a table of runs needs beside its rows."""
    rows = list(runs)
    for run in rows:
        run.seconds = selectors.seconds(run)  # type: ignore[attr-defined]
    return {"runs": rows, "aliases": selectors.alias_names(registry.current_aliases())}


@role_required(ADMIN)
@require_http_methods(["GET", "POST"])
def run_create(request: HttpRequest) -> HttpResponse:
    form = RunForm(request.POST or None, initial={"snapshot": request.GET.get("snapshot")})
    if request.method == "POST" and form.is_valid():
        try:
            run = services.run_create(**form.cleaned_data, actor=request.user)
        except TraceError as error:
            form.add_error(None, str(error))
        else:
            return redirect("training:detail", run.pk)
    groups = recipe_rows(services.default_recipe(form["base"].value() or "pocket"), request.POST)
    return render(
        request,
        "training/run_form.html",
        {"form": form, "cells": cell_choices(form), "groups": groups},
        status=422 if form.errors else 200,
    )


@role_required(ADMIN)
@require_GET
def recipe_fields(request: HttpRequest) -> HttpResponse:
    """The recipe's fields with the defaults of another base."""
    groups = recipe_rows(services.default_recipe(request.GET.get("base", "") or "pocket"), {})
    return render(request, "training/_recipe.html", {"groups": groups})


@require_GET
def run_detail(request: HttpRequest, pk: int) -> HttpResponse:
    run = found_run(pk)
    context = {"run": run, "live": selectors.live(run), "seconds": selectors.seconds(run)}
    others = selectors.siblings(run).order_by("-pk")[:10]
    return render(request, "training/run_detail.html", {**context, **table(others)})


@require_GET
def run_live(request: HttpRequest, pk: int) -> HttpResponse:
    """The part of a run's page that moves; when the job has ended the page is loaded anew."""
    run = found_run(pk)
    context = {"run": run, "live": selectors.live(run), "seconds": selectors.seconds(run)}
    return refresh_at_end(render(request, "training/_live.html", context), run.job)


@require_GET
def runs_of_snapshot(request: HttpRequest, snapshot_id: int) -> HttpResponse:
    """Fragment for a snapshot's page: the runs made from it."""
    runs = selectors.runs().filter(snapshot=snapshot_id).order_by("-pk")
    return render(request, "training/_of_snapshot.html", table(runs))


def found_run(pk: int) -> Run:
    return get_object_or_404(Run.objects.select_related("job", "snapshot", "model", "created_by"), pk=pk)


@role_required(ADMIN)
@require_POST
def run_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    run = found_run(pk)
    if run.job is not None and jobs.cancel(run.job, actor=request.user):
        messages.success(
            request, "Stopping at the next step. The last checkpoint is kept; resume goes on from it."
        )
    else:
        messages.error(request, "The run has already ended.")
    return redirect("training:detail", pk)


@role_required(ADMIN)
@require_POST
def run_resume(request: HttpRequest, pk: int) -> HttpResponse:
    run = found_run(pk)
    if run.job is not None and jobs.retry(run.job, actor=request.user):
        messages.success(request, "Queued again. It goes on from its last checkpoint.")
    else:
        messages.error(request, "Only a run that failed or was cancelled can be resumed.")
    return redirect("training:detail", pk)


@require_GET
def model_list(request: HttpRequest) -> HttpResponse:
    current = registry.current_aliases()
    page = keyset(selectors.models(), request.GET.get("after", ""), newest=True)
    context = {
        "page": page,
        "current": current,
        "aliases": selectors.alias_names(current),
        "history": selectors.alias_history(),
    }
    return render(request, "training/model_list.html", context)


@require_GET
def model_detail(request: HttpRequest, pk: int) -> HttpResponse:
    model = get_object_or_404(selectors.models().defer(None).defer("run__snapshot__manifest"), pk=pk)
    current = registry.current_aliases()
    context = {
        "model": model,
        "card": selectors.card_parts(model.card),
        "aliases": selectors.alias_names(current).get(model.pk, []),
        "champion": current.get("champion"),
        "moves": model.alias_moves.select_related("actor"),
    }
    return render(request, "training/model_detail.html", context)


@role_required(ADMIN)
@require_POST
def model_promote(request: HttpRequest, pk: int) -> HttpResponse:
    model = get_object_or_404(Model, pk=pk)
    move = registry.promote(model=model, actor=request.user, note=request.POST.get("note", "").strip()[:300])
    messages.success(
        request, f"Model {move.model_id} is champion: the playground and the API answer with it now."
    )
    return redirect("training:model", pk)
