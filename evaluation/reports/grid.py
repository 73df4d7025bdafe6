"""The grid (F, M, R), laid out as the paper's tables: sections by Stage 2 and Stage 1, a row a model, a column a domain
and metric. What was never trained or measured is said."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby, product
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from evaluation.benchmarks.selectors import guessing, mixed_backends
from evaluation.core.coverage import LINES
from evaluation.coverage.grouped import Figures, grouped
from evaluation.models import Evaluation
from evaluation.reports.measures import KINDS, Cell, Choice, Column, cell, why_missing
from training.models import Model, Run
from training.registry.registry import current_aliases
from training.registry.selectors import alias_names

# as the paper orders its sections, and calls them
RETRIEVALS = {
    Run.Retrieval.NONE: "No Stage 2",
    Run.Retrieval.PLAIN: "Non-reasoning retrieval",
    Run.Retrieval.PLAIN_THEN_REASONED: "Non-reasoning then reasoning",
    Run.Retrieval.REASONED: "Reasoning retrieval, no rules",
    Run.Retrieval.RULES: "Rule-grounded reasoning retrieval",
}
ORDER = list(RETRIEVALS)


@dataclass(slots=True)
class Row:
    """One set of weights. `models`: those that have them, each with its aliases; the first gives the row its place."""

    models: list[tuple[Model, list[str]]]
    cells: list[Cell]

    @property
    def model(self) -> Model:
        return self.models[0][0]

    @property
    def retrieval(self) -> str:
        """With k of its snapshot where it learned from rule samples, as the paper writes r+R(12, rep)."""
        run = self.model.run
        if run.retrieval != Run.Retrieval.RULES:
            return run.retrieval
        return f"{run.retrieval} ({run.snapshot.per_rule}, {run.snapshot.strategy})"


@dataclass(slots=True)
class Section:
    title: str
    rows: list[Row] = field(default_factory=list)


@require_GET
def grid(request: HttpRequest) -> HttpResponse:
    """Five queries, those of the aliases and, for a group, three more, however many cells there are."""
    choice = Choice.of_query(request.GET)
    found = choice.evaluations()
    columns = choice.columns(found)
    groups = grouped(found) if choice.group else {}
    everything = list(models())
    shown = [one for one in everything if choice.snapshot in (0, one.run.snapshot_id)]
    context = {
        "choice": choice,
        "kinds": [(name, kind.title) for name, kind in KINDS.items()],
        "groups": LINES,
        "columns": columns,
        "heads": heads(columns),
        "sections": sections(shown, found, columns, choice, groups),
        "baseline": baseline(found, columns, choice, groups),
        "guessing": [
            guessing(found, one.benchmark, one.domain) for one in columns if choice.kind == "probes"
        ],
        "cells": which_cells(shown, {one.model_id for one in found}),
        "retrievals": ORDER,
        "snapshots": sorted({one.run.snapshot_id for one in everything}, reverse=True),
        "mixed": mixed_backends(found),
        "has_pocket": any(one.run.base == "pocket" for one in shown),
    }
    return render(request, "evaluation/grid.html", context)


def models() -> QuerySet[Model]:
    bulk = ("card", "lineage", "run__log_tail", "run__summary")
    return Model.objects.select_related("run__snapshot").defer(
        *bulk, "run__snapshot__manifest", "run__snapshot__parts"
    )


def heads(columns: list[Column]) -> list[tuple[str, int]]:
    """(what stands over columns, how many) of the first line of the head."""

    def over(column: Column) -> str:
        if column.metric == "accuracy":
            return column.benchmark.title
        return "every domain" if column.domain == "all" else column.domain

    return [(words, len(list(of))) for words, of in groupby(columns, key=over)]


def weights(model: Model) -> str:
    """Equal for models with the same weights: the key of the stage that was trained last."""
    return model.run.stages[-1]["key"] if model.run.stages else f"model {model.pk}"


def by_model(found: list[Evaluation]) -> dict[tuple[int | None, int], Evaluation]:
    """{(model, benchmark): its evaluation}, of two the newer."""
    return {(one.model_id, one.benchmark_id): one for one in found}


def sections(
    models: list[Model],
    found: list[Evaluation],
    columns: list[Column],
    choice: Choice,
    groups: Mapping[int, Figures],
) -> list[Section]:
    """Untrained bases and Stage 1 first, then as the paper; in a section by format, k and age. Models with the same
    weights share a row."""
    known, aliases = by_model(found), alias_names(current_aliases())
    memos = Run.Memo.values
    alike: defaultdict[str, list[Model]] = defaultdict(list)
    rows: dict[tuple[str, str], Section] = {}

    def order(model: Model) -> tuple[Any, ...]:
        run = model.run
        rules = run.snapshot.per_rule if run.retrieval == Run.Retrieval.RULES else 0
        place = ORDER.index(Run.Retrieval(run.retrieval))
        return place, memos.index(run.memo), run.format, rules, model.pk

    def measured(of: list[Model], column: Column) -> Evaluation | None:
        places = [(one.pk, column.benchmark.pk) for one in of]
        return next((known[place] for place in places if place in known), None)

    for model in sorted(models, key=order):
        alike[weights(model)].append(model)
    for of in alike.values():
        run, why = of[0].run, why_missing(of[0], choice.decode)
        cells = [cell(measured(of, one), one, why, choice.group, groups) for one in columns]
        title = f"{RETRIEVALS[Run.Retrieval(run.retrieval)]} (M = {run.memo}, R = {run.retrieval})"
        section = rows.setdefault((run.retrieval, run.memo), Section(title))
        section.rows.append(Row([(one, aliases.get(one.pk, [])) for one in of], cells))
    return list(rows.values())


def baseline(
    found: list[Evaluation], columns: list[Column], choice: Choice, groups: Mapping[int, Figures]
) -> list[Cell]:
    """Of the plain embedding, in the same harness; only lists that are ranked can be compared with it."""
    known = by_model([one for one in found if one.model_id is None])
    if not known:
        return []
    return [
        cell(known.get((None, one.benchmark.pk)), one, "not measured", choice.group, groups)
        for one in columns
    ]


def which_cells(
    models: list[Model], measured: set[int | None]
) -> list[tuple[str, str, list[tuple[int, int]]]]:
    """[(F, M, [(models trained, of them measured here) of each R])]: every cell of the grid, the missing ones too.
    Models with the same weights count once."""
    trained, told = (
        Counter(
            (run.format, run.memo, run.retrieval) for run in {weights(one): one.run for one in those}.values()
        )
        for those in (models, [one for one in models if one.pk in measured])
    )
    return [
        (form, memo, [(trained[form, memo, one], told[form, memo, one]) for one in ORDER])
        for form, memo in product(Run.Format.values, Run.Memo.values)
    ]
