"""Stage 1, memorization: descriptions to tokens, tokens to descriptions, the right tool among its look-alikes.

In: snapshot, recipe (memo m, mr or none). Out: run/export, the Stage-1 model (the untouched base with its token rows
when memo is none). What Stage 2 will do is none of its business: cells that differ there share this model.
"""

from pathlib import Path
from typing import Any

from training.core.recipe import Recipe
from training.core.records import load_snapshot
from training.core.rundir import RunDir
from training.ml.bases.model import build
from training.ml.export import export
from training.ml.loop import Progress, fit


def main(
    recipe: Recipe, snapshot_dir: Path, run_dir: Path, report: Progress, cache: Path | None = None
) -> None:
    """Train Stage 1 and export it."""
    recipe = recipe.with_cell(retrieval="none")
    snapshot = load_snapshot(snapshot_dir)
    with RunDir(run_dir).locked() as run:
        run.keep("recipe.yaml", recipe.to_yaml())
        report(0, 0, "building the model")
        trainee = build(recipe, snapshot, None, cache, report)
        facts: dict[str, Any] = {"memo": recipe.memo, "retrieval": "none"}
        if recipe.memo != "none":
            report(0, 0, "encoding the records")
            examples, told = trainee.memory(snapshot, recipe)
            run.log("stage1: " + ", ".join(f"{name.lower()} {count}" for name, count in told.items()))
            state = fit(trainee, examples, recipe.stage1, recipe, run, "stage1", report)
            facts["training"] = told | state.facts(recipe.stage1, len(examples))
        report(0, 0, "exporting and reading back")
        checks = export(trainee, recipe, snapshot, run, facts)
        run.finish({"stage": "stage1", **facts, "round_trip": checks})
