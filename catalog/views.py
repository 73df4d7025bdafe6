"""Pages of the catalog."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from catalog import selectors
from catalog.selectors import SEARCH_LIMIT, ToolFilter
from trace_site.access import ADMIN, EXPERT, role_required
from trace_site.paging import Page, keyset


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
    page = keyset(selectors.imports(), request.GET.get("after", ""), newest=True)
    return render(request, "catalog/import_list.html", {"page": page})


@role_required(ADMIN, EXPERT)
def import_form(request: HttpRequest) -> HttpResponse:
    return render(request, "catalog/import_form.html", {})
