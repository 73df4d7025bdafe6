"""Pages of the rules: one rule with its history, and fragments about rules for other pages."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from catalog import selectors as catalog_selectors
from rules import selectors, selectors_changes
from rules.book import version_findings
from rules.core.findings import has_errors


@require_GET
def rule_detail(request: HttpRequest, pk: int, number: int | None = None) -> HttpResponse:
    """One version of a rule: the one asked for, else the newest."""
    rule = selectors.rule(pk)
    history = selectors.history(rule)
    shown = [entry for entry in history if number in (None, entry.version.number)]
    if not shown:
        raise Http404
    version = shown[0].version
    findings, tools = version_findings(version), selectors.tool_set(version)
    context = {
        "rule": rule,
        "version": version,
        "newest": history[0].version,
        "history": history,
        "tools": tools,
        "names": [tool.name for tool in tools],
        "findings": findings,
        "blocked": has_errors(findings),
        "numbers": [entry.version.number for entry in history],
        "open_requests": selectors_changes.open_requests_of(rule.pk),
    }
    return render(request, "rules/rule_detail.html", context)


@require_GET
def rules_of_tool(request: HttpRequest, pk: int) -> HttpResponse:
    tool = catalog_selectors.tool(pk)
    return render(request, "rules/_of_tool.html", {"tool": tool, "versions": selectors.rules_holding(tool)})


@require_POST
def affected(request: HttpRequest) -> HttpResponse:
    """Fragment of the import preview: published rules that name one of the tools."""
    names = request.POST.get("names", "").splitlines()
    return render(request, "rules/_affected.html", {"touched": selectors.rules_naming(names)})
