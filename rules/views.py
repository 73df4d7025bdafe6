"""Pages of the rules: one rule with its history, and fragments about rules for other pages."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from catalog import selectors as catalog_selectors
from catalog.models import Domain
from rules import selectors
from rules.book import version_findings
from rules.changes import selectors as changes_selectors
from rules.changes.drafts import version_propose, withdrawal_propose
from rules.core.check import has_errors
from rules.models import RuleVersion
from rules.selectors import RuleFilter
from rules.selectors import rule_list as list_rules
from rules.services import pair_correct, recheck_missing, rule_wait
from trace_site.paging import number_of, numbers_of

MOST_PAIRS = 200  # of a rule, that its page shows


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
    clauses = selectors.version_clauses([version])[version.pk]
    context = {
        "rule": rule,
        "version": version,
        "plain": shown[0].content.plain,
        "newest": history[0].version,
        "history": history,
        "tools": tools,
        "names": [tool.name for tool in tools],
        "by_name": {tool.name: tool for tool in tools},
        "clauses": clauses,
        "leads": any(row.clause.leads and tools[0].name in row.clause.tools for row in clauses),
        "pairs": selectors.pair_table(version, tools),
        "most_pairs": f":{MOST_PAIRS}",
        "findings": findings,
        "blocked": has_errors(findings),
        "numbers": [entry.version.number for entry in history],
        "open_requests": changes_selectors.open_requests_of(rule.pk),
    }
    return render(request, "rules/rule_detail.html", context)


@require_GET
def rules_of_tool(request: HttpRequest, pk: int) -> HttpResponse:
    tool = catalog_selectors.tool(pk=pk)
    return render(request, "rules/_of_tool.html", {"tool": tool, "versions": selectors.rules_holding(tool)})


@require_POST
def affected(request: HttpRequest) -> HttpResponse:
    """Fragment of the import preview: published rules that name one of the tools."""
    names = request.POST.get("names", "").splitlines()
    return render(request, "rules/_affected.html", {"touched": selectors.rules_naming(names)})


@require_GET
def rule_list(request: HttpRequest) -> HttpResponse:
    """Rules that were never checked, because SQL wrote them, are checked when the list is first asked for."""
    recheck_missing()
    chosen = RuleFilter.read(request.GET)
    listed = list_rules(chosen, request.GET.get("after", ""))
    context = {"listed": listed, "page": listed.page, "rows": listed.page.rows, "chosen": chosen}
    if request.headers.get("HX-Request"):
        return render(request, "rules/_rules.html", context)
    return render(request, "rules/rule_list.html", {**context, "domains": Domain.objects.all()})


@require_GET
def compare(request: HttpRequest, pk: int, first: int, second: int) -> HttpResponse:
    old, new, change = changes_selectors.compare_versions(pk, first, second)
    numbers = list(old.rule.versions.order_by("-number").values_list("number", flat=True))
    context = {"rule": old.rule, "old": old, "new": new, "change": change, "numbers": numbers}
    return render(request, "rules/compare.html", context)


@require_GET
def compare_chosen(request: HttpRequest, pk: int) -> HttpResponse:
    """The address of the two numbers chosen in a form."""
    versions = [
        get_object_or_404(RuleVersion, rule=pk, number=number_of(request.GET.get(name, ""), digits=9))
        for name in ("from", "to")
    ]
    return redirect("rules:compare", pk, *(version.number for version in versions))


@require_POST
def propose_version(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """Publish this version, or roll back to it: a change request with its content."""
    version = get_object_or_404(RuleVersion.objects.select_related("rule"), rule=pk, number=number)
    change = version_propose(version=version, actor=request.user)
    messages.info(
        request, "This is a draft. Nothing is published until it is submitted, approved and applied."
    )
    return redirect("rules:request", change.request_id)


@require_POST
def correct_pair(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """Say whether the version tells two tools apart; an empty `apart` takes it as it was read."""
    version = get_object_or_404(RuleVersion.objects.select_related("rule"), rule=pk, number=number)
    pair = numbers_of(request.POST.get("pair", "").split("-"))
    is_apart = {"yes": True, "no": False}.get(request.POST.get("apart", ""))
    reason = request.POST.get("reason", "")
    pair_correct(version=version, pair=pair, is_apart=is_apart, reason=reason, actor=request.user)
    messages.success(request, "The pair counts as you said. What the rule teaches did not change.")
    return redirect(f"{reverse('rules:version', args=[pk, number])}#pairs")


@require_POST
def wait(request: HttpRequest, pk: int) -> HttpResponse:
    """Whether the rule decides from its publication on, or once a model has learned it."""
    waits = request.POST.get("waits") == "yes"
    rule = rule_wait(rule=selectors.rule(pk), waits=waits, actor=request.user)
    when = "once a model has learned them" if waits else "from now on"
    messages.success(request, f"The clauses of {rule.code} decide {when}.")
    return redirect(f"{reverse('rules:detail', args=[pk])}#clauses")


@require_POST
def propose_withdrawal(request: HttpRequest, pk: int) -> HttpResponse:
    change = withdrawal_propose(rule=selectors.rule(pk), actor=request.user)
    messages.info(request, "This is a draft. The rule stays until the request is approved and applied.")
    return redirect("rules:request", change.request_id)
