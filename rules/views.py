"""Pages of the rules: the list, one rule with its history, the editor with live findings."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog import selectors as catalog_selectors
from catalog.selectors import ToolFilter
from rules import selectors
from rules.book import version_findings
from rules.core.findings import Finding, has_errors
from rules.editing import EditedMeanwhile, rule_form_save
from rules.exchange import rules_export
from rules.forms import RuleForm, in_form_words
from rules.models import Rule, RuleVersion
from rules.services import SavedRule, rule_preview, rule_publish, rule_withdraw
from trace_site.access import ADMIN, EXPERT, role_required
from trace_site.lib.errors import TraceError


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
@require_http_methods(["GET", "POST"])
def rule_create(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        return _save(request, None)
    ids = [int(part) for part in request.GET.get("tools", "").split(",") if part.isdecimal()]
    names = selectors.tool_names(ids)
    form = RuleForm(domain=request.GET.get("domain", ""), target=next(iter(names), ""), confusables=names[1:])
    return _editor(request, form, None)


@role_required(EXPERT, ADMIN)
@require_http_methods(["GET", "POST"])
def rule_update(request: HttpRequest, pk: int) -> HttpResponse:
    rule = selectors.rule(pk)
    if request.method == "POST":
        return _save(request, rule)
    newest = selectors.newest_version(rule)
    if newest is None:
        raise Http404
    return _editor(request, _form_of(newest), rule)


def _form_of(version: RuleVersion) -> RuleForm:
    content = selectors.content(version)
    return RuleForm(
        domain=version.rule.domain_id,
        code=version.rule.code,
        target=content.target,
        confusables=list(content.confusables),
        text=content.text,
        clauses=list(content.clauses),
        tests=list(content.tests),
        base=version.number,
    )


def _editor(request: HttpRequest, form: RuleForm, rule: Rule | None, **extra: Any) -> HttpResponse:
    context = {
        "form": form,
        "rule": rule,
        "domains": selectors.domains(),
        "suggestions": selectors.suggestions(form.target, form.confusables),
        **extra,
    }
    refused = "problem" in extra or "meanwhile" in extra
    return render(request, "rules/rule_form.html", context, status=409 if refused else 200)


def _save(request: HttpRequest, rule: Rule | None) -> HttpResponse:
    """Save, or save and publish; whatever is refused comes back with everything that was typed."""
    form = RuleForm.read(request.POST)
    publish = request.POST.get("do") == "publish"
    try:
        saved = rule_form_save(form=form, rule=rule, publish=publish, actor=request.user)
    except EditedMeanwhile as late:
        began = form.base
        form.base = late.newest.number
        return _editor(request, form, rule, meanwhile=late.newest, began=began)
    except TraceError as error:
        return _editor(request, form, rule, problem=in_form_words(error))
    _tell(request, saved, publish)
    return redirect("rules:detail", saved.version.rule_id)


def _tell(request: HttpRequest, saved: SavedRule, publish: bool) -> None:
    version = f"{saved.version.rule.code} v{saved.version.number}"
    if not saved.changed and not publish:
        messages.info(request, f"Nothing changed; {version} already says exactly this.")
    elif publish and not saved.published:
        messages.warning(request, f"{version} is saved, but not published: correct the errors below first.")
    else:
        messages.success(request, f"{version} is {'published' if saved.published else 'saved as a draft'}.")


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


@require_POST
def rule_check(request: HttpRequest) -> HttpResponse:
    """The editor's live findings; the form is checked exactly as saving would."""
    form = RuleForm.read(request.POST)
    known = request.POST.get("rule", "")
    rule = Rule.objects.filter(pk=int(known)).first() if known.isdecimal() else None
    findings: list[Finding] = []
    problems: list[str] = []
    try:
        findings = rule_preview(**form.content(), rule=rule)
    except TraceError as error:
        problems = in_form_words(error).extra.get("errors") or [error.message]
    context = {
        "findings": findings,
        "problems": problems,
        "rule": rule,
        "next": form.base + 1,
        "blocked": has_errors(findings),
    }
    return render(request, "rules/_findings.html", context)


@require_POST
def confusables(request: HttpRequest) -> HttpResponse:
    """The editor's list of confusables: the chosen ones, then the target's neighbours."""
    form = RuleForm.read(request.POST)
    chosen = selectors.suggestions(form.target, form.confusables)
    unknown = [name for name in form.confusables if name not in {item.tool.name for item in chosen}]
    target = next((tool for tool in selectors.tools_named([form.target])), None)
    context = {"form": form, "suggestions": chosen, "unknown": unknown, "target": target}
    return render(request, "rules/_confusables.html", context)


@require_GET
def tool_search(request: HttpRequest) -> HttpResponse:
    """Options of a datalist for what is being typed."""
    typed = request.GET.get("target") or request.GET.get("add_confusable") or ""
    rows = catalog_selectors.tools(ToolFilter(search=typed))[:20] if typed.strip() else []
    return render(request, "rules/_options.html", {"tools": rows})


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
