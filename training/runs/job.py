"""The training job: snapshot in, model out, evaluation queued in the same transaction.

One owner per stage: a stage is taken from the store, waited for, or trained here and stored for everybody. A claim
names the job and the fence under which it trains the stage. It binds as long as that job runs under that fence, so it
ends with its owner, however that ends. Who takes over goes on from the last checkpoint.
"""

import json
import math
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from synthesis.models import LoopSettings
from trace_site import jobs
from trace_site.artefacts import store
from trace_site.jobs import Job, JobContext, JobPostponed, send_wake
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_json, sha256_file
from trace_site.lib.hub import revision_of
from trace_site.lib.provenance import code_revision, hardware_facts
from trace_site.webhooks.services import emit
from training.core import recipe as recipes
from training.core.recipe import POCKET, STAGES
from training.core.stages import Step
from training.models import Model, Run, StageClaim, TrainedStage
from training.runs.estimates import estimate
from training.runs.services import run_steps
from training.runs.stages import base_folder, run_stage, stage_folder


@dataclass(frozen=True)
class Trained:
    """A finished stage: its export on this machine, and where the store keeps it."""

    export: Path
    store_key: str
    store_digest: str


def run_training(ctx: JobContext) -> dict[str, Any]:
    """Train one run stage by stage; started again after a kill it goes on where it stopped.

    Raises JobPostponed while another job trains a stage that this run needs next.
    """
    run = Run.objects.select_related("snapshot").get(pk=ctx.params["run"])
    model = Model.objects.filter(run=run, removed_at=None).first()
    if model is None:
        recipe = recipes.stored(run.recipe)
        plan = run_steps(recipe, run.snapshot)
        snapshot = store().get_dir(run.snapshot.store_key, run.snapshot.store_digest)
        expected = {one.stage: one.seconds for one in estimate(recipe, run.snapshot).stages}
        with ctx.guard():
            run.hardware = hardware_facts(settings.ML_THREADS)
            run.stages = [{**asdict(step), "seconds": expected.get(step.stage)} for step in plan]
            run.save(update_fields=["hardware", "stages"])
        last: Trained | None = None
        for step in plan:
            last = trained(ctx, run, step, snapshot, last.export if last else None)
        if last is None:  # the row without any stage: the base with its token rows, to compare with
            export = run_stage(ctx, run, "base", "untrained base", snapshot, base_folder(run))
            last = put_export(ctx, run, "base", export)
        with ctx.guard():
            model = publish_model(run, plan, last)
        # curves and logs stay on this machine, checkpoints and the copies of the exports go
        own = TrainedStage.objects.filter(run=run).values_list("key", flat=True)
        for folder in (*map(stage_folder, own), base_folder(run)):
            for part in ("checkpoints", "export"):
                shutil.rmtree(folder / part, ignore_errors=True)
    return made(model)


def made(model: Model) -> dict[str, Any]:
    """The result of a job that made it: with the job that evaluates it, if there is one."""
    evaluations = Job.objects.filter(idempotency_key=evaluation_key(model)).values_list("pk", flat=True)
    return {"run": model.run_id, "model": model.pk, "evaluation_job": evaluations.first()}


def trained(ctx: JobContext, run: Run, step: Step, snapshot: Path, init: Path | None) -> Trained:
    """The stage with this key: from the store, or trained now. Raises JobPostponed while another job trains it, and
    TraceError `incomplete`."""
    if (found := stored_stage(ctx, run, step)) is not None:
        return found
    label = STAGES[step.stage].lower()
    if (owner := claim(ctx, step.key)) is not None:
        raise JobPostponed(f"waits for {label}, which job {owner.pk} trains")
    if (found := stored_stage(ctx, run, step)) is not None:  # finished between the look and the claim
        return found
    export = run_stage(ctx, run, step.stage, label, snapshot, stage_folder(step.key), init)
    done = export.parent / "done.json"
    told = read_json(done) if done.is_file() else {}
    facts = {name: told[name] for name in ("stage", "training") if name in told}
    refuse_unfinished(run, step.stage, facts.get("training") or {})
    kept = put_export(ctx, run, step.stage, export)
    with ctx.guard():
        keep_stage(run, step, kept)
        note_summary(ctx, run, step.stage, facts)
        transaction.on_commit(lambda: wake_waiting(step.key, run))
    return kept


def claim(ctx: JobContext, key: str) -> Job | None:
    """None when this job may train the stage; otherwise the running job that does."""
    mine = {"job": ctx.job, "fence": ctx.job.fence}
    with ctx.guard():
        StageClaim.objects.bulk_create([StageClaim(key=key, **mine)], ignore_conflicts=True)
        held = StageClaim.objects.select_for_update().get(key=key)
        # read after the lock: an owner that claimed its job a moment ago is seen
        owner = Job.objects.filter(pk=held.job_id, fence=held.fence, state=Job.State.RUNNING).first()
        if owner is not None and owner.pk != ctx.job.pk:
            return owner
        StageClaim.objects.filter(key=key).update(**mine)
    return None


def known_stage(key: str) -> TrainedStage | None:
    """The stage if somebody trained it and its files are kept."""
    return TrainedStage.objects.filter(key=key, removed_at=None).first()


