"""The training job: snapshot in, model out, evaluation queued in the same transaction."""

import json
import math
from pathlib import Path
from typing import Any

from django.conf import settings

from trace_site import jobs
from trace_site.artefacts import store
from trace_site.jobs import JobContext
from trace_site.lib import hardware
from trace_site.webhooks import emit
from training.core.stages import Step, rows
from training.models import Model, Run, TrainedStage
from training.provenance import provenance
from training.services import run_recipe, run_steps
from training.sharing import Trained, base_folder, put_export, size, stage_folder, sweep_folder, trained
from training.stages import run_stage


def run_training(ctx: JobContext) -> dict[str, Any]:
    """Train one run stage by stage; started again after a kill it goes on where it stopped.

    Raises JobPostponed while another job trains a stage that this run needs next.
    """
    run = Run.objects.select_related("snapshot").get(pk=ctx.params["run"])
    if model := Model.objects.filter(run=run, removed_at=None).first():
        return result(run, model)
    plan = run_steps(run_recipe(run), run.snapshot)
    snapshot = store().get_dir(run.snapshot.store_key, run.snapshot.store_digest)
    with ctx.guard():
        facts = hardware.facts(settings.ML_THREADS)
        Run.objects.filter(pk=run.pk).update(hardware=facts, stages=rows(plan))
        run.hardware = facts
    before: Trained | None = None
    for step in plan:
        before = trained(ctx, run, step, snapshot, before)
    return publish(ctx, run, plan, before or untrained_base(ctx, run, snapshot))


def untrained_base(ctx: JobContext, run: Run, snapshot: Path) -> Trained:
    """The row without any stage: the base with its token rows, to compare with."""
    export = run_stage(ctx, run, "base", "untrained base", snapshot, base_folder(run))
    return Trained(export, *put_export(ctx, run, "base", export))


def publish(ctx: JobContext, run: Run, plan: list[Step], last: Trained) -> dict[str, Any]:
    """Model row and evaluation job in one transaction that only the job's owner can make."""
    card = last.export / "README.md"
    with ctx.guard():
        model, _ = Model.objects.update_or_create(
            run=run,
            defaults={
                "store_key": last.store_key,
                "store_digest": last.store_digest,
                "bytes": size(last.export),
                "parameters": parameter_count(last.export),
                "card": card.read_text("utf-8") if card.is_file() else "",
                "lineage": provenance(run, plan),
                "removed_at": None,
            },
        )
        emit("run.finished", {"run": run.pk, "cell": run.cell, "model": model.pk})
        queue_evaluation(model, run.created_by)
    own = TrainedStage.objects.filter(run=run).values_list("key", flat=True)
    for folder in (*map(stage_folder, own), base_folder(run)):
        sweep_folder(folder)
    return result(run, model)


def queue_evaluation(model: Model, actor: Any) -> None:
    """On every frozen benchmark; asked once a model."""
    jobs.enqueue(
        "evaluation",
        {"model": model.pk},
        title=f"evaluate model {model.pk} {model.run.cell}",
        created_by=actor,
        idempotency_key=f"evaluation:model:{model.pk}",
    )


def result(run: Run, model: Model) -> dict[str, Any]:
    follow_up = jobs.Job.objects.filter(idempotency_key=f"evaluation:model:{model.pk}").first()
    return {"run": run.pk, "model": model.pk, "evaluation_job": follow_up.pk if follow_up else None}


def parameter_count(export: Path) -> int:
    """Numbers stored in the safetensors files, read from their headers alone."""
    count = 0
    for path in export.glob("*.safetensors"):
        with path.open("rb") as handle:
            header = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))
        count += sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return count
