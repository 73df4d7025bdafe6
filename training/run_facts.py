"""What a run's page tells beside its curves: its recipe against the defaults, its logs, what a clone changed."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from trace_site.lib.errors import TraceError
from training.core.recipe import Recipe
from training.core.recipe_fields import CELL, FIELDS, GROUPS, Field, differing, flat, shown
from training.models import Run
from training.services import default_recipe, run_recipe
from training.sharing import base_folder, stage_folder

PAPER = "google/gemma-4-E4B-it"  # whose default recipe is the paper's
LOGS = ("log.txt", "errors.txt")
BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class Used:
    """One field of a run's recipe. `paper`: the paper's value where it names one."""

    field: Field
    value: str
    default: str
    paper: str

    @property
    def differs(self) -> bool:
        return bool(self.paper) and self.value != self.paper

    @property
    def changed(self) -> bool:
        return self.value != self.default


def readable_recipe(run: Run) -> Recipe | None:
    """The run's recipe; None when it is of a version whose fields are no longer known."""
    try:
        return run_recipe(run) if run.recipe else None
    except TraceError:
        return None


def recipe_table(base: str, recipe: Recipe) -> list[tuple[str, list[Used]]]:
    """[(group, fields)] of a run's recipe."""
    own, default, paper = (flat(one) for one in (recipe, default_recipe(base), default_recipe(PAPER)))
    groups: dict[str, list[Used]] = {name: [] for name in GROUPS}
    for name, field in FIELDS.items():
        told = shown(paper[name]) if field.source == "paper" else ""
        groups[field.group].append(Used(field, shown(own[name]), shown(default[name]), told))
    return [(GROUPS[name], rows) for name, rows in groups.items()]


def cloned_changes(run: Run) -> list[tuple[str, str, str]]:
    """[(what, there, here)] that this run changed of the run it was cloned from."""
    origin = run.cloned_from
    if origin is None:
        return []
    found = [("snapshot", str(origin.snapshot_id), str(run.snapshot_id))]
    names = {name: field.label for name, field in FIELDS.items()} | {name: name for name in CELL}
    pairs = [*found, *differing(origin.recipe, run.recipe)]
    return [(names.get(name, name), there, here) for name, there, here in pairs if there != here]


def log_files(run: Run) -> list[tuple[str, Path]]:
    """[(stage/file, path)] of a run's stages in training order; empty where the worker is another machine. A stage
    that another run trained has that run's log."""
    folders = [("base", base_folder(run)), *((one["stage"], stage_folder(one["key"])) for one in run.stages)]
    return [
        (f"{stage}/{name}", folder / name)
        for stage, folder in folders
        for name in LOGS
        if (folder / name).is_file()
    ]


def lines_of(files: list[tuple[str, Path]]) -> Iterator[bytes]:
    """The files one after another, each under its name, in blocks."""
    for name, path in files:
        yield f"== {name}\n".encode()
        with path.open("rb") as handle:
            while block := handle.read(BLOCK):
                yield block
        yield b"\n"


def report_to() -> tuple[str, str]:
    """(tool, address) that runs also report to; empty when the setting is off."""
    name = str(getattr(settings, "TRACE_REPORT_TO", os.environ.get("TRACE_REPORT_TO", "")))
    address = os.environ.get("MLFLOW_TRACKING_URI", "") if name == "mlflow" else ""
    return name, address
