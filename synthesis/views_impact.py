"""Fragments of the rule pages: what publishing would make stale, and how many samples each rule has."""

from django.db.models import Count, F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from rules.models import Rule
from synthesis.impact import regeneration_calls, stale_of_rules
from synthesis.models import Sample
from synthesis.selectors_standing import OUTDONE

MOST_SHOWN = 200  # rules of one page of the list


@require_GET
def rule_impact(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Samples of the published version stop entering snapshots once another version is published."""
    rule = get_object_or_404(Rule, pk=rule_id)
    found = stale_of_rules([rule.pk])
    context = {
        "rule": rule,
        "samples": found.samples,
        "approved": found.approved,
        "snapshots": len(found.snapshots),
        "calls": regeneration_calls(found.styles),
    }
    return render(request, "synthesis/_rule_impact.html", context)


@require_GET
def rule_counts(request: HttpRequest) -> HttpResponse:
    """Approved samples of the published rules ?rules=1,2, swapped into the rows of the rule list."""
    shown = [
        int(part) for part in request.GET.get("rules", "").split(",") if part.isdecimal() and len(part) < 19
    ]
    approved = Sample.objects.filter(
        ~OUTDONE,
        rule_version__rule__in=shown[:MOST_SHOWN],
        rule_version__rule__published=F("rule_version"),
        machine=Sample.Machine.READY,
        human=Sample.Human.APPROVED,
    )
    counts = (
        approved.order_by()
        .values_list("rule_version__rule", "rule_version__rule__code")
        .annotate(Count("pk"))
    )
    return render(request, "synthesis/_rule_counts.html", {"counts": counts})
