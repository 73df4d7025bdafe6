"""Pages of runs trained elsewhere: how to train one, and which to adopt."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from synthesis.models import Snapshot
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from training import imports


@require_GET
def import_list(request: HttpRequest) -> HttpResponse:
    """The folders in the inbox, and the commands for the machine that trains."""
    wanted = request.GET.get("snapshot", "")
    snapshots = Snapshot.objects.defer("manifest")
    chosen = snapshots.filter(pk=wanted).first() if wanted.isdecimal() and len(wanted) < 10 else None
    context = {
        "inbox": imports.inbox(),
        "folders": [imports.glance(name) for name in imports.waiting()],
        "jobs": Job.objects.filter(kind="import").order_by("-pk")[:5],
        "snapshots": snapshots[:20],
        "snapshot": chosen or snapshots.first(),
    }
    return render(request, "training/imports.html", context)


@require_POST
def import_adopt(request: HttpRequest) -> HttpResponse:
    try:
        imports.import_start(name=request.POST.get("folder", ""), actor=request.user)
    except TraceError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "Its files are checked and stored; the job below says how it went.")
    return redirect("training:imports")
