"""Stage 2, retrieval: from a request to a JSON list of tool tokens, with (r, r+R) or without (n) a reasoning trace.

In: snapshot, recipe, and the Stage-1 export to go on from (without one: a fresh base). Out: run/export.
"""

from pathlib import Path

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json
from training.core.recipe import Recipe
from training.core.records import load_snapshot, stage2_records
from training.core.rundir import RunDir
from training.ml.data import encode
from training.ml.export import export
from training.ml.loop import Progress, fit
from training.ml.model import build


def main(
    recipe: Recipe, snapshot_dir: Path, run_dir: Path, report: Progress, init: Path | None = None
) -> None:
    """Train Stage 2 and export it."""
    if recipe.memo != "none" and init is None:
        raise TraceError(
            f"memo '{recipe.memo}' needs a Stage-1 model.",
            code="no_init",
            hint="Pass it with --init, or set memo to none.",
        )
    snapshot = load_snapshot(snapshot_dir)
    with RunDir(run_dir).locked() as run:
        run.keep("recipe.yaml", recipe.to_yaml())
        memo = read_json(init / "trace.json")["memo"] if init else "none"
        report(0, 0, "building the model")
        trainee = build(recipe, snapshot, init)
        facts: dict[str, object] = {"memo": memo, "retrieval": recipe.retrieval}
        if recipe.retrieval != "none":
            records = stage2_records(snapshot, recipe)
            report(0, 0, f"encoding {len(records)} records")
            examples, too_long = encode(records, trainee.chat, recipe.max_seq_len)
            run.log(f"stage2: {len(examples)} records, {too_long} too long and left out")
            state = fit(trainee, examples, recipe.stage2, recipe, run, "stage2", report)
            facts["training"] = {
                "Records": len(examples),
                "Records with a trace": sum(bool(record.thinking) for record in records),
                "Left out for length": too_long,
                "Steps": state.step,
                "Tokens": state.tokens,
                "Seconds": round(state.seconds),
                "Last loss": round(state.loss, 4),
            }
        report(0, 0, "exporting and reading back")
        checks = export(trainee, recipe, snapshot, run, facts)
        run.finish({"stage": "stage2", **facts, "round_trip": checks})
