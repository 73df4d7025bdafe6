"""Stage 1, memorization: descriptions to tokens, tokens to descriptions, the right tool among its look-alikes.

In: snapshot, recipe (memo m, mr or none). Out: run/export, the Stage-1 model (the untouched base with its token rows
when memo is none). What Stage 2 will do is none of its business: cells that differ there share this model.
"""

from pathlib import Path
from typing import Any

from training.core.memorization import stage1_records
from training.core.questions import TAUGHT
from training.core.recipe import Recipe
from training.core.records import load_snapshot
from training.core.rundir import RunDir
from training.ml.bases.model import build
from training.ml.data import encode
from training.ml.export import export
from training.ml.loop import Progress, fit
from training.ml.optimizer import early_stop


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
            records = stage1_records(snapshot, recipe)
            trainee.letters = TAUGHT if recipe.letters else ""
            report(0, 0, f"encoding {len(records)} records")
            examples, too_long = encode(records, trainee.chat, recipe.max_seq_len)
            run.log(f"stage1: {len(examples)} records, {too_long} too long and left out")
            state = fit(trainee, examples, recipe.stage1, recipe, run, "stage1", report)
            facts["training"] = {
                "Records": len(examples),
                "Records with reasoning": sum(bool(record.thinking) for record in records),
                **({"Lettered records": sum(r.kind == "letters" for r in records)} if recipe.letters else {}),
                "Left out for length": too_long,
                "Prompts cut": trainee.chat.cut,
                "Steps": state.step,
                **early_stop(recipe.stage1, state.step, len(examples)),
                "Tokens": state.tokens,
                "Seconds": round(state.seconds),
                "Last loss": round(state.loss, 4),
            }
        report(0, 0, "exporting and reading back")
        checks = export(trainee, recipe, snapshot, run, facts)
        run.finish({"stage": "stage1", **facts, "round_trip": checks})
