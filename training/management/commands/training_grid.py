"""manage.py training_grid: train a whole grid of cells as one declared plan."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import CommandParser

from trace_site.commands import TraceCommand, run_inline
from trace_site.lib.errors import TraceError
from training.core.grid import GridPlan, PlannedCell, read_plan, totals
from training.grids.services import grid_forecast, grid_seconds, grid_start
from training.models import Grid
from training.runs.services import mapping_from_file

AXES = ("formats", "memos", "retrievals", "seeds", "branches")


class Command(TraceCommand):
    help = "Train every cell of a plan; a stage that several cells need trains once. --dry-run shows what would train."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument(
            "plan", nargs="?", type=Path, help="a YAML or JSON file; options go over its fields"
        )
        parser.add_argument("--name", help="what the list of grids calls it")
        parser.add_argument("--snapshot", type=int, action="append", default=[], help="id; may be repeated")
        parser.add_argument(
            "--sweep", action="append", default=[], metavar="append:0,3,6", help="built if need be"
        )
        for axis in AXES:
            parser.add_argument(f"--{axis}", help="comma-separated")
        parser.add_argument(
            "--rrb", type=int, help="at most this many RRB samples in the snapshots of a sweep"
        )
        parser.add_argument("--base", help="pocket, or a model's name or path")
        parser.add_argument(
            "--recipe", type=Path, help="a YAML file with fields over the base's default recipe"
        )
        parser.add_argument("--dry-run", action="store_true", help="show what would train, start nothing")
        parser.add_argument(
            "--train", action="store_true", help="train here, cell by cell; default: queue them"
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        plan = plan_of(options)
        planned = grid_forecast(plan)
        figures: dict[str, Any] = {
            "cells": len(planned),
            **totals(planned),
            "seconds": grid_seconds(plan, planned),
        }
        for line in told(planned):
            self.echo(line)
        if options["dry_run"]:
            return {**figures, "plan": plan.as_dict()}, sentence(figures, "would train")
        grid = Grid.objects.get(pk=run_inline(grid_start(plan=plan), self.echo)["grid"])
        result: dict[str, Any] = {"grid": grid.pk, **figures, "cells": grid.cells.count()}
        if options["train"]:
            result["models"] = self.train(grid)
        return result, f"grid {grid.pk}: {sentence(figures, 'train')}"

    def train(self, grid: Grid) -> list[int]:
        """Every cell in its order; one that another worker trains is followed. A cell that fails does not stop the
        others."""
        models, failed = [], []
        for cell in grid.cells.select_related("run__job").order_by("position"):
            if cell.run.job is None:
                models.append(cell.run.model.pk)
                continue
            try:
                models.append(run_inline(cell.run.job, self.echo)["model"])
            except TraceError as error:
                failed.append(f"run {cell.run_id} {cell.run.cell}: {error}")
        if failed:
            raise TraceError(
                f"{len(failed)} of {grid.cells.count()} cells did not end well. {failed[0]}",
                code="cells_failed",
                hint="The others are trained. Run the command again to go on with these.",
            )
        return models


def plan_of(options: dict[str, Any]) -> GridPlan:
    """The plan of a file with the options over it."""
    data: dict[str, Any] = {"base": settings.BASE_MODEL}
    if options["plan"]:
        data |= mapping_from_file(options["plan"])
    if sources := [*options["snapshot"], *options["sweep"]]:
        data["snapshots"] = sources
    data |= {name: options[name] for name in ("name", "rrb", "base") if options[name] is not None}
    data |= {name: options[name].split(",") for name in AXES if options[name]}
    if options["recipe"]:
        data["recipe"] = mapping_from_file(options["recipe"])
    return read_plan(data)


def told(planned: list[PlannedCell]) -> list[str]:
    """One line a cell: what becomes of each of its stages."""
    lines = []
    for one in planned:
        of = ", ".join(f"{step.stage} {state}" for step, state in zip(one.steps, one.states, strict=True))
        cell = one.cell
        seed = f" seed {cell.seed}" if cell.seed else ""
        lines.append(
            f"({cell.format}, {cell.memo}, {cell.retrieval}){seed} on {cell.source}: {of or 'no stage'}"
        )
    return lines


def sentence(figures: dict[str, Any], verb: str) -> str:
    seconds = figures["seconds"]
    time = f", about {seconds / 3600:.1f} h on one worker" if seconds else ""
    return (
        f"{figures['cells']} cells need {figures['stages']} stages; {figures['train']} {verb}, "
        f"{figures['shared']} are shared with another cell, {figures['kept']} are in the store{time}."
    )
