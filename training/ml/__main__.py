"""`python -m training.ml stage1|plain|stage2|base`: one training stage as a process of its own.

Progress is JSON lines on stdout. Exit 0: done.json is written. Exit 3: stopped on request, start it again to go
on. Anything else: one line on stderr says what is wrong. Several GPUs: `accelerate launch -m training.ml ...`.
"""

import argparse
import json
import os
import sys
import threading
from pathlib import Path

from trace_site.lib.errors import TraceError
from training.core import recipe as recipes
from training.core.rundir import was_full

STOPPED = 3
ORPHANED = 4
FIRST = (
    os.environ.get("RANK", "0") == "0"
)  # of the processes that a launcher started; it alone writes and reports


def report(done: int, total: int, note: str) -> None:
    if FIRST:
        print(json.dumps({"event": "progress", "done": done, "total": total, "note": note}), flush=True)


def _exit_with_parent() -> None:
    """The parent holds our stdin open; its end means the parent is gone. Checkpoints make leaving at once safe."""
    while os.read(0, 4096):  # not through sys.stdin: its lock held at exit aborts the interpreter
        pass
    os._exit(ORPHANED)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.ml", description=__doc__)
    parser.add_argument("stage", choices=("stage1", "plain", "stage2", "base"))
    parser.add_argument("--snapshot", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument(
        "--init", type=Path, help="the export of the stage before: Stage 1, or the plain pass"
    )
    parser.add_argument("--cache", type=Path, help="where read descriptions are kept from run to run")
    parser.add_argument("--parent-pipe", action="store_true", help="exit when stdin is closed")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    # set before torch loads: threads that spin while they wait slow a shared machine down many times
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # compiled kernels are kept per batch shape; the default of 1024 grows to gigabytes
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    if arguments.parent_pipe:
        threading.Thread(target=_exit_with_parent, daemon=True).start()
    report(0, 0, "starting")
    try:
        recipe = recipes.load(arguments.recipe)
        _run(arguments, recipe)
    except TraceError as error:
        print(error, file=sys.stderr)
        return 1
    except Exception as error:
        if not was_full(error):
            raise
        where = f"{arguments.run}: the disk is full. Free some space and start the run again"
        print(f"{where}: it goes on from its newest checkpoint.", file=sys.stderr)
        return 1
    return 0


def _run(arguments: argparse.Namespace, recipe: recipes.Recipe) -> None:
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    from training.ml import stage1, stage2
    from training.ml.loop import HelperDone, Stopped

    disable_progress_bar()  # its lines would stand in the log that people read; so would its report of what was
    set_verbosity_error()  # loaded, which is checked where it happens
    learns = {"stage1": recipe.memo, "base": "none"}.get(arguments.stage, recipe.retrieval)
    if not FIRST and learns == "none":
        return  # nothing to help with: the first process exports alone
    try:
        if arguments.stage in ("plain", "stage2"):
            train = stage2.plain if arguments.stage == "plain" else stage2.main
            train(recipe, arguments.snapshot, arguments.run, report, arguments.init, arguments.cache)
        else:
            cell = {"memo": "none", "retrieval": "none"} if arguments.stage == "base" else {}
            stage1.main(recipe.with_cell(**cell), arguments.snapshot, arguments.run, report, arguments.cache)
    except Stopped as stop:
        if not FIRST:  # a failing helper would have its launcher end the first process while that still saves
            return
        print(stop, file=sys.stderr)
        sys.exit(STOPPED)
    except HelperDone:
        return
    print(json.dumps({"event": "done", "export": str(arguments.run / "export")}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
