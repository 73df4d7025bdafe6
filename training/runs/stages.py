"""One training stage as a supervised child process, its curves copied into the database as they grow.

In: a run, the snapshot's folder, a folder for the stage. Out: the stage's export folder. Started again after a kill
it goes on from the newest checkpoint; a finished stage is not run again.
"""

import fcntl
import json
import logging
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from trace_site.jobs import JobContext, LeaseLost
from trace_site.lib.child import Event, run_child, tail
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_atomic
from trace_site.outages import AWAY
from training.core import recipe as recipes
from training.core.recipe import CELL, POCKET, Recipe, flat, nested
from training.core.rundir import is_intact
from training.models import Run, RunMetric

log = logging.getLogger(__name__)
TRAINER = "training.ml"
COPY_SECONDS = 1.0
# glibc keeps freed memory of this size: a training step frees and takes tens of MB again and again, and fresh pages
# that the kernel clears took 3 % of its time (the demo's encoder)
REUSE = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(2**30))
STOP_SECONDS = 30.0  # how long a trainer may take to write its last checkpoint
CURVE = ["loss", "lr", "grad_norm", "tokens", "tokens_per_second", "computed_ratio", "memory_mb"]
CURVE += ["seconds", "epoch", "steps"]


def run_stage(
    ctx: JobContext,
    run: Run,
    stage: str,
    label: str,
    snapshot: Path,
    folder: Path,
    init: Path | None = None,
) -> Path:
    """Run `python -m training.ml STAGE` to its end and return the export."""
    watcher = Watcher(ctx, run, folder, stage, label)
    export, asked = folder / "export", folder / "asked.yaml"
    if not finished(folder):
        wait_for_predecessor(ctx, folder)
    if not finished(folder):  # the one before us may have come to its end meanwhile
        # it has lost its export: its curves begin again with its first step
        if (folder / "done.json").is_file():
            for name in ("done.json", "metrics.jsonl", "log.txt"):
                (folder / name).unlink(missing_ok=True)
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        write_atomic(asked, recipes.stored(run.recipe).to_yaml())
        arguments = [stage, "--snapshot", snapshot, "--run", folder, "--recipe", asked]
        arguments += ["--init", init] if init else []
        run_child(
            TRAINER,
            list(map(str, arguments)),
            cwd=settings.BASE_DIR,
            log=folder / "errors.txt",
            on_event=watcher.on_event,
            tick=watcher.tick,
            ask_to_stop=watcher.ask_to_stop,
            env=child_env() | REUSE,
        )
    watcher.copy()
    if not is_intact(export):
        problem = "the trainer ended without a complete export."
        raise TraceError(problem, code="no_export", where=str(export), hint="Retry the job.")
    return export


def finished(folder: Path) -> bool:
    """Whether the stage was trained to its end and its export is still as it was written."""
    return (folder / "done.json").is_file() and is_intact(folder / "export")


def child_env() -> dict[str, str]:
    """The environment of an ml process: our thread count, and no second level of parallelism."""
    threads = str(settings.ML_THREADS)
    return {**os.environ, "OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"}


def wait_for_predecessor(ctx: JobContext, folder: Path, seconds: float = 120.0) -> None:
    """A trainer whose worker was stopped, not killed, may still hold the folder: ask it to stop, wait, clear STOP."""
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + seconds
    with (folder / ".lock").open("a") as handle:
        while True:
            ctx.check()
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                (folder / "STOP").touch()
                if time.monotonic() > deadline:
                    raise TraceError(
                        "another trainer holds this run and does not stop.",
                        code="run_locked",
                        where=str(folder),
                        hint="End that process, then retry the job.",
                    ) from error
                time.sleep(0.5)
    (folder / "STOP").unlink(missing_ok=True)


