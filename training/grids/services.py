"""Grids: from a declared plan to snapshots, runs and cells; equal cells are shared by all grids that name them."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from synthesis.datasets.files import catalog_now
from synthesis.generate.services import snapshot_start
from synthesis.models import Snapshot
from trace_site import jobs
from trace_site.audit import models as audit_models
from trace_site.jobs import Job, JobContext, JobPostponed
from trace_site.lib.errors import TraceError, declared
from trace_site.lib.files import content_hash
from training.core import grid as plans
from training.core import recipe as recipes
from training.core import stages
from training.core.grid import Cell, Plan, Planned, Source
from training.core.recipe import Recipe
from training.models import Grid, GridCell, Run, TrainedStage
from training.runs.estimates import Estimator
from training.runs.services import cell_recipe, plain_hash, run_create, run_key
from training.runs.stages import over_default

ENDED_BADLY = (Job.State.FAILED, Job.State.CANCELLED, Job.State.QUARANTINED)


def plan_recipe(plan: Plan) -> Recipe:
    """The base's default recipe with the plan's fields over it. Raises TraceError naming the field."""
    return recipes.stored(over_default(plan.base, plan.recipe))


def recipe_of(plan: Plan, cell: Cell) -> Recipe:
    return cell_recipe(plan_recipe(plan), plan.base, **cell.parts())


def snapshots_of(plan: Plan) -> dict[Source, Snapshot]:
    """The snapshots that the plan names by number. Raises TraceError when one is not there."""
    asked = {source.id: source for source in plan.sources if source.id}
    found = Snapshot.objects.in_bulk(list(asked))
    if missing := sorted(set(asked) - set(found)):
        known = ", ".join(map(str, Snapshot.objects.values_list("pk", flat=True)[:10])) or "none yet"
        raise plans.refuse("snapshots", f"there is no snapshot {missing[0]}.", f"The snapshots are: {known}.")
    return {source: found[number] for number, source in asked.items()}


def grid_forecast(plan: Plan, snapshots: Mapping[Source, Snapshot] | None = None) -> list[Planned]:
    """The cells in training order with what becomes of their stages. Starts and builds nothing: of a snapshot that is
    not built yet only the catalog is known, so its Stage 2 counts as one to train."""
    known = snapshots_of(plan) if snapshots is None else snapshots
    catalog = catalog_now() if len(known) < len(plan.sources) else ""
    base = plan_recipe(plan)
    data = {source: data_of(source, known, catalog) for source in plan.sources}

    def steps_of(cell: Cell) -> list[stages.Step]:
        recipe = cell_recipe(base, plan.base, **cell.parts())
        return stages.steps(recipe, *data[cell.source])

    planned = plans.ordered(plan.cells(), steps_of)
    keys = {step.key for one in planned for step in one.steps}
    kept = TrainedStage.objects.filter(key__in=keys, removed_at=None).values_list("key", flat=True)
    return plans.forecast(planned, set(kept))


def data_of(source: Source, known: Mapping[Source, Snapshot], catalog: str) -> tuple[str, str, str]:
    """(snapshot hash, catalog hash, hash of what passes without rule samples read) of a source, built or not."""
    if (snapshot := known.get(source)) is not None:
        return snapshot.hash, snapshot.catalog_hash, plain_hash(snapshot)
    append = source.strategy == "append" or not source.per_rule  # the other samples stay as they are
    plain = f"{catalog}:rrb" if append else ""
    return f"to be built: {source if source.per_rule else 'no rule samples'}", catalog, plain


def grid_start(*, plan: Plan, actor: Any = None, wake: bool = True) -> Job:
    """Queue the building of the plan's snapshots and then its runs; the job's result names the grid."""
    plan_recipe(plan)
    snapshots_of(plan)
    title = f"grid {plan.name or f'of {len(plan.cells())} cells'}"
    return jobs.enqueue("grid", {"plan": plan.as_dict()}, title=title, created_by=actor, wake=wake)


def run_grid(ctx: JobContext) -> dict[str, Any]:
    """The job's handler: builds what is missing, waits for it in the queue, then makes the runs."""
    plan = plans.read_plan(ctx.params["plan"])
    snapshots = snapshots_of(plan) | built_snapshots(ctx, plan)
    ctx.check()
    with ctx.guard():
        grid = grid_create(plan=plan, snapshots=snapshots, actor=ctx.job.created_by)
    return {"grid": grid.pk, "cells": grid.cells.count()}


