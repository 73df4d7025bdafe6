"""The training job: snapshot in, model out, evaluation queued in the same transaction."""

import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from trace_site import jobs
from trace_site.artefacts import store
from trace_site.jobs import JobContext
from trace_site.lib import hardware
from trace_site.lib.files import read_json, write_atomic
from trace_site.webhooks import emit
from training.core.stages import Step, steps
from training.models import Model, Run, TrainedStage
from training.services import run_recipe
from training.stages import run_stage

LABELS = {"stage1": "stage 1", "plain": "stage 2, plain", "stage2": "stage 2"}


def run_training(ctx: JobContext) -> dict[str, Any]:
    """Train one run stage by stage; started again after a kill it goes on where it stopped."""
    run = Run.objects.select_related("snapshot").get(pk=ctx.params["run"])
    if model := Model.objects.filter(run=run).first():
        return result(run, model)
    recipe = run_recipe(run)
    folder = settings.TRACE_HOME / "runs" / run.key
    snapshot = store().get_dir(run.snapshot.store_key, run.snapshot.store_digest)
    write_atomic(folder / "recipe.yaml", recipe.to_yaml())
    with ctx.guard():
        Run.objects.filter(pk=run.pk).update(hardware=hardware.facts(settings.ML_THREADS))
    plan = steps(recipe, run.snapshot.hash, run.snapshot.catalog_hash)
    if not plan:
        export = run_stage(ctx, run, "base", "untrained base", snapshot, folder / "base")
        return publish(ctx, run, Trained(export, *stored(ctx, run, "base", export)), {})
    summary: dict[str, Any] = {}
    before: Trained | None = None
    for step in plan:
        label = f"{LABELS[step.stage]}{' (the only one)' if len(plan) == 1 else ''}"
        before = trained(ctx, run, step, label, snapshot, folder / step.stage, before, summary)
    assert before is not None
    return publish(ctx, run, before, summary)


@dataclass(frozen=True)
class Trained:
    """A finished stage: its export on this machine, and where the store keeps it."""

    export: Path
    store_key: str
    store_digest: str


def trained(
    ctx: JobContext,
    run: Run,
    step: Step,
    label: str,
    snapshot: Path,
    folder: Path,
    before: Trained | None,
    summary: dict[str, Any],
) -> Trained:
    """The stage with this content key: from the store, or trained now and stored for every run that needs it."""
    known = TrainedStage.objects.filter(key=step.key, removed_at=None).first()
    if known is not None:
        summary[step.stage] = {"reused_from_run": known.run_id}
        return Trained(
            store().get_dir(known.store_key, known.store_digest), known.store_key, known.store_digest
        )
    export = run_stage(ctx, run, step.stage, label, snapshot, folder, before.export if before else None)
    summary[step.stage] = done_facts(export)
    key, digest = stored(ctx, run, step.stage, export)
    with ctx.guard():
        TrainedStage.objects.update_or_create(
            key=step.key,
            defaults={
                "stage": step.stage,
                "run": run,
                "store_key": key,
                "store_digest": digest,
                "bytes": size(export),
                "removed_at": None,
            },
        )
    return Trained(export, key, digest)


def stored(ctx: JobContext, run: Run, stage: str, export: Path) -> tuple[str, str]:
    """Put an export into the store. The key carries the fence: a worker that lost its lease writes beside the owner's
    files, never over them."""
    ctx.check()
    key = f"models/{run.key}/{stage}-{ctx.job.pk}-{ctx.job.fence}"
    return key, store().put_dir(export, key)


def publish(ctx: JobContext, run: Run, last: Trained, summary: dict[str, Any]) -> dict[str, Any]:
    """Model row and evaluation job in one transaction that only the job's owner can make."""
    card = last.export / "README.md"
    with ctx.guard():
        model = Model.objects.create(
            run=run,
            store_key=last.store_key,
            store_digest=last.store_digest,
            bytes=size(last.export),
            parameters=parameter_count(last.export),
            card=card.read_text("utf-8") if card.is_file() else "",
        )
        Run.objects.filter(pk=run.pk).update(summary=summary)
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


def size(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


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
