"""A run's curves in a bounded number of points: the database makes means with their smallest and largest values.

Per stage at most BUCKETS groups of neighbouring steps, however long the run: a spike stays in sight as the edge of the
band, and a page never grows with the run.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from django.db import connection

from trace_site.lib.charts import LineChart, Series, line_chart
from trace_site.paging import numbers_of
from training.core.recipe import CELL, FIELDS, STAGES, flat, shown
from training.models import Run, RunMetric, TrainedStage
from training.registry.selectors import runs

BUCKETS = 120  # groups of steps a stage; a plot is about 700 pixels wide
ROWS = 24  # of the table under a figure
ORDER = {stage: number for number, stage in enumerate(STAGES)}
SHOWN = ("loss", "grad_norm", "lr", "tokens_per_second", "memory_mb", "computed_ratio")
AXES = {"step": "optimiser step", "tokens": "tokens read", "seconds": "seconds of training"}
# field -> (question in the title, y label, may be drawn on a logarithmic scale)
FIGURES = {
    "loss": ("Is the loss still falling?", "loss, a running mean of about ten steps", True),
    "grad_norm": ("Are the gradients calm?", "gradient norm before clipping", True),
    "lr": ("How is the learning rate scheduled?", "learning rate", False),
    "tokens_per_second": ("How fast does it train?", "real tokens per second", False),
    "memory_mb": ("How much memory does it hold?", "MB at the peak so far", False),
    "computed_ratio": ("How much padding is computed?", "computed tokens for each real one", False),
}


@dataclass(frozen=True, slots=True)
class Bucket:
    """Some neighbouring steps of one stage; `values`: {field: (mean, smallest, largest)}."""

    step: float
    tokens: float
    seconds: float
    points: Annotated[int, "logged steps that it stands for"]
    values: dict[str, tuple[float, float, float]]


Found = dict[tuple[int, str], list[Bucket]]


def buckets(runs: Iterable[int], fields: Iterable[str] = SHOWN, most: int = BUCKETS) -> Found:
    """{(run, stage): buckets in order of their steps}; one query."""
    names = list(fields)
    if unknown := set(names) - set(SHOWN):
        raise ValueError(f"unknown fields: {sorted(unknown)}")
    read = (*names, "tokens", "seconds")
    cells = ", ".join(f"avg(v.{name}), min(v.{name}), max(v.{name})" for name in names)
    columns = ", ".join(f"{name} jsonb" for name in read)
    # whatever is no number is not drawn
    numbers = ", ".join(
        f"CASE WHEN jsonb_typeof(d.{name}) = 'number' THEN d.{name}::float8 END AS {name}" for name in read
    )
    sql = f"""
        WITH ends AS (
            SELECT run_id, stage, min(step) AS low, max(step) + 1 AS high
            FROM training_runmetric WHERE run_id = ANY(%s) GROUP BY run_id, stage
        ), v AS MATERIALIZED (
            SELECT m.run_id, m.stage, m.step, width_bucket(m.step, e.low, e.high, %s) AS place, {numbers}
            FROM ends e JOIN training_runmetric m USING (run_id, stage)
            CROSS JOIN LATERAL jsonb_to_record(m.data) AS d({columns})
        )
        SELECT run_id, stage, avg(step), avg(tokens), avg(seconds), count(*), {cells}
        FROM v GROUP BY run_id, stage, place ORDER BY run_id, stage, place
    """  # noqa: S608 - the names are this module's own
    found: defaultdict[tuple[int, str], list[Bucket]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(sql, [list(runs), most])
        for run, stage, step, tokens, seconds, points, *rest in cursor.fetchall():
            triples = zip(names, zip(*[iter(rest)] * 3, strict=True), strict=True)
            values = {name: triple for name, triple in triples if triple[0] is not None}
            found[run, stage].append(Bucket(float(step), tokens or 0.0, seconds or 0.0, points, values))
    return dict(found)


def series(name: str, found: list[Bucket], field: str, axis: str = "step") -> Series:
    """One curve: a point a bucket, with a band where a bucket holds several points."""
    rows = [(getattr(one, axis), one.values[field]) for one in found if field in one.values]
    points = [(x, mean) for x, (mean, _, _) in rows]
    return Series(name, points, [(x, low, high) for x, (_, low, high) in rows])


def figure(
    field: str, curves: list[Series], note: str, *, stage: str = "", axis: str = "step", log: bool = False
) -> LineChart:
    question, label, may_log = FIGURES[field]
    title, log = f"{stage}: {question}" if stage else question, log and may_log
    return line_chart(title, curves, x_label=AXES[axis], y_label=label, log=log, note=note, rows=ROWS)


def of_run(of: Run, *, log: bool = False) -> list[LineChart]:
    """Every figure of a run, a curve a stage; one query."""
    found = {stage: rows for (_, stage), rows in buckets([of.pk]).items()}
    stages = sorted(found, key=lambda stage: ORDER.get(stage, len(ORDER)))
    note = told([bucket for rows in found.values() for bucket in rows])
    charts: list[LineChart] = []
    for field in FIGURES:
        drawn = [series(STAGES.get(stage, stage), found[stage], field) for stage in stages]
        chart = figure(field, drawn, "" if charts else note, log=log)  # said once, under the first figure
        charts += [chart] if chart.curves else []
    return charts


def told(groups: Sequence[Bucket], band: str = "; band: their smallest and largest") -> str:
    """What a thinned curve shows; empty when it shows every point."""
    points = sum(bucket.points for bucket in groups)
    if points <= len(groups):
        return ""
    each = points / len(groups)
    about = "one to two neighbouring points" if each < 2 else f"about {each:.0f} logged points"
    return f"Line: mean of {about}{band}. {points:,} points in all."


def newest_points(of: Run) -> dict[str, dict[str, Any]]:
    """{stage: its newest logged values and step}, in training order; one query, whatever was logged."""
    rows = RunMetric.objects.filter(run=of).order_by()
    parts = [
        rows.filter(stage=stage).order_by("-step").values_list("stage", "step", "data")[:1] for stage in ORDER
    ]
    found = {stage: {**data, "step": step} for stage, step, data in parts[0].union(*parts[1:], all=True)}
    return {stage: found[stage] for stage in ORDER if stage in found}


def seen(points: Mapping[str, Mapping[str, Any]]) -> str:
    """Names the newest points, so that curves are sent again only when there are others."""
    return "-".join(f"{stage}.{data['step']}" for stage, data in points.items())


@dataclass(frozen=True, slots=True)
class StageState:
    """One stage of a run's plan."""

    stage: str
    key: str
    state: Annotated[str, "waiting, running, done, reused, or how the run ended"]
    newest: dict[str, Any]
    reused_from: Annotated[int | None, "the run that trained it"] = None
    stopped_at: Annotated[str, "where a time limit ended it before its last step; empty when none did"] = ""

    @property
    def label(self) -> str:
        return STAGES.get(self.stage, self.stage)


