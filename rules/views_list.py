"""The list of rules: search, filters, pages."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from rules.health import recheck_missing
from rules.selectors import domains
from rules.selectors_list import RuleFilter
from rules.selectors_list import rule_list as list_rules


@require_GET
def rule_list(request: HttpRequest) -> HttpResponse:
    """Rules that were never checked, because SQL wrote them, are checked when the list is first asked for."""
    recheck_missing()
    chosen = RuleFilter.read(request.GET)
    listed = list_rules(chosen, request.GET.get("after", ""))
    context = {"listed": listed, "page": listed.page, "rows": listed.page.rows, "chosen": chosen}
    if request.headers.get("HX-Request"):
        return render(request, "rules/_rules.html", context)
    return render(request, "rules/rule_list.html", {**context, "domains": domains()})
