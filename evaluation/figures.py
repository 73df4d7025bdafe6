"""Figures of what the rules taught: champion, control and embedding beside each other, a figure a tier and decoding.

In: a part of `selectors_taught`. Out: dots whose title is the answer, each row linked to the predictions it counts.
"""

from urllib.parse import urlencode

from django.urls import reverse

from evaluation.core.metrics import ALL
from evaluation.core.taught import Cell
from evaluation.core.versus import BETTER, WORSE
from evaluation.taught.selectors import Part, Taught
from trace_site.lib.charts import Dot, DotChart, DotRow

LABELS = {
    ALL: "all requests",
    "covered": "a rule covers the look-alikes",
    "uncovered": "look-alikes without a rule",
    "outside": "outside every cluster",
}
WORDS = {BETTER: ("better than embedding", "good"), WORSE: ("worse than embedding", "bad")}
CONTROL, EMBEDDING = "control, no rule samples", "embedding"


def taught_figure(found: Taught, part: Part, domain: str = ALL) -> DotChart | None:
    """None where the domain has no request in this benchmark."""
    shown = [cell for cell in part.of(domain) if cell.group != ALL] or part.of(domain)
    rows = [_row(found, part, cell) for cell in shown]
    about = f"{part.title if domain == ALL else part.short}, {part.decode}"
    return DotChart(about + _answer(found, shown), rows) if rows else None


def predictions_url(part: Part, cell: Cell) -> str:
    chosen = {name: value for name, value in (("group", cell.group), ("domain", cell.domain)) if value != ALL}
    return f"{reverse('evaluation:detail', args=[part.champion.pk])}?{urlencode(chosen)}#predictions"


def _row(found: Taught, part: Part, cell: Cell) -> DotRow:
    sides = (
        (found.name, "circle", cell.champion),
        (CONTROL, "square", cell.control),
        (EMBEDDING, "diamond", cell.embedding),
    )
    dots = [Dot(who, shape, mean.mean, mean.low, mean.high) for who, shape, mean in sides if mean]
    word, tone = "", ""
    if cell.over_embedding is not None:
        word, tone = WORDS.get(cell.over_embedding.verdict, ("cannot tell", "wait"))
    return DotRow(LABELS[cell.group], cell.n, dots, predictions_url(part, cell), word, tone)


def _answer(found: Taught, shown: list[Cell]) -> str:
    """What stands behind the name of a figure: what came of the requests that rules cover."""
    cell = next((cell for cell in shown if cell.group == "covered"), None)
    if cell is None:
        return ""
    others = [
        f"{who} {mean.mean:.2f}"
        for who, mean in (("without rule samples", cell.control), ("embedding", cell.embedding))
        if mean
    ]
    rest = f" ({', '.join(others)})" if others else ""
    return f". Where a rule covers, the {found.name} finds {cell.champion.mean:.2f}{rest}"
