"""The figure that says what rules are worth: R@gen of r+R and of r beside the baseline, covered and uncovered.

In: matrix rows of one benchmark. Out: a bar chart whose title is its answer, and the evaluations it was drawn from.
The baseline is cut, query by query, to as many tools as the r+R (else r) model named, so lengths are equal.
"""

from dataclasses import dataclass

from evaluation.models import Benchmark, Evaluation
from evaluation.selectors import COLUMNS, SIDES, Cell, MatrixRow, cell_of, matrix
from trace_site.lib.charts import Bar, BarChart, bar_chart
from training.models import Run

KINDS = (str(Run.Retrieval.RULES), str(Run.Retrieval.REASONED))
TONES = {KINDS[0]: "accent", KINDS[1]: "run"}
RECALL, SIZE = list(COLUMNS).index("recall@gen"), list(COLUMNS).index("set_size")


@dataclass(frozen=True, slots=True)
class Answer:
    chart: BarChart
    evaluations: list[Evaluation]


def rules_figure(benchmark: Benchmark, domain: str = "all", snapshot: int | None = None) -> Answer | None:
    """None until a reasoning model has been evaluated with its trace."""
    chosen = newest(matrix(benchmark, domain, snapshot))
    if not chosen:
        return None
    first = next(iter(chosen.values()))
    bars: list[Bar] = []
    for group in SIDES:
        for kind, rows in chosen.items():
            if row := rows.get(group):
                size = row.cells[SIZE].mean or 0.0
                bars.append(
                    drawn(f"{group}: {kind}", row.cells[RECALL], TONES[kind], f"{size:.1f} tools a query")
                )
        if group in first and (cell := same_length(first[group].evaluation, domain, group)).mean is not None:
            bars.append(drawn(f"{group}: embedding", cell, "muted", "as many tools"))
    used = [next(iter(rows.values())).evaluation for rows in chosen.values()]
    return Answer(bar_chart(title(chosen), bars), used)


def newest(rows: list[MatrixRow]) -> dict[str, dict[str, MatrixRow]]:
    """{kind: {group: row}} of the newest model of each kind; rows come newest first."""
    chosen: dict[str, dict[str, MatrixRow]] = {}
    for kind in KINDS:
        own = [row for row in rows if shows(row.evaluation, kind)]
        if own:
            chosen[kind] = {row.group: row for row in own if row.evaluation == own[0].evaluation}
    return chosen


def shows(evaluation: Evaluation, kind: str) -> bool:
    model = evaluation.model
    return model is not None and evaluation.decode == Evaluation.Decode.TRACE and model.run.retrieval == kind


def same_length(evaluation: Evaluation, domain: str, group: str) -> Cell:
    found = (evaluation.metrics or {}).get("same_length", {}).get(domain, {}).get(group) or {}
    return cell_of(found.get("embedding"))


def drawn(label: str, cell: Cell, tone: str, note: str) -> Bar:
    return Bar(label, cell.mean, cell.low, cell.high, cell.n, tone, note=note)


def title(chosen: dict[str, dict[str, MatrixRow]]) -> str:
    """The answer in one sentence, whatever the values are."""

    def said(kind: str, group: str) -> str:
        row = chosen.get(kind, {}).get(group)
        mean = row.cells[RECALL].mean if row else None
        return f"{kind} finds {mean:.2f}" if mean is not None else ""

    parts = []
    for group, words in (("covered", "where a rule covers the cluster"), ("uncovered", "where none does")):
        values = [text for kind in KINDS if (text := said(kind, group))]
        if values:
            parts.append(f"{words}, {' and '.join(values)} of the tools")
    if not parts:
        return "No query of this benchmark falls on a covered or uncovered cluster"
    sentence = "; ".join(parts)
    return sentence[0].upper() + sentence[1:]
