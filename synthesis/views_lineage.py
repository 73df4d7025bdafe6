"""The lineage page of a sample, a path down from its rule to the models that learned from it; a snapshot's samples."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from synthesis.lineage import lineage
from synthesis.models import Snapshot
from synthesis.selectors_lineage import NARROWS, members
from trace_site.paging import keyset


@require_GET
def sample_lineage(request: HttpRequest, pk: int) -> HttpResponse:
    found = lineage(pk, request.user)
    return render(request, "synthesis/sample_lineage.html", {"line": found, "sample": found.sample})


@require_GET
def snapshot_members(request: HttpRequest, pk: int) -> HttpResponse:
    """The samples of a snapshot in its order, all or of a branch, rule or style; each leads to its lineage."""
    snapshot = get_object_or_404(Snapshot.objects.defer("manifest"), pk=pk)
    chosen = {name: request.GET.get(name, "")[:200] for name in NARROWS}
    rows = members(pk, {name: value for name, value in chosen.items() if value})
    page = keyset(rows, request.GET.get("after", ""), by="position")
    context = {
        "snapshot": snapshot,
        "page": page,
        "chosen": {name: one for name, one in chosen.items() if one},
    }
    return render(request, "synthesis/snapshot_members.html", context)
