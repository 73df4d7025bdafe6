"""The training job: snapshot in, model out, evaluation queued in the same transaction."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

from django.conf import settings

from trace_site import jobs
from trace_site.artefacts import store
from trace_site.jobs import JobContext
from trace_site.lib import hardware
from trace_site.lib.files import read_json, write_atomic
from trace_site.webhooks import emit
from training.core.recipe import Recipe
from training.models import Model, Run, Stage1
from training.services import run_recipe
from training.stages import run_stage


def run_training(ctx: JobContext) -> dict[str, Any]:
    """Train one run; started again after a kill it goes on where it stopped."""
    run = Run.objects.select_related("snapshot").get(pk=ctx.params["run"])
    if model := Model.objects.filter(run=run).first():
        return result(run, model)
    recipe = run_recipe(run)
    folder = settings.TRACE_HOME / "runs" / run.key
    snapshot = store().get_dir(run.snapshot.store_key, run.snapshot.store_digest)
    write_atomic(folder / "recipe.yaml", recipe.to_yaml())
    with ctx.guard():
        Run.objects.filter(pk=run.pk).update(hardware=hardware.facts(settings.ML_THREADS))
    if recipe.memo == recipe.retrieval == "none":
        export = run_stage(ctx, run, "base", "untrained base", snapshot, folder / "base")
        return publish(ctx, run, export)
    summary: dict[str, Any] = {}
    memory = stage1(ctx, run, recipe, snapshot, folder, summary) if recipe.memo != "none" else None
    if recipe.retrieval == "none":
        assert memory is not None
        return publish(ctx, run, memory, summary)
    export = run_stage(ctx, run, "stage2", stage_label(recipe, 2), snapshot, folder / "stage2", memory)
    return publish(ctx, run, export, summary)


def stage1(
    ctx: JobContext, run: Run, recipe: Recipe, snapshot: Path, folder: Path, summary: dict[str, Any]
) -> Path:
    """The Stage-1 model of this catalog, format, base, recipe and seed: from the store, or trained and stored."""
    known = Stage1.objects.filter(key=run.stage1_key).first()
    if known is not None:
        summary["stage1"] = {"reused_from_run": known.run_id}
        return store().get_dir(known.store_key, known.store_digest)
    export = run_stage(ctx, run, "stage1", stage_label(recipe, 1), snapshot, folder / "stage1")
    summary["stage1"] = done_facts(export)
    key = f"stage1/{run.stage1_key}/{ctx.job.pk}-{ctx.job.fence}"
    digest = store().put_dir(export, key)
    with ctx.guard():
        Stage1.objects.get_or_create(
            key=run.stage1_key, defaults={"run": run, "store_key": key, "store_digest": digest}
        )
    return export


def stage_label(recipe: Recipe, number: int) -> str:
    count = (recipe.memo != "none") + (recipe.retrieval != "none")
    return f"stage {number}" if count == 2 else f"stage {number} (the only one)"


def publish(ctx: JobContext, run: Run, export: Path, summary: dict[str, Any] | None = None) -> dict[str, Any]:
    """Store the export, then model row and evaluation job in one transaction that only the job's owner can make.

    The key carries the fence: a worker that lost its lease writes beside the owner's files, never over them.
    """
    ctx.check()
    key = f"models/{run.key}/{ctx.job.pk}-{ctx.job.fence}"
    digest = store().put_dir(export, key)
    facts = {**(summary or {}), **{"result": done_facts(export)}}
    with ctx.guard():
        model = Model.objects.create(
            run=run,
            store_key=key,
            store_digest=digest,
            bytes=sum(path.stat().st_size for path in export.rglob("*") if path.is_file()),
            parameters=parameter_count(export),
            card=(export / "README.md").read_text("utf-8") if (export / "README.md").is_file() else "",
        )
        Run.objects.filter(pk=run.pk).update(summary=facts)
        emit("run.finished", {"run": run.pk, "cell": run.cell, "model": model.pk})
        jobs.enqueue(
            "evaluation",
            {"model": model.pk},
            title=f"evaluate model {model.pk} {run.cell}",
            created_by=run.created_by,
            idempotency_key=f"evaluation:model:{model.pk}",
        )
    for checkpoints in (settings.TRACE_HOME / "runs" / run.key).glob("*/checkpoints"):
        shutil.rmtree(checkpoints, ignore_errors=True)
    return result(run, model)


def result(run: Run, model: Model) -> dict[str, Any]:
    follow_up = jobs.Job.objects.filter(idempotency_key=f"evaluation:model:{model.pk}").first()
    return {"run": run.pk, "model": model.pk, "evaluation_job": follow_up.pk if follow_up else None}


def done_facts(export: Path) -> dict[str, Any]:
    """What the trainer said when it was done: steps, tokens, seconds, last loss, round-trip check."""
    path = export.parent / "done.json"
    facts = read_json(path) if path.is_file() else {}
    return {name: facts[name] for name in ("stage", "training", "round_trip") if name in facts}


def parameter_count(export: Path) -> int:
    """Numbers stored in the safetensors files, read from their headers alone."""
    count = 0
    for path in export.glob("*.safetensors"):
        with path.open("rb") as handle:
            header = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))
        count += sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return count
