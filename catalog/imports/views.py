"""Pages of the imports: the list, the wizard from upload to result, undo."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog import selectors
from catalog.core.importers.detect import FORMATS
from catalog.imports.previews import applied_import, preview_of, upload_apply, upload_discard, upload_kept
from catalog.imports.services import import_undo, undo_plan
from catalog.lookalikes import catalog_refresh_start, refresh_job, tools_behind
from catalog.models import Domain
from trace_site.lib.errors import TraceError, quoted
from trace_site.limits import CATALOG_FILE, file_at_most
from trace_site.paging import keyset

LABELS = {
    "jsonl": "JSON lines",
    "csv": "CSV",
    "openapi": "OpenAPI 3",
    "swagger": "Swagger 2",
    "odata": "OData $metadata",
    "mcp": "MCP tools",
}
SHOWN_COUNTS = ("added", "changed", "unchanged", "removed", "deprecated", "returned", "skipped")


class ImportForm(forms.Form):
    file = forms.FileField(
        label="File",
        help_text="OpenAPI or Swagger (JSON, YAML), OData $metadata, MCP tools, JSONL or CSV; at most 100 MB.",
        validators=[file_at_most(CATALOG_FILE, "Split it by API.")],
    )
    domain = forms.CharField(
        label="Domain",
        max_length=60,
        help_text="An existing domain, or a new one such as HR. Tools its APIs no longer list are retired.",
        widget=forms.TextInput(attrs={"list": "domains", "autocomplete": "off"}),
    )
    format = forms.ChoiceField(
        label="Format",
        choices=[("auto", "recognise it"), *((name, LABELS.get(name, name)) for name in FORMATS)],
    )
    licence = forms.CharField(
        label="Licence",
        max_length=100,
        required=False,
        help_text="What the file may be used for: an SPDX identifier such as CC-BY-4.0, or a few words. Datasets name "
        "it. Empty: not recorded.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    api_name = forms.CharField(
        label="Name of the API",
        max_length=300,
        required=False,
        help_text="Empty: its title. Give one when two services have the same title, such as FastAPI.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


@require_GET
def import_list(request: HttpRequest) -> HttpResponse:
    page = keyset(selectors.imports(), request.GET.get("after", ""), newest=True)
    context = {"page": page, "behind": tools_behind(), "refresh": refresh_job()}
    return render(request, "catalog/import_list.html", context)


@require_http_methods(["GET", "POST"])
def import_form(request: HttpRequest) -> HttpResponse:
    """Choose a file; one that can be read is answered with what it would change."""
    form = ImportForm(request.POST or None, request.FILES or None)
    context: dict[str, Any] = {"form": form, "domains": Domain.objects.all()}
    if request.method == "POST" and form.is_valid():
        chosen = form.cleaned_data
        file, fmt = chosen.pop("file"), chosen.pop("format")
        try:
            with upload_kept(file, user=request.user, fmt=fmt, **chosen) as upload:
                result = upload.read(dry_run=True, skip_bad_rows=True)
                preview = preview_of(result)
                counts = preview["counts"]
                touched = [*(row["tool"] for row in preview["changed"]), *preview["removed"]]
                shown = {
                    "upload": upload,
                    "preview": preview,
                    "counts": counts,
                    "figures": _figures(counts),
                    "ticket": upload.ticket(result.plan),
                    "total": counts["added"] + counts["changed"] + counts["removed"],
                    "touched": [tool.name for tool in touched],
                }
                return render(request, "catalog/import_preview.html", shown)
        except TraceError as error:
            context["problem"] = error
    return render(request, "catalog/import_form.html", context, status=422 if form.is_bound else 200)


def _figures(counts: dict[str, Any]) -> list[tuple[str, int]]:
    """`removed` is what the file lacks; on the page that reads as what happens: retired. Added holds no returning."""
    shown = {**counts, "added": counts["added"] - counts.get("returned", 0)}
    labels = {"removed": "retired", "returned": "returning"}
    return [(labels.get(key, key), shown[key]) for key in SHOWN_COUNTS if key in shown]


@require_POST
def import_apply(request: HttpRequest) -> HttpResponse:
    """`choice` is apply, skip (the bad rows), or refuse (the file)."""
    ticket, choice = request.POST.get("ticket", ""), request.POST.get("choice", "apply")
    if choice not in ("apply", "skip", "refuse"):
        raise TraceError(
            f"{quoted(choice)} is no choice; nothing was imported.",
            code="bad_request",
            where="choice",
            hint="Send apply, skip or refuse.",
        )
    if choice == "refuse":
        upload = upload_discard(ticket, actor=request.user)
        messages.success(request, f"{upload.filename} was refused; nothing was imported.")
        return redirect("catalog:import")
    result = upload_apply(ticket, skip_bad_rows=choice == "skip", actor=request.user)
    assert result.catalog_import is not None
    messages.success(request, f"Imported {result.catalog_import.filename}.")
    return redirect("catalog:import_detail", result.catalog_import.pk)


@require_GET
def import_detail(request: HttpRequest, pk: int) -> HttpResponse:
    row = selectors.import_row(pk)
    context = {"row": row, "figures": _figures(row.counts), "done": applied_import(row)}
    context |= {"behind": tools_behind(), "refresh": refresh_job()}
    return render(request, "catalog/import_detail.html", context)


@require_http_methods(["GET", "POST"])
def undo(request: HttpRequest, pk: int) -> HttpResponse:
    """GET: the fragment that says what undoing would do, or why it is refused. POST: do it."""
    row = selectors.import_row(pk)
    if request.method == "GET":
        return render(request, "catalog/_undo.html", {"row": row, "plan": undo_plan(row)})
    import_undo(row=row, actor=request.user)
    messages.success(request, f"{row.filename} is undone: its tools are as they were before it.")
    return redirect("catalog:import_detail", pk)


@require_POST
def refresh_start(request: HttpRequest) -> HttpResponse:
    catalog_refresh_start(actor=request.user)
    return redirect("catalog:imports")
