"""Pages of the catalog."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog import selectors
from catalog.forms import ImportForm
from catalog.imports import ImportResult
from catalog.refresh import catalog_refresh_start, refresh_job, tools_behind
from catalog.selectors import SEARCH_LIMIT, ToolFilter
from catalog.uploads import Upload, upload_apply, upload_keep, upload_preview
from trace_site.access import ADMIN, EXPERT, role_required
from trace_site.lib.errors import TraceError
from trace_site.paging import Page, keyset

SHOWN = 200  # rows of a preview that are written out


@require_GET
def tool_list(request: HttpRequest, ruled_ids: Callable[[], set[int]] | None = None) -> HttpResponse:
    chosen = ToolFilter(
        search=request.GET.get("q", "").strip(),
        **{key: request.GET.get(key, "") for key in ("domain", "api", "state", "clustered", "ruled")},
    )
    rows = selectors.tools(chosen, ruled_ids)
    total = rows.count()
    if chosen.search:
        page = Page(list(rows[:SEARCH_LIMIT]), "", None)
    else:
        page = keyset(rows, request.GET.get("after", ""), by="name")
    context = {"page": page, "total": total, "chosen": chosen, "has_rule_filter": ruled_ids is not None}
    if request.headers.get("HX-Request"):
        return render(request, "catalog/_tools.html", context)
    lists = {"domains": selectors.domains(), "apis": selectors.apis(chosen.domain)}
    return render(request, "catalog/tool_list.html", {**context, **lists})


@require_GET
def tool_named(request: HttpRequest, name: str) -> HttpResponse:
    """A name that a text mentions, to the page of its tool."""
    return redirect("catalog:detail", selectors.tool_named(name).pk)


@require_GET
def tool_detail(request: HttpRequest, pk: int) -> HttpResponse:
    tool = selectors.tool(pk)
    context = {
        "tool": tool,
        "neighbours": selectors.neighbours(tool),
        "cluster": selectors.cluster_of(tool),
        "tokens": selectors.token_strings(tool),
        "revisions": selectors.revisions(tool),
    }
    return render(request, "catalog/tool_detail.html", context)


@require_GET
def import_list(request: HttpRequest) -> HttpResponse:
    context = {
        "page": keyset(selectors.imports(), request.GET.get("after", ""), newest=True),
        "behind": tools_behind(),
        "refresh": refresh_job(),
    }
    return render(request, "catalog/import_list.html", context)


@role_required(ADMIN, EXPERT)
@require_http_methods(["GET", "POST"])
def import_form(request: HttpRequest) -> HttpResponse:
    """Choose a file; a good one is answered with what it would change."""
    form = ImportForm(request.POST or None, request.FILES or None)
    context: dict[str, Any] = {"form": form, "domains": selectors.domains()}
    if request.method == "POST" and form.is_valid():
        chosen = form.cleaned_data
        try:
            upload = upload_keep(chosen["file"], domain=chosen["domain"], fmt=chosen["format"])
            return _preview(request, upload, upload_preview(upload))
        except TraceError as error:
            context["problem"] = error
    return render(request, "catalog/import_form.html", context, status=422 if form.is_bound else 200)


def _preview(request: HttpRequest, upload: Upload, result: ImportResult) -> HttpResponse:
    diff, counts = result.diff, result.counts
    before = selectors.tools_by_name([record.name for record in diff.changed])
    changed = [(before[record.name], record) for record in diff.changed[:SHOWN]]
    context = {
        "upload": upload,
        "result": result,
        "ticket": upload.ticket(counts),
        "total": counts["added"] + counts["changed"] + counts["removed"],
        "counts": [
            (key, counts[key])
            for key in ("added", "changed", "unchanged", "removed", "deprecated", "skipped")
        ],
        "touched": [*before, *diff.removed],
        "changed": changed,
        "removed": diff.removed[:SHOWN],
        "more_removed": len(diff.removed) - SHOWN,
        "added": diff.added[:SHOWN],
    }
    return render(request, "catalog/import_preview.html", context)


@role_required(ADMIN, EXPERT)
@require_POST
def import_apply(request: HttpRequest) -> HttpResponse:
    counts = upload_apply(request.POST.get("ticket", ""), actor=request.user).counts
    messages.success(
        request,
        f"Imported: {counts['added']} added, {counts['changed']} changed, {counts['removed']} retired. "
        "Now find the look-alikes again.",
    )
    return redirect("catalog:imports")


@role_required(ADMIN, EXPERT)
@require_POST
def refresh_start(request: HttpRequest) -> HttpResponse:
    catalog_refresh_start(actor=request.user)
    return redirect("catalog:imports")
