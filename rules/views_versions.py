"""Pages about versions of one rule: two of them compared, and the changes that begin from one."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from rules import selectors, selectors_changes
from rules.models import RuleVersion
from rules.proposals import version_propose, withdrawal_propose


@require_GET
def compare(request: HttpRequest, pk: int, first: int, second: int) -> HttpResponse:
    old, new, change = selectors_changes.compare_versions(pk, first, second)
    numbers = list(old.rule.versions.order_by("-number").values_list("number", flat=True))
    context = {"rule": old.rule, "old": old, "new": new, "change": change, "numbers": numbers}
    return render(request, "rules/compare.html", context)


@require_GET
def compare_chosen(request: HttpRequest, pk: int) -> HttpResponse:
    """The address of the two numbers chosen in a form."""
    numbers = [request.GET.get(name, "") for name in ("from", "to")]
    versions = [
        get_object_or_404(RuleVersion, rule=pk, number=int(text) if text.isdecimal() and len(text) < 9 else 0)
        for text in numbers
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
def propose_withdrawal(request: HttpRequest, pk: int) -> HttpResponse:
    change = withdrawal_propose(rule=selectors.rule(pk), actor=request.user)
    messages.info(request, "This is a draft. The rule stays until the request is approved and applied.")
    return redirect("rules:request", change.request_id)
