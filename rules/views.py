"""Pages of the rules: the list, and one rule with its history. The editor is in views_editor and views_live."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from catalog import selectors as catalog_selectors
from rules import selectors
from rules.book import version_findings
from rules.core.findings import has_errors
from rules.exchange import rules_export
from rules.models import RuleVersion
from rules.services import rule_publish, rule_withdraw
from trace_site.access import ADMIN, EXPERT, role_required


@require_GET
def rule_list(request: HttpRequest) -> HttpResponse:
    chosen = {key: request.GET.get(key, "") for key in ("domain", "state", "light")}
    search = request.GET.get("q", "").strip()
    rows = selectors.rule_rows(search=search, **chosen)
    context = {"rows": rows, "chosen": chosen, "search": search, "any": bool(search) or any(chosen.values())}
    if request.headers.get("HX-Request"):
        return render(request, "rules/_rules.html", context)
    return render(request, "rules/rule_list.html", {**context, "domains": selectors.domains()})


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
    }
    return render(request, "rules/rule_detail.html", context)


@role_required(EXPERT, ADMIN)
@require_POST
def rule_publish_version(request: HttpRequest, pk: int) -> HttpResponse:
    number = request.POST.get("version", "")
    if not number.isdecimal():
        raise Http404
    version = get_object_or_404(RuleVersion.objects.select_related("rule"), rule=pk, number=number)
    rule_publish(version=version, actor=request.user)
    messages.success(request, f"{version.rule.code} v{version.number} is published.")
    return redirect("rules:detail", pk)


@role_required(EXPERT, ADMIN)
@require_POST
def rule_withdraw_published(request: HttpRequest, pk: int) -> HttpResponse:
    rule = rule_withdraw(rule=selectors.rule(pk), actor=request.user)
    messages.success(
        request, f"{rule.code} is withdrawn: it covers nothing until a version is published again."
    )
    return redirect("rules:detail", pk)


@require_GET
def rules_of_tool(request: HttpRequest, pk: int) -> HttpResponse:
    tool = catalog_selectors.tool(pk)
    return render(request, "rules/_of_tool.html", {"tool": tool, "versions": selectors.rules_holding(tool)})


@require_POST
def affected(request: HttpRequest) -> HttpResponse:
    """Fragment of the import preview: published rules that name one of the tools."""
    names = request.POST.get("names", "").splitlines()
    return render(request, "rules/_affected.html", {"touched": selectors.rules_naming(names)})


@require_GET
def rule_export(request: HttpRequest) -> JsonResponse:
    """The rules in the exchange format, as rules_export writes them."""
    rules = rules_export(domain=request.GET.get("domain", ""))
    response = JsonResponse(rules, safe=False, json_dumps_params={"indent": 2, "ensure_ascii": False})
    response["Content-Disposition"] = 'attachment; filename="rules.json"'
    return response
