"""Pages of the tools: the list with its search, one tool."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from catalog import selectors
from catalog.core.tokens import FORMATS, tool_units
from catalog.imports.previews import revision_changes
from catalog.models import Domain
from catalog.search import ToolFilter, apis, find_tools
from catalog.services import tool_block, tool_unblock
from trace_site.lib.errors import TraceError

SHOWN_REVISIONS = 50
FILTERS = ("domain", "api", "state", "clustered", "ruled")


@require_GET
def tool_list(request: HttpRequest) -> HttpResponse:
    given = {key: request.GET.get(key, "").strip() for key in ("q", *FILTERS)}
    chosen = ToolFilter(search=given.pop("q"), **given)
    found = find_tools(chosen, request.GET.get("after", ""))
    context = {"found": found, "page": found.page, "chosen": chosen}
    context["has_rule_filter"] = selectors.ruled_tools() is not None
    if request.headers.get("HX-Request"):
        return render(request, "catalog/_tools.html", context)
    return render(request, "catalog/tool_list.html", {**context, "domains": Domain.objects.all()})


@require_GET
def api_options(request: HttpRequest) -> HttpResponse:
    """The names the API filter suggests, asked for when somebody goes there."""
    return render(request, "catalog/_apis.html", {"apis": apis(request.GET.get("domain", ""))})


@require_GET
def tool_named(request: HttpRequest, name: str) -> HttpResponse:
    """A name that a text mentions, to the page of its tool."""
    return redirect("catalog:detail", selectors.tool(name=name).pk)


@require_GET
def tool_detail(request: HttpRequest, pk: int) -> HttpResponse:
    tool = selectors.tool(pk=pk)
    revisions = tool.revisions.select_related("catalog_import__actor", "undo_of__undone_by")
    history = revision_changes(list(revisions[: SHOWN_REVISIONS + 1]))
    context = {
        "tool": tool,
        "neighbours": selectors.neighbours(tool),
        "twins": selectors.twins(tool),
        "tokens": [(fmt, "".join(tool_units(tool.name, fmt))) for fmt in FORMATS],
        "history": history[:SHOWN_REVISIONS],
        "more_history": len(history) > SHOWN_REVISIONS,
    }
    return render(request, "catalog/tool_detail.html", context)


@require_POST
def tool_block_toggle(request: HttpRequest, pk: int) -> HttpResponse:
    """Block the tool for the posted reason, or with `unblock` let answers name it again."""
    tool = selectors.tool(pk=pk)
    try:
        if "unblock" in request.POST:
            tool_unblock(tool=tool, actor=request.user)
            messages.success(request, f"{tool.name} is unblocked: answers may name it again.")
        else:
            tool_block(tool=tool, because=request.POST.get("because", ""), actor=request.user)
            messages.success(request, f"{tool.name} is blocked: no answer names it from now on.")
    except TraceError as error:
        messages.error(request, str(error))
    return redirect("catalog:detail", pk)
