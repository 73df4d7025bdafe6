"""Adopting a run trained elsewhere: checked against our snapshot and ledger, stored, then known like one of ours."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from catalog.core.tokens import CLAUSES, FAMILIES
from catalog.models import TokenUnit
from synthesis.datasets.files import snapshot_dir
from synthesis.models import Snapshot
from trace_site import jobs
from trace_site.artefacts import store
from trace_site.audit import models as audit_models
from trace_site.jobs import Job, JobContext
from trace_site.lib.child import tail
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, sha256_file
from trace_site.paging import number_of
from training.core.delivery import ORDER, Delivery, check_tools, read_delivery, refuse
from training.core.recipe import Recipe
from training.core.records import load_snapshot
from training.core.stages import Step, normal
from training.models import Model, Run, RunMetric
from training.runs.job import Trained, keep_stage, known_stage, made, publish_model
from training.runs.services import run_key, run_steps, run_values
from training.runs.stages import points_of, read_metrics

Guard = Callable[[], AbstractContextManager[Any]]


def inbox() -> Path:
    """Where folders to adopt are put: the site reads no other place."""
    return Path(settings.TRACE_HOME) / "imports"


def waiting() -> list[str]:
    """Names of the folders in the inbox."""
    folder = inbox()
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def import_start(*, name: str, actor: Any = None) -> Job:
    """Queue the adoption of a folder in the inbox."""
    if name not in waiting():
        raise TraceError(
            f"there is no folder '{name}' in the inbox.", code="not_found", hint=f"Copy it into {inbox()}."
        )
    return jobs.enqueue("import", {"folder": name}, title=f"adopt {name}", created_by=actor)


def run_import(ctx: JobContext) -> dict[str, Any]:
    """The job's handler."""
    ctx.progress(0, 1, "checking files")
    return adopt(inbox() / ctx.params["folder"], actor=ctx.job.created_by, guard=ctx.guard)


def adopt(folder: Path, *, actor: Any = None, guard: Guard = transaction.atomic) -> dict[str, Any]:
    """Run, stages, model, curves and evaluation job of a delivered folder, in one transaction. Adopting it again
    changes nothing. Raises TraceError that says what is wrong, where and what to do."""
    found = read_delivery(folder)
    last = found[-1]
    snapshot = Snapshot.objects.filter(hash=last.spec["snapshot_hash"]).first()
    if snapshot is None:
        raise refuse(
            f"it was trained on snapshot {last.spec['snapshot_hash'][:12]}, which is none of ours.",
            last.export / "trace.json",
            "Train on a snapshot downloaded from this installation.",
            "not_found",
        )
    recipe = normal(last.recipe.with_cell(memo=last.spec["memo"], retrieval=last.spec["retrieval"]))
    plan = run_steps(recipe, snapshot)
    steps = steps_of(found, plan, snapshot)
    check_ledger(found, snapshot)
    key = run_key(snapshot.hash, recipe)
    proven = chain_is_proven(found, steps, plan)
    stored = []
    for one in found:  # under a key of its content: adopting it again writes nothing
        target = f"models/{key}/{one.stage}-import-{one.manifest[:16]}"
        stored.append(Trained(one.export, target, store().put_dir(one.export, target)))
    with guard():
        run, is_new = run_for(key, recipe, snapshot, stored[-1], actor)
        if is_new:
            # every delivered stage that is not known yet, for the runs that need it
            for step, kept in zip(steps, stored, strict=True) if proven and steps else ():
                if known_stage(step.key) is None:
                    keep_stage(run, step, kept)
            note(run, found)
            last_facts = {"imported": folder.name, "code": last.done.get("code", {})}
            model = publish_model(run, plan, stored[-1], **last_facts)
            detail = {"model": model.pk, "folder": folder.name, "cell": run.cell, "stages_shared": proven}
            audit_models.record(actor=actor, action="run.imported", obj=run, detail=detail)
    return {**made(Model.objects.get(run=run)), "new": is_new, "stages_shared": proven}


def steps_of(found: list[Delivery], plan: list[Step], snapshot: Snapshot) -> list[Step]:
    """The planned stage that each delivery is. Its own recipe must name the very same stage."""
    if not plan:
        return []
    here = plan[-len(found) :]
    for one, step in zip(found, here, strict=True):
        cell = {"memo": found[-1].spec["memo"], "retrieval": found[-1].spec["retrieval"]}
        own = {other.stage: other.key for other in run_steps(one.recipe.with_cell(**cell), snapshot)}
        if one.stage != step.stage or own.get(step.stage) != step.key:
            raise refuse(
                f"this is {one.stage} of another recipe or snapshot than {found[-1].stage} was trained with.",
                one.folder,
                "Bring the run directories of one cell, trained with one recipe.",
            )
    return here


