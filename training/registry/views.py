"""Pages of models: the list with its aliases, one model with its lineage, moving aliases, what retention removes."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.defaultfilters import filesizeformat
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.models import Tool
from trace_site.lib.errors import TraceError
from trace_site.paging import keyset
from training.models import AliasMove, Model
from training.registry import registry, retention, selectors
from training.registry.registry import newer_tools


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
    moves = list(model.alias_moves.select_related("actor"))
    context = {
        "model": model,
        "card": selectors.card_parts(model.card),
        "aliases": selectors.alias_names(current).get(model.pk, []),
        "champion": current.get("champion"),
        "was_champion": any(move.alias == AliasMove.Alias.CHAMPION for move in moves),
        "moves": moves,
        "stages": selectors.stages_of(model.run),
        "newer": newer.count() if (newer := newer_tools(model)) is not None else 0,
    }
    return render(request, "training/model_detail.html", context)


@require_GET
def model_newer(request: HttpRequest, pk: int) -> HttpResponse:
    """The active tools that came to the catalog after the model: it cannot answer with them."""
    model = get_object_or_404(selectors.models(), pk=pk)
    tools = newer_tools(model)
    page = keyset(Tool.objects.none() if tools is None else tools, request.GET.get("after", ""), by="name")
    context = {"model": model, "page": page, "total": None if tools is None else tools.count()}
    return render(request, "training/model_newer.html", context)


def note_of(request: HttpRequest) -> str:
    return request.POST.get("note", "").strip()[:300]


def moved(request: HttpRequest, pk: int, said: str) -> HttpResponse:
    messages.success(request, said)
    return redirect("training:model", pk)


def refused(request: HttpRequest, pk: int, error: TraceError) -> HttpResponse:
    messages.error(request, str(error))
    return redirect("training:model", pk)


@require_POST
def model_promote(request: HttpRequest, pk: int) -> HttpResponse:
    model = get_object_or_404(Model, pk=pk)
    try:
        move = registry.promote(model=model, actor=request.user, note=note_of(request))
    except TraceError as error:
        return refused(request, pk, error)
    said = f"Model {move.model_id} is champion: the playground and the API answer with it now."
    return moved(request, pk, said)


@require_POST
def model_rollback(request: HttpRequest, pk: int) -> HttpResponse:
    """Go back to this model, which was champion before."""
    model = get_object_or_404(Model, pk=pk)
    try:
        move = registry.roll_back(to=model, actor=request.user, note=note_of(request))
    except TraceError as error:
        return refused(request, pk, error)
    return moved(request, pk, f"Gone back: model {move.model_id} is champion again.")


@require_POST
def model_challenger(request: HttpRequest, pk: int) -> HttpResponse:
    model = get_object_or_404(Model, pk=pk)
    try:
        registry.set_challenger(model=model, actor=request.user, note=note_of(request))
    except TraceError as error:
        return refused(request, pk, error)
    return moved(request, pk, f"Model {pk} is challenger: rules are tested with it beside the champion.")


@require_POST
def model_keep(request: HttpRequest, pk: int) -> HttpResponse:
    """Mark a model as kept by hand; without a reason the mark goes."""
    model = get_object_or_404(Model, pk=pk)
    try:
        model = retention.keep_by_hand(model=model, because=note_of(request), actor=request.user)
    except TraceError as error:
        return refused(request, pk, error)
    return moved(
        request, pk, "Retention passes it by." if model.kept_because else "It is kept by hand no more."
    )


@require_http_methods(["GET", "POST"])
def model_retention(request: HttpRequest) -> HttpResponse:
    """What nothing needs any more, and what needs the rest; POST removes the files."""
    if request.method == "POST":
        done = retention.apply(actor=request.user)
        counts = f"{len(done['models'])} models and {len(done['stages'])} stages"
        messages.success(request, f"Removed the files of {counts}, {filesizeformat(done['bytes'])}.")
        return redirect("training:retention")
    return render(request, "training/model_retention.html", {"plan": retention.plan()})
