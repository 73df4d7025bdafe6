"""Two snapshots side by side: what came, went and changed."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from synthesis import selectors_snapshots as reads
from synthesis.models import Snapshot
from synthesis.snapshot_diffs import SHOWS, Pair

TITLES = {
    "changed": "Changed in place",
    "added": "Added",
    "removed": "Removed",
    "rules": "Rules",
    "tools": "Tools",
}


@require_GET
def snapshot_diff(request: HttpRequest) -> HttpResponse:
    """?a=&b=&show=&after=; without two snapshots, a form to choose them."""
    chosen = [request.GET.get(side, "") for side in ("a", "b")]
    every = list(reads.snapshots().order_by("-pk")[:100])
    if not all(key.isascii() and key.isdecimal() and len(key) < 19 for key in chosen):
        return render(request, "synthesis/snapshot_diff.html", {"every": every})
    a, b = (get_object_or_404(Snapshot, pk=int(key)) for key in chosen)
    pair = Pair(a, b)
    counts = pair.counts()
    show = request.GET.get("show", "")
    if show not in SHOWS:
        show = next((name for name in SHOWS if counts[name]), SHOWS[0])
    context = {
        "every": every,
        "pair": pair,
        "tabs": [(name, TITLES[name], counts[name]) for name in SHOWS],
        "show": show,
        "page": pair.page(show, request.GET.get("after", "")),
        "options": pair.options(),
        "totals": pair.totals(),
        "equal": a.hash == b.hash,
    }
    return render(request, "synthesis/snapshot_diff.html", context)
