"""Pages of runs: the list, one run live, its log and recipe, stopping and resuming it, the queue, runs beside each
other, and starting one: the form, what it would read, need and take, and its recipe as a file."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from synthesis.models import Snapshot
from trace_site.lib.errors import TraceError
from trace_site.paging import keyset, number_of
from trace_site.views import refresh_at_end
from training.core import recipe as recipes
from training.core.recipe import FIELDS, STAGES, Recipe, differing
from training.models import Run
from training.registry import registry, selectors
from training.runs import curves, forms, services
from training.runs import selectors as reads
from training.runs.estimates import estimate
from training.runs.forms import CARDS, RunForm
from training.runs.stages import default_recipe

LOG_LINES = 12  # on the page; the whole log is a file


@require_GET
def run_list(request: HttpRequest) -> HttpResponse:
    """Filters and keyset pages; check boxes choose what is compared."""
    found = reads.narrowed(selectors.runs(), request.GET)
    page = keyset(found, request.GET.get("after", ""), newest=True)
    chosen = {name: request.GET.get(name, "") for name in reads.FILTERS}
    context = {"page": page, "chosen": chosen, "choices": reads.choices(), "filtered": any(chosen.values())}
    return render(request, "training/run_list.html", {**context, **table(page.rows)})


def table(runs: Iterable[Run]) -> dict[str, Any]:
    """What a table of runs needs beside its rows."""
    return {"runs": list(runs), "aliases": selectors.alias_names(registry.current_aliases())}


@require_GET
def run_detail(request: HttpRequest, pk: int) -> HttpResponse:
    run = found_run(pk)
    recipe = reads.readable_recipe(run)
    context = {
        **moving(run),
        **drawn(run, request),
        "fields": forms.recipe_groups(run.base, forms.texts_of(recipe)) if recipe else [],
        "cloned": reads.cloned_changes(run),
        "clones": list(run.clones.order_by("pk").values_list("pk", flat=True)[:20]),
    }
    others = selectors.runs().filter(snapshot=run.snapshot_id).exclude(pk=pk).order_by("-pk")[:10]
    return render(request, "training/run_detail.html", {**context, **table(others)})


def moving(run: Run) -> dict[str, Any]:
    """What changes while a run goes on, small enough to be asked for every two seconds."""
    points = curves.newest_points(run)
    stage, newest = next(reversed(points.items()), ("", {}))
    return {
        "run": run,
        "stages": curves.stage_states(run, points),
        "newest": newest,
        "stage": STAGES.get(stage, stage),
        "seen": curves.seen(points),
        "log_lines": [line for line in run.log_tail.splitlines() if line.strip()][-LOG_LINES:],
    }


def drawn(run: Run, request: HttpRequest) -> dict[str, Any]:
    """The curves, whose size does not depend on how long the run is."""
    log = request.GET.get("scale") == "log"
    return {"charts": curves.of_run(run, log=log), "scale": "log" if log else "linear"}


@require_GET
def run_live(request: HttpRequest, pk: int) -> HttpResponse:
    """The part of a run's page that moves; when the job has ended the page is loaded anew."""
    run = found_run(pk)
    return refresh_at_end(render(request, "training/_live.html", moving(run) | {"oob": True}), run.job)


@require_GET
def run_curves(request: HttpRequest, pk: int) -> HttpResponse:
    """The curves; nothing when the reader has seen the newest point already."""
    run = found_run(pk)
    points = curves.seen(curves.newest_points(run))
    if request.GET.get("seen") == points:
        return HttpResponse(status=204)
    context = {"run": run, "seen": points, **drawn(run, request)}
    return render(request, "training/_curves.html", context)


@require_GET
def run_log(request: HttpRequest, pk: int) -> StreamingHttpResponse | HttpResponse:
    """The whole log of every stage where its files are on this machine, else the last lines that were kept."""
    run = found_run(pk)
    files = reads.log_files(run)
    headers = {"Content-Disposition": f'attachment; filename="run-{run.pk}.log"'}
    if not files:
        return HttpResponse(run.log_tail, "text/plain; charset=utf-8", headers=headers)
    return StreamingHttpResponse(reads.lines_of(files), "text/plain; charset=utf-8", headers=headers)


@require_GET
def run_yaml(request: HttpRequest, pk: int) -> HttpResponse:
    """The recipe as a file that `training_run --recipe` reads."""
    run = found_run(pk)
    return yaml_file(recipes.stored(run.recipe), f"run-{run.pk}.yaml")


