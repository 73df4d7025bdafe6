"""What the rules taught, in single requests: the page before and after, and a rule's own requests."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from evaluation.taught.before_after import FILTERS, OUTCOMES, draw
from evaluation.taught.rule_help import rule_help
from evaluation.taught.selectors import Part
from rules.models import Rule

SEED = 0  # of the first ten


@require_GET
def before_after(request: HttpRequest) -> HttpResponse:
    """Ten requests, drawn by the seed in the address, with the answers of the control and of the champion."""
    filters = {name: request.GET.get(name, "") for name in ("show", "tier", "domain")}
    given = request.GET.get("seed", "")
    seed = int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else SEED
    drawing = draw(seed=seed, **filters)
    used = {name: value for name, value in filters.items() if value}
    counted = [
        (
            part,
            sum(counts.values()),
            [(OUTCOMES[show][0], count, _query(used, part, show)) for show, count in counts.items()],
        )
        for part, counts in drawing.counts
    ]
    context = {
        "drawing": drawing,
        "taught": drawing.taught,
        "seed": seed,
        "filters": filters,
        "counted": counted,
        "outcomes": OUTCOMES.values(),
        "shows": [(show, label) for show, (label, _) in FILTERS.items()],
        "another": urlencode(used | {"seed": seed + 1}),
    }
    return render(request, "evaluation/before_after.html", context)


def _query(used: dict[str, str], part: Part, show: str) -> str:
    """The filters that lead to what a count counts."""
    return urlencode(used | {"show": show, "tier": part.benchmark.tier})


@require_GET
def did_rule_help(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Fragment for a rule's page: what its author asks after a training."""
    rule = get_object_or_404(Rule.objects.select_related("published"), pk=rule_id)
    return render(request, "evaluation/_rule_help.html", {"rule": rule, "help": rule_help(rule)})
