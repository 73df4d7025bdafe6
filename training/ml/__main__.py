"""`python -m training.ml stage1|plain|stage2|base`: one training stage as a process of its own.

Progress is JSON lines on stdout. Exit 0: done.json is written. Exit 3: stopped on request, start it again to go
on. Anything else: one line on stderr says what is wrong. Several GPUs: `accelerate launch -m training.ml ...`.
"""

import argparse
import os
import sys
from pathlib import Path

from catalog.ml.child import emit, run_command
from trace_site.lib.errors import TraceError
from trace_site.lib.loading import loading_modules
from training.core import recipe as recipes
from training.core.rundir import was_full
from training.core.stages import normal

STOPPED = 3
FIRST = os.environ.get("RANK", "0") == "0"  # of a launcher's processes; it alone writes and reports


def report(done: int, total: int, note: str) -> None:
    if FIRST:
        emit("progress", done=done, total=total, note=note)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m training.ml", description=__doc__)
    parser.add_argument("stage", choices=("stage1", "plain", "stage2", "base"))
    parser.add_argument("--snapshot", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True, dest="folder")
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument(
        "--init", type=Path, help="the export of the stage before: Stage 1, or the plain pass"
    )
    parser.set_defaults(run=run_stage)
    # compiled kernels are kept per batch shape; the default of 1024 grows to gigabytes
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    return run_command(parser)


def run_stage(arguments: argparse.Namespace) -> None:
    report(0, 0, "starting")
    try:
        _train(arguments, normal(recipes.load(arguments.recipe)))
    except Exception as error:
        if isinstance(error, TraceError) and error.code == "disk_full" or not was_full(error):
            raise
        hint = "Free some space and start the run again: it goes on from its newest checkpoint."
        where = str(arguments.folder)
        raise TraceError("the disk is full.", code="disk_full", where=where, hint=hint) from error


def _train(arguments: argparse.Namespace, recipe: recipes.Recipe) -> None:
    with loading_modules():
        from transformers.utils.logging import disable_progress_bar, set_verbosity_error

        from training.ml.loop import HelperDone, Stopped
        from training.ml.stages import train_stage

    disable_progress_bar()  # its lines would stand in the log that people read; so would its report of what was
    set_verbosity_error()  # loaded, which is checked where it happens
    place = (arguments.snapshot, arguments.folder, report)
    try:
        train_stage(arguments.stage, recipe, *place, arguments.init)
    except Stopped as stop:
        if not FIRST:  # a failing helper would have its launcher end the first process while that still saves
            return
        print(stop, file=sys.stderr)
        sys.exit(STOPPED)
    except HelperDone:
        return
    emit("done", export=str(arguments.folder / "export"))


if __name__ == "__main__":
    sys.exit(main())