def stored_stage(ctx: JobContext, run: Run, step: Step) -> Trained | None:
    """A kept stage with its digests verified; one whose files are gone or damaged is trained again. That is not noted
    before it is: a store that was named wrongly for an hour has lost nothing."""
    if (known := known_stage(step.key)) is None:
        return None
    try:
        export = store().get_dir(known.store_key, known.store_digest)
    except TraceError as error:
        if error.code not in ("store_missing", "store_corrupt"):
            raise
        return None
    if known.run_id != run.pk:
        note_summary(ctx, run, step.stage, {"reused_from_run": known.run_id})
    return Trained(export, known.store_key, known.store_digest)


def keep_stage(run: Run, step: Step, made: Trained) -> None:
    facts = {"stage": step.stage, "run": run, "store_key": made.store_key, "store_digest": made.store_digest}
    TrainedStage.objects.update_or_create(
        key=step.key, defaults={**facts, "bytes": size(made.export), "removed_at": None}
    )


def put_export(ctx: JobContext, run: Run, stage: str, export: Path) -> Trained:
    """Put an export into the store. The key carries the fence: a worker that lost its lease writes beside the owner's
    files, never over them."""
    ctx.check()
    key = f"models/{run.key}/{stage}-{ctx.job.pk}-{ctx.job.fence}"
    return Trained(export, key, store().put_dir(export, key))


def refuse_unfinished(run: Run, stage: str, told: dict[str, Any]) -> None:
    """A stage has done the steps that its recipe gives its records, or says where a time limit stopped it."""
    if "Records" not in told or "Stopped at" in told:
        return
    planned = getattr(recipes.stored(run.recipe), stage).steps(told["Records"])
    if told["Steps"] < planned:
        raise TraceError(
            f"{told['Steps']:,} of {planned:,} steps were trained.",
            code="incomplete",
            where=STAGES[stage].lower(),
            hint="Remove the stage's folder, then retry the job.",
        )


def note_summary(ctx: JobContext, run: Run, stage: str, facts: dict[str, Any]) -> None:
    """Keep what is known of a stage at once: a run may wait or be killed before the next."""
    with ctx.guard():
        run.summary = {**run.summary, stage: facts}
        Run.objects.filter(pk=run.pk).update(summary=run.summary)


def wake_waiting(key: str, run: Run) -> None:
    """Runs that need the stage may go on now; without a broker the poll finds them."""
    waiting = Run.objects.filter(stages__contains=[{"key": key}], job__state=Job.State.QUEUED)
    for other in waiting.exclude(pk=run.pk).select_related("job").order_by("job"):
        assert other.job is not None
        send_wake(other.job)


def size(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# A trained model becomes known: its row with its lineage, the event, and the evaluation that follows by itself.


def publish_model(run: Run, plan: list[Step], last: Trained, **lineage: Any) -> Model:
    """The run's model, in the transaction of the caller. A model whose files were removed has them again."""
    card = last.export / "README.md"
    model, _ = Model.objects.update_or_create(
        run=run,
        defaults={
            "store_key": last.store_key,
            "store_digest": last.store_digest,
            "bytes": size(last.export),
            "parameters": parameter_count(last.export),
            "card": card.read_text("utf-8") if card.is_file() else "",
            "lineage": {**provenance(run, plan), **lineage},
            "removed_at": None,
        },
    )
    emit("run.finished", {"run": run.pk, "cell": run.cell, "model": model.pk})
    if LoopSettings.now().evaluate:
        evaluation_request(model=model, actor=run.created_by)
    return model


def evaluation_key(model: Model) -> str:
    """Of the job that evaluates it; another one than before models were asked as they are served."""
    return f"evaluation:served:{model.pk}"


def evaluation_request(*, model: Model, actor: Any = None) -> Job:
    """Queue its evaluation on every benchmark; asked for a second time, the job made first is returned."""
    return jobs.enqueue(
        "evaluation",
        {"model": model.pk},
        title=f"evaluate model {model.pk} {model.run.cell}",
        created_by=actor,
        idempotency_key=evaluation_key(model),
    )


def provenance(run: Run, plan: list[Step]) -> dict[str, Any]:
    """What a model was made from: snapshot, rules, base, recipe, the stages with who trained each, code, hardware."""
    kept = TrainedStage.objects.filter(key__in=[step.key for step in plan])
    trainers = dict(kept.values_list("key", "run_id"))
    snapshot, rules = run.snapshot, run.snapshot.manifest.get("rules", [])
    return {
        "snapshot": {"id": snapshot.pk, "hash": snapshot.hash, "catalog_hash": snapshot.catalog_hash},
        "rules": {"count": len(rules), "hash": content_hash(rules) if rules else ""},
        "base": base_identity(run.base),
        "recipe_hash": recipes.stored(run.recipe).hash(),
        "cell": run.cell,
        "seed": run.seed,
        "stages": [
            {"stage": step.stage, "key": step.key, "run": trainers.get(step.key, run.pk)} for step in plan
        ],
        "code": code_revision(settings.BASE_DIR),
        "hardware": run.hardware,
    }


def base_identity(base: str) -> dict[str, str]:
    """{"name"}, and what pins it: the digest of a local folder, or the commit of a hub's model."""
    folder = Path(base)
    if base != POCKET and folder.is_dir():
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        digests = [[str(path.relative_to(folder)), sha256_file(path)] for path in files]
        return {"name": base, "digest": content_hash(digests)}
    revision = revision_of(base)
    return {"name": base, **({"revision": revision} if revision else {})}


def parameter_count(export: Path) -> int:
    """Numbers stored in the safetensors files, read from their headers alone."""
    count = 0
    for path in export.glob("*.safetensors"):
        with path.open("rb") as handle:
            header = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))
        count += sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    return count
