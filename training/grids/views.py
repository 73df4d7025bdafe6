"""Pages of grids: the list, the launch form with its forecast, one grid as a matrix."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from synthesis.models import Snapshot
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.small_yaml import LONGEST, read_small_yaml
from trace_site.paging import keyset
from training.core.grid import read_plan, totals
from training.grids import selectors, services
from training.grids.services import grid_seconds
from training.models import Grid, Run
from training.runs.forms import BaseField

# The launch form of a grid; what it cannot say, a plan file can.

RECENT = 20
AXES = ("formats", "memos", "retrievals")
MARK = forms.CheckboxSelectMultiple


def snapshot_choices() -> list[tuple[str, str]]:
    """The newest snapshots, in words."""
    rows = Snapshot.objects.defer("manifest")[:RECENT]
    return [
        (str(one.pk), f"{one.pk}: {one.strategy}({one.per_rule}), {one.counts.get('samples', 0):,} samples")
        for one in rows
    ]


class GridForm(forms.Form):
    name = forms.CharField(max_length=200, required=False)
    snapshots = forms.MultipleChoiceField(choices=snapshot_choices, required=False, widget=MARK)
    sweep = forms.CharField(max_length=300, required=False)
    formats = forms.MultipleChoiceField(choices=Run.Format.choices, initial=["a", "b", "c"], widget=MARK)
    memos = forms.MultipleChoiceField(
        choices=[(value, value) for value in Run.Memo.values], initial=["none", "m"], widget=MARK
    )
    retrievals = forms.MultipleChoiceField(
        choices=[(value, value) for value in Run.Retrieval.values], initial=["n", "r", "r+R"], widget=MARK
    )
    seeds = forms.CharField(max_length=100, initial="0")
    base = BaseField()
    recipe = forms.CharField(required=False, widget=forms.Textarea, max_length=LONGEST)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not data.get("snapshots") and not data.get("sweep"):
            self.add_error("snapshots", "Mark one, or name a sweep.")
        if not self.errors:
            try:
                data["plan"] = read_plan(
                    {
                        "name": data["name"].strip(),
                        "base": data["base"],
                        "snapshots": [*map(int, data["snapshots"]), *data["sweep"].replace(";", " ").split()],
                        "seeds": [one.strip() for one in data["seeds"].split(",")],
                        "recipe": read_small_yaml(data["recipe"], "recipe"),
                        **{axis: data[axis] for axis in AXES},
                    }
                )
            except TraceError as error:
                self.add_error(None, str(error))
        return data


AT_ONCE = 100  # cells that a request queues itself


@require_GET
def grid_list(request: HttpRequest) -> HttpResponse:
    """The grids, above them those that wait for their snapshots or could not be made."""
    page = keyset(selectors.grids(), request.GET.get("after", ""), newest=True)
    preparing = Job.objects.filter(kind="grid").exclude(state=Job.State.DONE).order_by("-pk")[:10]
    context = {"page": page, "preparing": list(preparing)}
    return render(request, "training/grid_list.html", context)


@require_http_methods(["GET", "POST"])
def grid_create(request: HttpRequest) -> HttpResponse:
    asked = request.GET.getlist("snapshot") or [name for name, _ in snapshot_choices()[:1]]
    form = GridForm(request.POST or None, initial={"snapshots": asked})
    if request.method == "POST" and form.is_valid():
        plan = form.cleaned_data["plan"]
        try:
            # a small plan on snapshots that are there is queued at once; the rest by a job, shown above the list
            if plan.builds() or len(plan.cells()) > AT_ONCE:
                services.grid_start(plan=plan, actor=request.user)
                return redirect("training:grids")
            snapshots = services.snapshots_of(plan)
            grid = services.grid_create(plan=plan, snapshots=snapshots, actor=request.user)
            return redirect("training:grid", grid.pk)
        except TraceError as error:
            form.add_error(None, str(error))
    return render(request, "training/grid_form.html", {"form": form}, status=422 if form.errors else 200)


@require_GET
def grid_preview(request: HttpRequest) -> HttpResponse:
    """Fragment: what the form as it stands would train."""
    form = GridForm(request.GET)
    context: dict[str, Any] = {"errors": form.errors}
    if form.is_valid():
        plan = form.cleaned_data["plan"]
        try:
            planned = services.grid_forecast(plan)
            seconds = grid_seconds(plan, planned)
        except TraceError as error:
            context = {"error": error}
        else:
            context = {"planned": planned, "builds": plan.builds(), "seconds": seconds}
            context |= totals(planned)
    return render(request, "training/_grid_preview.html", context)


@require_GET
def grid_page(request: HttpRequest, pk: int, live: bool = False) -> HttpResponse:
    """A grid as a matrix. `live`: that alone; when the last cell has ended the page is loaded anew."""
    grid = get_object_or_404(Grid.objects.select_related("created_by"), pk=pk)
    matrix = selectors.matrix(grid)
    template = "training/_grid.html" if live else "training/grid_detail.html"
    response = render(request, template, {"grid": grid, "matrix": matrix})
    if live and not matrix.active:
        response["HX-Refresh"] = "true"
    return response


STEERED = {
    "cancel": ("cells stop; what was trained is kept.", "No cell was waiting or training."),
    "resume": ("cells are queued again.", "No cell had failed or was cancelled."),
}


@require_POST
def grid_steer(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """Cancel or resume what can be of its cells."""
    many = services.grid_steer(grid=get_object_or_404(Grid, pk=pk), verb=verb, actor=request.user)
    some, none = STEERED[verb]
    messages.success(request, f"{many} {some}" if many else none)
    return redirect("training:grid", pk)
