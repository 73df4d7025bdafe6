"""The audit list, one event or change unfolded, and the list as a file."""

from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from trace_site.audit import log
from trace_site.audit.log import Wanted
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.lib.cells import csv_lines, readable

MOST_EXPORTED = 50_000
MOST_CHANGES = 50
COLUMNS = [
    "at",
    "actor",
    "through",
    "source",
    "action",
    "object_type",
    "object_id",
    "label",
    "detail",
    "before",
    "after",
    "tx",
]


@require_GET
def audit_list(request: HttpRequest) -> HttpResponse:
    wanted = log.wanted_from(request.GET)
    context = {
        "page": log.page_of_lines(wanted, request.GET.get("after", "")),
        "chosen": wanted,
        "any": wanted != Wanted(),
        "actions": log.known_values(AuditEntry, "action"),
        "operations": log.OPERATIONS,
        "types": log.known_types(),
    }
    return render(request, "audit/audit_list.html", context)


@require_GET
def audit_event(request: HttpRequest, pk: int) -> HttpResponse:
    """A named event with the rows its transaction changed: its object's first, then how many others."""
    entry = get_object_or_404(AuditEntry, pk=pk)
    own, others = log.changes_of(entry)
    rows = list(own[:MOST_CHANGES])
    line, *changes = log.lines_of([entry, *rows])
    return _unfolded(request, {"line": line, "changes": changes, "others": others.count()})


@require_GET
def audit_change(request: HttpRequest, pk: int) -> HttpResponse:
    line = log.lines_of([get_object_or_404(AuditChange, pk=pk)])[0]
    others = AuditChange.objects.filter(txid=line.tx or 0).count() - 1
    return _unfolded(request, {"line": line, "changes": [line], "others": others})


def _unfolded(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    fragment = request.headers.get("HX-Request")
    return render(request, "audit/_unfolded.html" if fragment else "audit/audit_detail.html", context)


@require_GET
def audit_csv(request: HttpRequest) -> StreamingHttpResponse:
    """The newest lines that match, for a spreadsheet; a cell that could be a formula begins with an apostrophe."""
    lines = log.all_lines(log.wanted_from(request.GET), most=MOST_EXPORTED)
    rows = ([_cell(getattr(line, name)) for name in COLUMNS] for line in lines)
    return StreamingHttpResponse(
        csv_lines(COLUMNS, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="audit.csv"'},
    )


def _cell(value: Any) -> str:
    if value is None or value == {}:
        return ""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {readable(part)}" for key, part in value.items())
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