def yaml_file(recipe: Recipe, name: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(recipe.to_yaml(), "application/yaml; charset=utf-8", headers=headers)


@require_GET
def runs_of_snapshot(request: HttpRequest, snapshot_id: int) -> HttpResponse:
    """Fragment for a snapshot's page: the runs made from it."""
    runs = selectors.runs().filter(snapshot=snapshot_id).order_by("-pk")
    return render(request, "training/_of_snapshot.html", table(runs))


def found_run(pk: int) -> Run:
    return get_object_or_404(
        Run.objects.select_related("job", "snapshot", "model", "created_by", "cloned_from").defer(
            "snapshot__manifest", "snapshot__parts", "model__card", "cloned_from__log_tail"
        ),
        pk=pk,
    )


STEERED = {
    "cancel": (
        services.run_cancel,
        "Stopping at the next step. The last checkpoint is kept; resume goes on from it.",
    ),
    "resume": (services.run_resume, "Queued again. It goes on from its last checkpoint."),
}


@require_POST
def run_steer(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Cancel or resume a run."""
    change, said = STEERED[verb]
    try:
        change(run=found_run(pk), actor=request.user)
        messages.success(request, said)
    except TraceError as error:
        messages.error(request, str(error))
    from_queue = request.POST.get("next") == "queue"
    return redirect("training:queue") if from_queue else redirect("training:detail", pk)


# The queue of the worker that trains; the part of its page that moves is asked for every five seconds.


@require_GET
def queue_page(request: HttpRequest, template: str = "training/queue.html") -> HttpResponse:
    return render(request, template, {"queue": reads.queue()})


# Two to six runs beside each other, under an address of its own.


@require_GET
def run_compare(request: HttpRequest) -> HttpResponse:
    """?run=1&run=2&x=step|tokens|seconds&scale=log"""
    asked = request.GET.getlist("run")
    runs = curves.chosen(asked)
    axis = request.GET.get("x", "") if request.GET.get("x", "") in curves.AXES else "step"
    log = request.GET.get("scale") == "log"
    context = {"runs": runs, "asked": len(set(asked)), "most": curves.MOST_COMPARED}
    context |= {"axes": curves.AXES, "axis": axis}
    if len(runs) > 1:
        rows = curves.compared_fields(runs)
        context |= {
            **table(runs),
            "differing": [row for row in rows if len(set(row[2])) > 1],
            "equal": [row for row in rows if len(set(row[2])) == 1],
            "fields": len(rows),
            "sections": curves.charts(runs, axis, log),
            "pairs": curves.pairs(runs),
            "models": [run.model for run in runs if hasattr(run, "model")],
            "scale": "log" if log else "linear",
        }
    else:
        context["offered"] = list(selectors.runs().order_by("-pk")[:20])
    return render(request, "training/compare.html", context, status=200 if runs or not asked else 404)


# Starting a run.

FILLED = ("snapshot", "base", "format", "memo", "retrieval", "seed", "cloned_from")


@require_http_methods(["GET", "POST"])
def run_create(request: HttpRequest) -> HttpResponse:
    """GET ?from=RUN fills in that run's recipe. POST starts a run; with `fill` it fills in the pasted YAML instead.

    What was typed is never lost: a refusal shows the form as it was sent, with the reason.
    """
    given, problem = _what_was_given(request)
    if request.method == "GET" or "fill" in request.POST:
        form = RunForm(initial={name: given[name] for name in FILLED if given.get(name)})
        return _launch_page(request, form, given, problem, 422 if problem else 200)
    form = RunForm(request.POST)
    if form.is_valid():
        try:
            given = {name: form.cleaned_data[name] for name in ("snapshot", "recipe", "cloned_from")}
            run = services.run_create(**given, actor=request.user)
        except TraceError as error:
            form.add_error(None, str(error))
        else:
            return redirect("training:detail", run.pk)
    return _launch_page(request, form, request.POST, "", 422)


def _what_was_given(request: HttpRequest) -> tuple[Mapping[str, Any], str]:
    """(what the form starts with, why the pasted YAML was refused)"""
    if "fill" in request.POST:
        try:
            return forms.pasted(request.POST), ""
        except TraceError as error:
            return request.POST, str(error)
    run = Run.objects.filter(pk=number_of(request.GET.get("from", ""))).first()
    if run is not None and run.recipe:
        cloned = {"snapshot": str(run.snapshot_id), "cloned_from": str(run.pk)}
        return forms.texts_of(recipes.stored(run.recipe)) | cloned, ""
    return request.GET, ""


def _launch_page(
    request: HttpRequest, form: RunForm, given: Mapping[str, Any], problem: str, status: int
) -> HttpResponse:
    base = str(form["base"].value() or services.configured_bases()[0])
    origin = str(form["cloned_from"].value() or "")
    context = {
        "form": form,
        "cells": forms.cell_choices({name: form[name].value() for name in CARDS}),
        "groups": forms.recipe_groups(base, forms.edited(base, given)),
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
    groups = forms.recipe_groups(base, forms.edited(base, request.GET))
    return render(request, "training/_recipe.html", {"groups": groups, "base": base})


@require_GET
def run_estimate(request: HttpRequest) -> HttpResponse:
    """Fragment: what the form as it stands would do; starts nothing."""
    form = RunForm(request.GET)
    if not form.is_valid():
        wrong = [str(text) for texts in form.errors.values() for text in texts]
        return render(request, "training/_estimate.html", {"wrong": wrong})
    snapshot: Snapshot = form.cleaned_data["snapshot"]
    recipe: Recipe = form.cleaned_data["recipe"]
    differences = differing(default_recipe(recipe.base), recipe)
    context = {
        "estimate": estimate(recipe, snapshot),
        "equal": Run.objects.filter(key=services.run_key(snapshot.hash, recipe)).first(),
        "names": STAGES,
        "changes": [row for row in differences if row[0] in FIELDS and row[0] != forms.SET_HERE],
    }
    return render(request, "training/_estimate.html", context)


@require_POST
def recipe_download(request: HttpRequest) -> HttpResponse:
    """The form's recipe as YAML; the form with its mistakes when it is none."""
    form = RunForm(request.POST)
    if not form.is_valid():
        return _launch_page(request, form, request.POST, "", 422)
    return yaml_file(form.cleaned_data["recipe"], "recipe.yaml")
