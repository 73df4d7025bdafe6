"""Two to six runs beside each other: curves on one plot, the recipe fields that differ, their snapshots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trace_site.lib.charts import LineChart, Series, line_chart
from training.core.recipe_fields import CELL, FIELDS, flat_json, shown
from training.models import Run
from training.selectors import runs
from training.selectors_curves import AXES, FIGURES, ORDER, ROWS, STAGES, Bucket, buckets, series, told

MOST = 6
DRAWN = ("loss", "grad_norm", "lr", "tokens_per_second")
POINTS = 90  # buckets a curve: six runs stay readable
NOT_THERE = "–"


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table of differences: a value for each run; `same`: none differs."""

    name: str
    label: str
    values: list[str]

    @property
    def same(self) -> bool:
        return len(set(self.values)) == 1


def chosen(keys: Sequence[str]) -> list[Run]:
    """The runs in the order they were asked for, at most six; unknown ones are left out. One query."""
    wanted = list(
        dict.fromkeys(int(key) for key in keys if key.isascii() and key.isdecimal() and len(key) < 10)
    )
    found = {run.pk: run for run in runs().filter(pk__in=wanted)}
    return [found[key] for key in wanted if key in found][:MOST]


def lines(compared: Sequence[Run]) -> list[Line]:
    """Every field of the recipes, the cell first."""
    values = [flat_json(run.recipe) for run in compared]
    names = dict.fromkeys([*CELL, *FIELDS, *(name for own in values for name in own)])
    labels = {name: f"{field.label}" for name, field in FIELDS.items()}
    found = [
        Line(name, labels.get(name, name), [shown(own[name]) if name in own else NOT_THERE for own in values])
        for name in names
        if any(name in own for own in values)
    ]
    return [line for line in found if line.name != "threads"]


def charts(compared: Sequence[Run], axis: str, log: bool) -> list[tuple[str, list[LineChart]]]:
    """[(stage, figures)], a curve a run; one query."""
    found = buckets([run.pk for run in compared], DRAWN, POINTS)
    sections = []
    for stage in ORDER:
        here = [(run, found[run.pk, stage]) for run in compared if (run.pk, stage) in found]
        drawn = [_chart(stage, field, here, axis, log) for field in DRAWN]
        if drawn := [chart for chart in drawn if chart.curves]:
            sections.append((STAGES[stage], drawn))
    return sections


def _chart(stage: str, field: str, here: list[tuple[Run, list[Bucket]]], axis: str, log: bool) -> LineChart:
    title, label, may_log = FIGURES[field]
    points = sum(bucket.points for _, rows in here for bucket in rows)
    curves = [series(f"run {run.pk} {run.cell}", rows, field, axis) for run, rows in here]
    lone = [
        Series(one.name, one.points) for one in curves
    ]  # six bands over each other hide more than they tell
    return line_chart(
        f"{STAGES[stage]}: {title}",
        lone,
        x_label=AXES[axis],
        y_label=label,
        log=log and may_log,
        note=told(points, sum(len(rows) for _, rows in here)).replace(
            "; band: their smallest and largest", ""
        ),
        rows=ROWS,
    )


def pairs(compared: Sequence[Run]) -> list[dict[str, Any]]:
    """[{"a", "b"}] of snapshots that differ, each against the first run's."""
    first = compared[0].snapshot_id
    others = dict.fromkeys(run.snapshot_id for run in compared if run.snapshot_id != first)
    return [{"a": first, "b": other} for other in others]
