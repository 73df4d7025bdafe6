"""The training job: snapshot in, model out, evaluation queued in the same transaction."""

from pathlib import Path
from typing import Any

from django.conf import settings

from trace_site import jobs
from trace_site.artefacts import store
from trace_site.jobs import JobContext
from trace_site.lib.provenance import hardware_facts
from training.core.stages import Step, rows
from training.models import Model, Run, TrainedStage
from training.runs.services import run_steps
from training.runs.sharing import Trained, publish_model, put_export, sweep_folder, trained
from training.runs.stages import base_folder, run_recipe, run_stage, stage_folder


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
        facts = hardware_facts(settings.ML_THREADS)
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
    with ctx.guard():
        model = publish_model(run, plan, last)
    own = TrainedStage.objects.filter(run=run).values_list("key", flat=True)
    for folder in (*map(stage_folder, own), base_folder(run)):
        sweep_folder(folder)
    return result(run, model)


def result(run: Run, model: Model) -> dict[str, Any]:
    follow_up = jobs.Job.objects.filter(idempotency_key=f"evaluation:model:{model.pk}").first()
    return {"run": run.pk, "model": model.pk, "evaluation_job": follow_up.pk if follow_up else None}
