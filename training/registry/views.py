"""Pages of models: the list with its aliases, one model with its lineage, moving aliases, what retention removes."""

from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.defaultfilters import filesizeformat
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.models import Tool
from trace_site.lib.errors import TraceError
from trace_site.paging import keyset, number_of
from training.models import AliasMove, Model, TrainedStage
from training.registry import gate, registry, retention, selectors
from training.registry.registry import MOST_HELD, holds_newer, newer_tools


@require_GET
def model_list(request: HttpRequest) -> HttpResponse:
    current = registry.current_aliases()
    page = keyset(selectors.models(), request.GET.get("after", ""), newest=True)
    context = {
        "page": page,
        "current": current,
        "aliases": selectors.alias_names(current),
        "history": AliasMove.objects.select_related("model__run", "actor")[:50],
    }
    return render(request, "training/model_list.html", context)


@require_GET
def model_detail(request: HttpRequest, pk: int) -> HttpResponse:
    model = get_object_or_404(selectors.models().defer(None).defer("run__snapshot__manifest"), pk=pk)
    current = registry.current_aliases()
    moves = list(model.alias_moves.select_related("actor"))
    standing = selectors.standing()
    made = TrainedStage.objects.in_bulk([row["key"] for row in model.run.stages], field_name="key")
    context = {
        "model": model,
        "card": selectors.card_parts(model.card),
        "aliases": selectors.alias_names(current).get(model.pk, []),
        "champion": current.get("champion"),
        "standing": standing,
        "may_go_back": model in standing.earlier,
        "moves": moves,
        "stages": [{**row, "made": made.get(row["key"])} for row in model.run.stages],
        "newer": newer.count() if (newer := newer_tools(model)) is not None else 0,
        "holds_newer": holds_newer(model),
    }
    return render(request, "training/model_detail.html", context)


@require_GET
def model_newer(request: HttpRequest, pk: int) -> HttpResponse:
    """The active tools that came to the catalog after the model."""
    model = get_object_or_404(selectors.models(), pk=pk)
    tools = newer_tools(model)
    page = keyset(Tool.objects.none() if tools is None else tools, request.GET.get("after", ""), by="name")
    context = {
        "model": model,
        "page": page,
        "total": None if tools is None else tools.count(),
        "held": MOST_HELD if holds_newer(model) else 0,
    }
    return render(request, "training/model_newer.html", context)


def changed(
    request: HttpRequest,
    pk: int,
    change: Callable[..., object],
    said: str,
    refused_to: str = "training:model",
) -> HttpResponse:
    """Back to the model's page, or to `refused_to`, with what was done or why not."""
    model, note = get_object_or_404(Model, pk=pk), request.POST.get("note", "").strip()[:300]
    try:
        change(model=model, actor=request.user, note=note)
    except TraceError as error:
        messages.error(request, str(error))
        return redirect(refused_to, pk)
    messages.success(request, said)
    return redirect("training:model", pk)


@require_http_methods(["GET", "POST"])
def model_promote(request: HttpRequest, pk: int) -> HttpResponse:
    """What a promotion changes for callers and what the gate says; POST promotes."""
    if request.method == "POST":
        promote = partial(
            registry.promote,
            override=request.POST.get("override", ""),
            confirmed=request.POST.get("confirm") == "on",
            report=number_of(request.POST.get("report", "")) or None,
        )
        said = f"Model {pk} is champion: the playground and the API answer with it now."
        return changed(request, pk, promote, said, refused_to="training:promote")
    model = get_object_or_404(selectors.models(), pk=pk)
    champion = registry.current_aliases().get("champion")
    if champion == model:
        return redirect("training:model", pk)
    against = champion.pk if champion else None
    word = gate.gate_word(model.pk, against)
    newer = newer_tools(model)
    context = {
        "model": model,
        "champion": champion,
        "word": word,
        "needs": gate.needs(word, against),
        "newer": newer.count() if newer is not None else 0,
        "lost": registry.lost_tools(model, champion) if champion else [],
        "shortest": gate.SHORTEST,
        "longest": gate.LONGEST,
    }
    return render(request, "training/promote.html", context)


@require_POST
def model_rollback(request: HttpRequest, pk: int) -> HttpResponse:
    """Go back to this model, which was champion before."""
    return changed(request, pk, registry.roll_back, f"Gone back: model {pk} is champion again.")


@require_POST
def model_challenger(request: HttpRequest, pk: int) -> HttpResponse:
    said = f"Model {pk} is challenger: rules are tested with it beside the champion."
    return changed(request, pk, registry.set_challenger, said)


@require_POST
def model_keep(request: HttpRequest, pk: int) -> HttpResponse:
    """Mark a model as kept by hand; without a reason the mark goes."""
    kept = request.POST.get("note", "").strip()
    said = "Retention passes it by." if kept else "It is kept by hand no more."
    return changed(request, pk, retention.keep_by_hand, said)


@require_http_methods(["GET", "POST"])
def model_retention(request: HttpRequest) -> HttpResponse:
    """What nothing needs any more, and what needs the rest; POST removes the files."""
    if request.method == "POST":
        done = retention.apply(actor=request.user)
        counts = f"{len(done['models'])} models and {len(done['stages'])} stages"
        messages.success(request, f"Removed the files of {counts}, {filesizeformat(done['bytes'])}.")
        return redirect("training:retention")
    return render(request, "training/model_retention.html", {"plan": retention.plan()})
