"""Snapshots: the list, the builder with live counts, one frozen snapshot, its samples as a file."""

from collections.abc import Iterator
from pathlib import Path

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from synthesis import selectors_snapshots as reads
from synthesis import services, snapshots
from synthesis.forms import SnapshotForm
from synthesis.models import Snapshot
from synthesis.snapshot_plans import preview as preview_of
from trace_site.access import ADMIN, EXPERT, role_required
from trace_site.lib.errors import TraceError
from trace_site.paging import keyset

CHUNK = 1 << 16


@require_GET
def snapshot_list(request: HttpRequest) -> HttpResponse:
    page = keyset(reads.snapshots(), request.GET.get("after", ""), newest=True)
    return render(
        request, "synthesis/snapshot_list.html", {"page": page, "approved": reads.approved_counts()}
    )


@role_required(EXPERT, ADMIN)
@require_http_methods(["GET", "POST"])
def snapshot_create(request: HttpRequest) -> HttpResponse:
    form = SnapshotForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            job = services.snapshot_start(**form.cleaned_data, actor=request.user)
        except TraceError as error:
            form.add_error(None, str(error))
        else:
            return redirect("jobs:detail", job.pk)
    context = {"form": form, "approved": reads.approved_counts()}
    return render(request, "synthesis/snapshot_form.html", context, status=422 if form.errors else 200)


@role_required(EXPERT, ADMIN)
@require_GET
def snapshot_preview(request: HttpRequest) -> HttpResponse:
    """Fragment: what the form as it stands would freeze."""
    form = SnapshotForm(request.GET)
    if not form.is_valid():
        return render(request, "synthesis/_snapshot_preview.html", {"errors": form.errors})
    try:
        preview = preview_of(**form.cleaned_data)
    except TraceError as error:
        return render(request, "synthesis/_snapshot_preview.html", {"error": error})
    return render(request, "synthesis/_snapshot_preview.html", {"preview": preview})


@require_GET
def snapshot_detail(request: HttpRequest, pk: int) -> HttpResponse:
    snapshot = get_object_or_404(Snapshot.objects.select_related("created_by"), pk=pk)
    rows = reads.composition(snapshot)
    context = {
        "snapshot": snapshot,
        "rows": rows,
        "branches": reads.by_branch(rows),
        "manifest": snapshot.manifest,
    }
    return render(request, "synthesis/snapshot_detail.html", context)


@require_GET
def snapshot_download(request: HttpRequest, pk: int) -> StreamingHttpResponse:
    """samples.jsonl exactly as trained on, from the store, verified."""
    snapshot = get_object_or_404(Snapshot.objects.defer("manifest"), pk=pk)
    path = snapshots.snapshot_dir(snapshot) / "samples.jsonl"
    response = StreamingHttpResponse(chunks(path), content_type="application/x-ndjson")
    response["Content-Disposition"] = (
        f'attachment; filename="snapshot-{pk}-{snapshot.hash[:8]}-samples.jsonl"'
    )
    response["Content-Length"] = str(path.stat().st_size)
    return response


def chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        while block := handle.read(CHUNK):
            yield block