def stage_states(of: Run, newest: Mapping[str, dict[str, Any]]) -> list[StageState]:
    """The plan of a run and how far it is; one query."""
    keys = [one["key"] for one in of.stages]
    made = {one.key: one.run for one in TrainedStage.objects.filter(key__in=keys).select_related("run")}
    states, current = [], next(reversed(list(newest)), "")
    for one in of.stages:
        stage, key = one["stage"], one["key"]
        maker = made.get(key, of)
        reused = (of.summary.get(stage) or {}).get("reused_from_run") or (maker.pk if maker != of else None)
        if stage not in newest and reused:
            stopped = maker.stopped_at.get(stage, "")
            states.append(StageState(stage, key, "reused", {}, reused, stopped))
        else:
            if (key in made and maker == of) or stage in of.summary or (stage in newest and stage != current):
                state = "done"
            elif stage in newest:
                state = of.job.state if of.job is not None else "done"
            else:
                state = "waiting" if of.job is not None and of.job.is_active else "not trained"
            stopped = of.stopped_at.get(stage, "")
            states.append(StageState(stage, key, state, newest.get(stage, {}), stopped_at=stopped))
    return states


# Two to six runs beside each other: curves on one plot, the recipe fields that differ, their snapshots.

MOST_COMPARED = 6
DRAWN = ("loss", "grad_norm", "lr", "tokens_per_second")
POINTS = 90  # buckets a curve: six runs stay readable
NOT_THERE = "–"


def chosen(keys: Sequence[str]) -> list[Run]:
    """The runs in the order they were asked for, at most six; unknown ones are left out. One query."""
    wanted = list(dict.fromkeys(numbers_of(keys)))
    found = {run.pk: run for run in runs().filter(pk__in=wanted)}
    return [found[key] for key in wanted if key in found][:MOST_COMPARED]


def compared_fields(compared: Sequence[Run]) -> list[tuple[str, str, list[str]]]:
    """[(name, label, a value for each run)] of every field of the recipes, the cell first."""
    values = [flat(run.recipe) for run in compared]
    there = {name for own in values for name in own} - {"threads"}
    return [
        (
            name,
            FIELDS[name].label if name in FIELDS else name,
            [shown(own[name]) if name in own else NOT_THERE for own in values],
        )
        for name in dict.fromkeys([*CELL, *FIELDS, *(name for own in values for name in own)])
        if name in there
    ]


def charts(compared: Sequence[Run], axis: str, log: bool) -> list[tuple[str, list[LineChart]]]:
    """[(stage, figures)], a curve a run; one query. No bands: six over each other hide more than they tell."""
    found = buckets([run.pk for run in compared], DRAWN, POINTS)
    sections = []
    for stage, title in STAGES.items():
        here = [(run, found[run.pk, stage]) for run in compared if (run.pk, stage) in found]
        note = told([bucket for _, rows in here for bucket in rows], band="")
        drawn = []
        for field in DRAWN:
            curves = [
                Series(f"run {run.pk} {run.cell}", series("", rows, field, axis).points) for run, rows in here
            ]
            chart = figure(field, curves, note, stage=title, axis=axis, log=log)
            drawn += [chart] if chart.curves else []
        if drawn:
            sections.append((title, drawn))
    return sections


def pairs(compared: Sequence[Run]) -> list[dict[str, Any]]:
    """[{"a", "b"}] of snapshots that differ, each against the first run's."""
    first = compared[0].snapshot_id
    others = dict.fromkeys(run.snapshot_id for run in compared if run.snapshot_id != first)
    return [{"a": first, "b": other} for other in others]
