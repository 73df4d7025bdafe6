"""Reads behind the pages of runs: the filtered list, and what a run's page tells beside its curves."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from training.core import recipe as recipes
from training.core.recipe import FIELDS, Recipe, differing
from training.models import Run
from training.runs.stages import base_folder, stage_folder

# parameter of a list -> column
FILTERS = {
    "snapshot": "snapshot",
    "format": "format",
    "memo": "memo",
    "retrieval": "retrieval",
    "base": "base",
    "state": "job__state",
    "why": "why",
    "by": "created_by__username",
}


def narrowed(found: QuerySet[Run], given: Mapping[str, str]) -> QuerySet[Run]:
    """The runs that have all that `given` names; a number that is none finds nothing."""
    for name, column in FILTERS.items():
        value = str(given.get(name, "")).strip()
        if not value:
            continue
        if name == "snapshot" and not (value.isascii() and value.isdecimal() and len(value) < 10):
            return found.none()
        found = found.filter(**{column: value})
    return found


def choices() -> dict[str, list[Any]]:
    """What the filters of the list offer; two queries."""
    bases = Run.objects.order_by("base").values_list("base", flat=True).distinct()
    people = Run.objects.exclude(created_by=None).order_by("created_by__username")
    return {
        "format": Run.Format.choices,
        "memo": Run.Memo.choices,
        "retrieval": Run.Retrieval.choices,
        "base": [(name, name) for name in bases],
        "state": Job.State.choices,
        "why": Run.Why.choices,
        "by": [(name, name) for name in people.values_list("created_by__username", flat=True).distinct()],
    }


# What a run's page tells beside its curves: its recipe against the defaults, its logs, what a clone changed.


LOGS = ("log.txt", "errors.txt")
BLOCK = 65_536


def readable_recipe(run: Run) -> Recipe | None:
    """The run's recipe; None when it is of a version whose fields are no longer known."""
    try:
        return recipes.stored(run.recipe) if run.recipe else None
    except TraceError:
        return None


def cloned_changes(run: Run) -> list[tuple[str, str, str]]:
    """[(what, there, here)] that this run changed of the run it was cloned from."""
    origin = run.cloned_from
    if origin is None:
        return []
    moved = [("snapshot", str(origin.snapshot_id), str(run.snapshot_id))]
    found = differing(origin.recipe, run.recipe)
    named = [(FIELDS[name].label if name in FIELDS else name, there, here) for name, there, here in found]
    return [*(moved if origin.snapshot_id != run.snapshot_id else ()), *named]


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
