"""Reads behind the pages of grids."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Q, QuerySet

from trace_site.jobs import Job
from training.core.recipe import STAGES
from training.models import Grid, GridCell, Run
from training.registry.registry import Score, scores_of

ACTIVE = (Job.State.QUEUED, Job.State.RUNNING)
BAD = (Job.State.FAILED, Job.State.CANCELLED, Job.State.QUARANTINED)


@dataclass(slots=True)
class Square:
    """One cell as the matrix draws it. `reused`: [(stage, the run that trained it)]."""

    run: Run
    score: Score | None = None
    reused: list[tuple[str, int]] = field(default_factory=list)
    grids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Row:
    """Everything but the retrieval mode is the same; one square (or none) per retrieval mode of the grid."""

    run: Run
    squares: list[Square | None]


@dataclass(slots=True)
class Matrix:
    retrievals: list[str]
    rows: list[Row]
    counts: dict[str, int]
    snapshots: int
    seeds: int
    measure: str = ""

    @property
    def active(self) -> int:
        return sum(self.counts.get(state, 0) for state in ACTIVE)

    @property
    def bad(self) -> int:
        return sum(self.counts.get(state, 0) for state in BAD)


def grids() -> QuerySet[Grid]:
    """Every grid with how many of its cells are where; one query."""
    state = "cells__run__job__state"
    return Grid.objects.select_related("created_by").annotate(
        many=Count("cells"),
        trained=Count("cells", filter=Q(cells__run__model__isnull=False)),
        active=Count("cells", filter=Q(**{f"{state}__in": ACTIVE})),
        bad=Count("cells", filter=Q(**{f"{state}__in": BAD}) & Q(cells__run__model__isnull=True)),
    )


def preparing() -> list[Job]:
    """Grids that wait for their snapshots, or could not be made; the newest first."""
    unfinished = Job.objects.filter(kind="grid").exclude(state=Job.State.DONE)
    return list(unfinished.order_by("-pk")[:10])


def matrix(grid: Grid) -> Matrix:
    """The cells of a grid as rows of squares; three queries and those of the scores."""
    runs = [cell.run for cell in cells_of(grid)]
    shared = other_grids(grid, runs)
    scores = scores_of(run.model.pk for run in runs if hasattr(run, "model"))
    retrievals = [value for value in Run.Retrieval.values if any(run.retrieval == value for run in runs)]
    rows: dict[tuple[Any, ...], Row] = {}
    counts: defaultdict[str, int] = defaultdict(int)
    for run in sorted(
        runs, key=lambda run: (run.snapshot_id, run.seed, run.base, run.format, memo_place(run))
    ):
        key = (run.snapshot_id, run.seed, run.base, run.format, run.memo)
        row = rows.setdefault(key, Row(run, [None] * len(retrievals)))
        score = scores.get(run.model.pk) if hasattr(run, "model") else None
        row.squares[retrievals.index(run.retrieval)] = Square(run, score, reused(run), shared.get(run.pk, []))
        counts["trained" if hasattr(run, "model") else run.job.state if run.job else "none"] += 1
    return Matrix(
        retrievals,
        list(rows.values()),
        dict(counts),
        snapshots=len({run.snapshot_id for run in runs}),
        seeds=len({run.seed for run in runs}),
        measure=next(iter(scores.values())).label if scores else "",
    )


def memo_place(run: Run) -> int:
    return Run.Memo.values.index(run.memo)


def cells_of(grid: Grid) -> QuerySet[GridCell]:
    return grid.cells.select_related("run__job", "run__snapshot", "run__model").defer(
        "run__log_tail", "run__recipe", "run__snapshot__manifest", "run__model__card", "run__model__lineage"
    )


def other_grids(grid: Grid, runs: list[Run]) -> dict[int, list[int]]:
    """{run: the other grids that name it}"""
    found: defaultdict[int, list[int]] = defaultdict(list)
    rows = GridCell.objects.filter(run__in=runs).exclude(grid=grid).order_by("grid")
    for run, other in rows.values_list("run", "grid"):
        found[run].append(other)
    return found


def reused(run: Run) -> list[tuple[str, int]]:
    """[(stage in words, the run that trained it)] of the stages that this run did not train itself."""
    return [
        (STAGES[stage], facts["reused_from_run"])
        for stage, facts in run.summary.items()
        if stage in STAGES and isinstance(facts, dict) and "reused_from_run" in facts
    ]
