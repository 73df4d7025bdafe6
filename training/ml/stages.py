"""The stages of a cell, one at a time: Stage 1 memorizes the tools, the passes of Stage 2 learn to retrieve.

In: a snapshot, a recipe, and the export to go on from (without one: a fresh base). Out: run/export. Stage 1 goes from
descriptions to tokens and back, and to the right tool among its look-alikes; Stage 2 from a request to a JSON list of
tool tokens, with (r, r+R) or without (n) a reasoning trace. `n>r` is two stages: `plain`, which is the very stage of an
`n` cell, then `stage2` on top of its export. `base` is the untouched base with its token rows.
"""

from pathlib import Path
from typing import Any

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, sha256_file
from training.core.recipe import PLAIN, Recipe
from training.core.records import load_snapshot
from training.core.rundir import RunDir
from training.core.stages import passes
from training.ml.bases.encoders import Progress
from training.ml.bases.model import build
from training.ml.export import export
from training.ml.loop import HelperDone, fit

NEWER = "their rows start from their descriptions. Run Stage 1 again to memorize them."


def train_stage(
    name: str,
    recipe: Recipe,
    snapshot_dir: Path,
    run_dir: Path,
    report: Progress,
    init: Path | None = None,
) -> None:
    """Train one stage of the cell and export it. Raises Stopped on a STOP file, HelperDone in a process that is not the
    first of its team."""
    recipe = of_stage(name, recipe)
    if name in ("base", "stage1"):
        learns, init = recipe.memo, None
    else:
        learns = recipe.retrieval
        check_init(recipe, init)
    snapshot = load_snapshot(snapshot_dir)
    with RunDir(run_dir).locked() as run:
        if not run.writer and learns == "none":
            raise HelperDone  # nothing to help with
        run.keep("recipe.yaml", recipe.to_yaml())
        report(0, 0, "building the model")
        trainee = build(recipe, snapshot, init, report)
        if trainee.grown:
            run.log(f"{name}: {trainee.grown} tool tokens are newer than the model gone on from: {NEWER}")
        facts: dict[str, Any] = {"memo": recipe.memo, "retrieval": recipe.retrieval}
        if learns != "none":
            report(0, 0, "encoding the records")
            read = trainee.memory if name == "stage1" else trainee.retrieval
            examples, replay, told = read(snapshot, recipe)
            run.log(f"{name}: " + ", ".join(f"{key.lower()} {count}" for key, count in told.items()))
            stage = getattr(recipe, name)
            state = fit(trainee, examples, stage, recipe, run, name, report, replay)
            facts["training"] = told | state.facts(stage, len(examples))
        report(0, 0, "exporting and reading back")
        export(trainee, recipe, snapshot, run, facts)
        # names the export it went on from
        start = {"init": sha256_file(init / "manifest.json")} if init else {}
        run.finish({"stage": name, **start, **facts})


def of_stage(name: str, recipe: Recipe) -> Recipe:
    """The cell as far as a stage is concerned: cells with equal ones share it, so nothing of it says which of them
    asked."""
    if name == "base":
        return recipe.with_cell(memo="none", retrieval="none")
    if name == "stage1":
        return recipe.with_cell(retrieval="none")
    first = next(iter(passes(recipe)), "")
    if name == "plain" and first not in PLAIN:
        raise TraceError(
            f"retrieval '{recipe.retrieval}' has no plain pass.", code="bad_stage", hint="Run stage2 instead."
        )
    return recipe.with_cell(retrieval=first) if name == "plain" else recipe


def check_init(recipe: Recipe, init: Path | None) -> None:
    """A pass goes on from the pass before it, and from no other: what an export says it is must be what is asked."""
    before = "none" if recipe.retrieval == "none" else ("none", *passes(recipe))[-2]
    if init is None:
        if (recipe.memo, before) == ("none", "none"):
            return
        missing = "the model of its plain pass" if before in PLAIN else "a Stage-1 model"
        cell = f"retrieval '{recipe.retrieval}'" if before in PLAIN else f"memo '{recipe.memo}'"
        hint = "Train that stage first and pass its export with --init, or choose a cell without it."
        raise TraceError(f"{cell} needs {missing}.", code="no_init", hint=hint)
    cell = "base {base}, format {format}, memo {memo}, retrieval {retrieval}"
    found = cell.format_map(read_json(init / "trace.json"))
    wanted = cell.format_map({**vars(recipe), "retrieval": before})
    if found != wanted:
        raise TraceError(
            f"it holds {found}; this stage goes on from {wanted}.",
            code="wrong_init",
            where=str(init),
            hint="Pass the export of the stage before this one.",
        )