def check_ledger(found: list[Delivery], snapshot: Snapshot) -> None:
    """Tools and ids fit the snapshot, and the snapshot's tokens are still those of the ledger."""
    rows_of = load_snapshot(snapshot_dir(snapshot))
    fmt = found[-1].recipe.format
    families = (*FAMILIES[fmt], CLAUSES)
    names = [tool["name"] for tool in rows_of.tools]
    own = set(TokenUnit.objects.filter(family__in=families).values_list("family", "slot", "string"))
    frozen = {
        (row["family"], row["slot"], row["string"]) for row in rows_of.tokens if row["family"] in families
    }
    if not frozen <= own:
        problem = f"the ledger has another token than {min(frozen - own)[2]} in its place."
        raise refuse(problem, found[-1].export, "Adopt it in the installation that its snapshot comes from.")
    for one in found:
        check_tools(one, names, rows_of.family_strings(fmt), rows_of.clause_strings())


def chain_is_proven(found: list[Delivery], steps: list[Step], plan: list[Step]) -> bool:
    """Whether the first delivered stage starts from nothing, or from a stage of ours: only then may others go on from
    it under its key."""
    if not plan or steps[0] == plan[0]:
        return True
    before = known_stage(plan[plan.index(steps[0]) - 1].key)
    if before is None or not found[0].init:
        return False
    manifest = store().get_dir(before.store_key, before.store_digest) / "manifest.json"
    return manifest.is_file() and sha256_file(manifest) == found[0].init


def run_for(key: str, recipe: Recipe, snapshot: Snapshot, last: Trained, actor: Any) -> tuple[Run, bool]:
    """(the run of this cell, whether the delivered model is new to it). Raises TraceError when it has another."""
    origin = {"why": Run.Why.IMPORT, "created_by": actor}
    Run.objects.get_or_create(key=key, defaults=run_values(recipe, snapshot) | origin)
    run = Run.objects.select_for_update(of=("self",)).select_related("job", "snapshot").get(key=key)
    model = Model.objects.filter(run=run, removed_at=None).first()
    if model is not None:
        if model.store_digest == last.store_digest:
            return run, False
        raise TraceError(
            f"run {run.pk} has trained this cell already, with other weights (model {model.pk}).",
            code="conflict",
            hint="Use that model, or train elsewhere with another seed.",
        )
    if run.job is not None and run.job.is_active:
        raise TraceError(
            f"run {run.pk} is training this cell now.", code="conflict", hint="Cancel it, then adopt again."
        )
    run.job, run.why = None, Run.Why.IMPORT
    run.save(update_fields=["job", "why"])
    return run, True


def note(run: Run, found: list[Delivery]) -> None:
    """Curves, hardware and what the trainer said of each stage."""
    run.hardware = found[-1].done.get("hardware", {})
    names = ("stage", "training")
    run.summary = {one.stage: {n: one.done[n] for n in names if n in one.done} for one in found}
    run.log_tail = tail(found[-1].folder / "log.txt")
    run.save(update_fields=["hardware", "summary", "log_tail"])
    rows = [row for one in found for row in read_metrics(one.folder / "metrics.jsonl", 0)[0]]
    RunMetric.objects.bulk_create(points_of(run, rows), ignore_conflicts=True, batch_size=1000)


def glance(name: str) -> dict[str, Any]:
    """What a folder of the inbox seems to hold, without verifying it: {"cell", "base", "problem"}."""
    folder = inbox() / name
    place = next((folder / part for part in reversed(ORDER) if (folder / part).is_dir()), folder)
    try:
        spec = read_json(place / "export" / "trace.json")
        cell = f"({spec['format']}, {spec['memo']}, {spec['retrieval']})"
        return {"name": name, "cell": cell, "base": str(spec["base"]), "problem": ""}
    except (TraceError, LookupError, TypeError) as error:
        problem = str(error) if isinstance(error, TraceError) else "its trace.json is not a trainer's."
        return {"name": name, "cell": "", "base": "", "problem": problem}


# Pages of runs trained elsewhere: how to train one, and which to adopt.


@require_GET
def import_list(request: HttpRequest) -> HttpResponse:
    """The folders in the inbox, and the commands for the machine that trains."""
    snapshots = Snapshot.objects.defer("manifest")
    chosen = snapshots.filter(pk=number_of(request.GET.get("snapshot", ""))).first()
    context = {
        "inbox": inbox(),
        "folders": [glance(name) for name in waiting()],
        "jobs": Job.objects.filter(kind="import").order_by("-pk")[:5],
        "snapshots": snapshots[:20],
        "snapshot": chosen or snapshots.first(),
    }
    return render(request, "training/imports.html", context)


@require_POST
def import_adopt(request: HttpRequest) -> HttpResponse:
    try:
        import_start(name=request.POST.get("folder", ""), actor=request.user)
    except TraceError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "Its files are checked and stored; the job below says how it went.")
    return redirect("training:imports")