class Watcher:
    """Reads what a trainer writes; keeps the job's row, the curves and the log tail up to date."""

    def __init__(self, ctx: JobContext, run: Run, folder: Path, stage: str, label: str) -> None:
        self.ctx, self.run, self.folder, self.stage, self.label = ctx, run, folder, stage, label
        self.offset = 0
        self.copied = 0.0

    def on_event(self, event: Event) -> None:
        """The job's progress is of all stages, in the seconds that they were expected to take; of this stage alone, in
        steps, where that is not known."""
        if event.get("event") == "progress" and event.get("total"):
            done, total = int(event["done"]), int(event["total"])
            seconds = [row.get("seconds") or 0.0 for row in self.run.stages]
            at = [row["stage"] for row in self.run.stages].index(self.stage) if seconds else 0
            if (whole := round(sum(seconds))) > 0:
                done, total = round(sum(seconds[:at]) + seconds[at] * done / total), whole
            self.ctx.progress(done, total, f"{self.label}: {event.get('note', '')}")

    def tick(self) -> None:
        self.ctx.check()
        if time.monotonic() - self.copied >= COPY_SECONDS:
            self.copied = time.monotonic()
            try:
                self.copy()
            except AWAY as error:  # the next tick writes again
                log.warning("the database did not answer (%s); trying again", error)
                connection.close()

    def ask_to_stop(self, reason: BaseException) -> float:
        """A stopped trainer checkpoints first; a new owner's trainer must not be stopped by us."""
        if isinstance(reason, LeaseLost):
            return 0.0
        (self.folder / "STOP").touch()
        return STOP_SECONDS

    def copy(self) -> None:
        """Copy the new whole lines of metrics.jsonl; a step trained twice after a kill keeps its newest line."""
        rows, offset = read_metrics(self.folder / "metrics.jsonl", self.offset)
        text = tail(self.folder / "log.txt") + tail(self.folder / "errors.txt", 1000)
        if not rows and text == self.run.log_tail:
            return
        with self.ctx.guard():
            RunMetric.objects.bulk_create(
                points_of(self.run, rows),
                update_conflicts=True,
                unique_fields=["run", "stage", "step"],
                update_fields=["data"],
            )
            Run.objects.filter(pk=self.run.pk).update(log_tail=text)
        self.run.log_tail, self.offset = text, offset


def read_metrics(path: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """The whole lines after `offset`, and where the next read starts; a half-written last line waits."""
    if not path.is_file():
        return [], offset
    with path.open("rb") as handle:
        size = handle.seek(0, 2)
        handle.seek(offset if offset <= size else 0)  # a resumed trainer may have cut a half line away
        start = handle.tell()
        data = handle.read()
    end = data.rfind(b"\n") + 1
    rows = []
    for line in data[:end].splitlines():
        with suppress(ValueError):  # a line broken by a kill
            rows.append(json.loads(line))
    return [row for row in rows if isinstance(row, dict) and {"stage", "step"} <= row.keys()], start + end


def points_of(run: Run, rows: Iterable[Mapping[str, Any]]) -> list[RunMetric]:
    """The points of a run's curves, of each step its last line."""
    newest = {(str(row["stage"])[:10], int(row["step"])): row for row in rows}
    return [
        RunMetric(run=run, stage=stage, step=step, data={name: row.get(name) for name in CURVE})
        for (stage, step), row in newest.items()
    ]


RECIPES = Path(__file__).resolve().parents[1] / "recipes"


def default_recipe(base: str) -> Recipe:
    """The recipe a base is trained with unless another is given."""
    return recipes.load(RECIPES / ("pocket.yaml" if base == POCKET else "paper.yaml"))


def over_default(base: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """The base's default recipe with some fields over it, as `recipes.from_dict` and `recipes.stored` read it."""
    return nested(flat(default_recipe(base)) | flat(own))


def chosen_recipe(cell: Mapping[str, Any], own: Mapping[str, Any]) -> Recipe:
    """The default of the cell's base with some fields over it, for the cell. Raises `bad_recipe`."""
    recipe = recipes.from_dict(over_default(cell["base"], own))
    return recipe.with_cell(**{name: cell[name] for name in CELL})


def stage_folder(key: str) -> Path:
    """Where a stage is trained on this machine, whichever run does it: who takes it over finds its checkpoints."""
    return Path(settings.TRACE_HOME) / "stages" / key


def base_folder(run: Run) -> Path:
    """Where the untrained base of a cell without stages is written."""
    return Path(settings.TRACE_HOME) / "runs" / run.key / "base"