def built_snapshots(ctx: JobContext, plan: Plan) -> dict[Source, Snapshot]:
    """The plan's own snapshots. Raises JobPostponed until all are built, TraceError when one could not be."""
    builds = start_builds(ctx, plan)
    found: dict[Source, Snapshot] = {}
    for source in plan.builds():
        job = builds[str(source)]
        if job.state in ENDED_BADLY:
            drop_build(ctx, source)
            raise TraceError(
                f"{source} could not be built: {job.error or job.state}",
                code=declared(job.error_code, "no_snapshot"),
                where=f"job {job.pk}",
                hint="Retry this job: it builds that snapshot again.",
            )
        if job.state == Job.State.DONE:
            found[source] = Snapshot.objects.get(pk=(job.result or {})["id"])
    ctx.progress(len(found), len(plan.builds()), "building snapshots")
    if waiting := [source for source in plan.builds() if source not in found]:
        build = builds[str(waiting[0])]
        raise JobPostponed(f"waits for {waiting[0]}, which job {build.pk} builds", build)
    return found


def start_builds(ctx: JobContext, plan: Plan) -> dict[str, Job]:
    """{source: the job that builds it}; which jobs those are is kept with the grid's job."""
    kept: dict[str, int] = dict(ctx.params.get("builds", {}))
    with ctx.guard():
        for source in plan.builds():
            if str(source) not in kept:
                options = plan.build_options(source)
                kept[str(source)] = snapshot_start(**options, actor=ctx.job.created_by).pk
        keep_builds(ctx, kept)
    found = Job.objects.in_bulk(list(kept.values()))
    return {name: found[number] for name, number in kept.items()}


def drop_build(ctx: JobContext, source: Source) -> None:
    kept = {name: pk for name, pk in ctx.params["builds"].items() if name != str(source)}
    with ctx.guard():
        keep_builds(ctx, kept)


def keep_builds(ctx: JobContext, builds: dict[str, int]) -> None:
    ctx.params["builds"] = builds
    Job.objects.filter(pk=ctx.job.pk).update(params=ctx.params)


@transaction.atomic
def grid_create(*, plan: Plan, snapshots: Mapping[Source, Snapshot], actor: Any = None) -> Grid:
    """The grid with a run per cell, in training order. An equal plan made before is returned and goes on."""
    planned = grid_forecast(plan, snapshots)
    keys = [run_key(snapshots[one.cell.source].hash, recipe_of(plan, one.cell)) for one in planned]
    key = content_hash(sorted(set(keys)))
    name = plan.name or default_name(plan)
    grid, created = Grid.objects.get_or_create(
        key=key, defaults={"name": name[:200], "plan": plan.as_dict(), "created_by": actor}
    )
    runs: dict[int, Run] = {}
    recipe = plan_recipe(plan)
    for one in planned:
        run = run_create(
            snapshot=snapshots[one.cell.source],
            base=plan.base,
            **one.cell.parts(),
            recipe=recipe,
            why=Run.Why.GRID,
            actor=actor,
        )
        runs.setdefault(run.pk, run)  # two snapshots of a sweep may be equal
    if created:
        GridCell.objects.bulk_create(
            GridCell(grid=grid, position=place, run=run) for place, run in enumerate(runs.values())
        )
        detail = {"name": grid.name, "cells": len(runs), **plans.totals(planned)}
        audit_models.record(actor=actor, action="grid.created", obj=grid, detail=detail)
    return grid


def default_name(plan: Plan) -> str:
    sources = ", ".join(map(str, plan.sources))
    return f"{len(plan.cells())} cells on {sources}, base {plan.base}"


@transaction.atomic
def grid_cancel(*, grid: Grid, actor: Any = None) -> int:
    """Cancel what waits or runs; returns how many. Checkpoints are kept."""
    return sum(jobs.cancel(job, actor=actor) for job in grid_jobs(grid))


@transaction.atomic
def grid_resume(*, grid: Grid, actor: Any = None) -> int:
    """Queue again what failed or was cancelled, in the order of the cells; returns how many."""
    return sum(jobs.retry(job, actor=actor) for job in grid_jobs(grid))


def grid_jobs(grid: Grid) -> list[Job]:
    cells = grid.cells.select_related("run__job").order_by("position")
    return [cell.run.job for cell in cells if cell.run.job is not None]


# How long a grid would take: each stage that trains counted once.


def grid_seconds(plan: Plan, planned: Iterable[Planned]) -> float | None:
    """Seconds on one worker; None when nothing says how fast the base trains. A snapshot that is to be built counts as
    the newest one there is."""
    known, newest = snapshots_of(plan), Snapshot.objects.first()
    if newest is None:
        return None
    estimator = Estimator([plan.base])
    total = 0.0
    for one in planned:
        if "train" not in one.states:
            continue
        snapshot = known.get(one.cell.source, newest)
        try:
            found = estimator.of(recipe_of(plan, one.cell), snapshot)
        except TraceError:
            return None
        seconds = {stage.stage: stage.seconds for stage in found.stages}
        for step, state in zip(one.steps, one.states, strict=True):
            if state == "train":
                if (taken := seconds.get(step.stage)) is None:
                    return None
                total += taken
    return round(total)
