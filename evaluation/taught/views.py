"""What the rules taught, on pages: champion, control and embedding beside each other, and a rule's own requests."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from evaluation.core.coverage import GROUP_WORDS
from evaluation.core.metrics import ALL
from evaluation.core.paired import BETTER, WORSE
from evaluation.core.taught import TaughtCell
from evaluation.taught.selectors import Taught, TaughtPart, answers_url, rule_help, taught
from rules.models import Rule
from trace_site.lib.charts import Dot, DotChart, DotRow

WORDS = {BETTER: ("better than embedding", "good"), WORSE: ("worse than embedding", "bad")}


def taught_figure(found: Taught, part: TaughtPart, domain: str = ALL) -> DotChart | None:
    """None where the domain has no request in this benchmark."""
    shown = [cell for cell in part.of(domain) if cell.group != ALL] or part.of(domain)
    if not shown:
        return None
    title = f"{part.title if domain == ALL else part.short}, {part.decode}"
    rows = []
    for cell in shown:
        if cell.group == "covered":
            others = (("without rule samples", cell.control), ("embedding", cell.embedding))
            beside = ", ".join(f"{who} {mean.value:.2f}" for who, mean in others if mean)
            title += f". Where a rule covers, the {found.name} finds {cell.champion.value:.2f}"
            title += f" ({beside})" if beside else ""
        sides = (
            (found.name, "circle", cell.champion),
            ("control, no rule samples", "square", cell.control),
            ("embedding", "diamond", cell.embedding),
        )
        dots = [Dot(who, shape, mean.value or 0.0, mean.low, mean.high) for who, shape, mean in sides if mean]
        word, tone = "", ""
        if cell.over_embedding is not None:
            word, tone = WORDS.get(cell.over_embedding.answer, ("cannot tell", "wait"))
        rows.append(DotRow(GROUP_WORDS[cell.group], cell.n, dots, cell_url(part, cell), word, tone))
    return DotChart(title, rows)


def cell_url(part: TaughtPart, cell: TaughtCell) -> str:
    chosen = {name: value for name, value in (("group", cell.group), ("domain", cell.domain)) if value != ALL}
    return answers_url(part.champion, **chosen)


def taught_context(domain: str) -> dict[str, Any]:
    """What the rules taught, a benchmark at a time: its figures, and the cells of every decoding."""
    found = taught()
    blocks = [
        {
            "first": parts[0],
            "figures": [figure for part in parts if (figure := taught_figure(found, part, domain))],
            "rows": [
                (part, cell, cell_url(part, cell), cell == part.of(domain)[0])
                for part in parts
                for cell in part.of(domain)
            ],
        }
        for parts in found.benchmarks
    ]
    return {"taught": found, "blocks": blocks, "warnings": found.warnings(domain)}


@require_GET
def before_after(request: HttpRequest) -> HttpResponse:
    """The champion beside its control, on the first benchmark that both answered; without one, what there is."""
    for part in taught().parts:
        if part.control:
            sides = urlencode({"a": part.champion.pk, "b": part.control.pk})
            return redirect(f"{reverse('evaluation:compare')}?{sides}")
    return redirect(f"{reverse('evaluation:list')}#taught")


@require_GET
def did_rule_help(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Fragment for a rule's page: what its author asks after a training."""
    rule = get_object_or_404(Rule.objects.select_related("published"), pk=rule_id)
    return render(request, "evaluation/_rule_help.html", {"rule": rule, "help": rule_help(rule)})
