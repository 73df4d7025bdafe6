"""Reads behind the pages of grids."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet

from training.core.recipe import STAGES
from training.models import ENDED_BADLY, UNDER_WAY, Grid, GridCell, Run
from training.registry.registry import Score, scores_of


@dataclass(slots=True)
class Square:
    """One cell as the matrix draws it. `reused`: [(stage, the run that trained it)]."""

    run: Run
    score: Score | None
    reused: list[tuple[str, int]]
    grids: list[int]


@dataclass(slots=True)
class MatrixRow:
    """Everything but the retrieval mode is the same; the squares of each retrieval mode of the grid, of which there is
    more than one where it trained one set of weights by two names."""

    run: Run
    squares: list[list[Square]]


@dataclass(slots=True)
class Matrix:
    retrievals: list[str]
    rows: list[MatrixRow]
    counts: dict[str, int]
    snapshots: int
    seeds: int
    measure: str = ""

    @property
    def active(self) -> int:
        return sum(self.counts.get(state, 0) for state in UNDER_WAY)

    @property
    def bad(self) -> int:
        return sum(self.counts.get(state, 0) for state in ENDED_BADLY)


def grids() -> QuerySet[Grid]:
    """Every grid with how many of its cells are where; one query."""
    state = "cells__run__job__state"
    return Grid.objects.select_related("created_by").annotate(
        many=Count("cells"),
        trained=Count("cells", filter=Q(cells__run__model__isnull=False)),
        active=Count("cells", filter=Q(**{f"{state}__in": UNDER_WAY})),
        bad=Count("cells", filter=Q(**{f"{state}__in": ENDED_BADLY}) & Q(cells__run__model__isnull=True)),
    )


def matrix(grid: Grid) -> Matrix:
    """The cells of a grid as rows of squares; three queries and those of the scores."""
    cells = grid.cells.select_related("run__job", "run__snapshot", "run__model").defer(
        "run__log_tail", "run__snapshot__manifest", "run__model__card", "run__model__lineage"
    )
    runs = [cell.run for cell in cells]
    others: defaultdict[int, list[int]] = defaultdict(list)
    named = GridCell.objects.filter(run__in=runs).exclude(grid=grid).order_by("grid")
    for pk, other in named.values_list("run", "grid"):
        others[pk].append(other)
    scores = scores_of(run.model.pk for run in runs if hasattr(run, "model"))
    retrievals = [value for value in Run.Retrieval.values if any(run.retrieval == value for run in runs)]
    memos = Run.Memo.values
    runs.sort(key=lambda run: (run.snapshot_id, run.seed, run.base, run.format, memos.index(run.memo)))
    rows: dict[tuple[Any, ...], MatrixRow] = {}
    for run in runs:
        key = (run.snapshot_id, run.seed, run.base, run.format, run.memo)
        row = rows.setdefault(key, MatrixRow(run, [[] for _ in retrievals]))
        score = scores.get(run.model.pk) if hasattr(run, "model") else None
        reused = [
            (STAGES[stage], facts["reused_from_run"])
            for stage, facts in run.summary.items()
            if stage in STAGES and isinstance(facts, dict) and "reused_from_run" in facts
        ]
        row.squares[retrievals.index(run.retrieval)].append(
            Square(run, score, reused, others.get(run.pk, []))
        )
    states = ("trained" if hasattr(run, "model") else run.job.state if run.job else "none" for run in runs)
    return Matrix(
        retrievals,
        list(rows.values()),
        dict(Counter(states)),
        snapshots=len({run.snapshot_id for run in runs}),
        seeds=len({run.seed for run in runs}),
        measure=next(iter(scores.values())).label if scores else "",
    )
