"""Pages of the rules."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from rules import selectors


@require_GET
def rule_list(request: HttpRequest) -> HttpResponse:
    return render(request, "rules/rule_list.html", {"rules": selectors.rules(request.GET.get("domain", ""))})
