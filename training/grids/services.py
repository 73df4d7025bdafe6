"""Grids: from a declared plan to snapshots, runs and cells; equal cells are shared by all grids that name them."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from synthesis.datasets.build import snapshot_start
from synthesis.datasets.files import catalog_now
from synthesis.models import Snapshot
from trace_site import jobs
from trace_site.audit import models as audit_models
from trace_site.jobs import Job, JobContext, JobPostponed
from trace_site.lib.errors import TraceError, declared
from trace_site.lib.files import content_hash
from training.core import grid as plans
from training.core import recipe as recipes
from training.core import stages
from training.core.grid import GridPlan, PlannedCell, Source
from training.core.recipe import Recipe
from training.models import ENDED_BADLY, Grid, GridCell, Run, TrainedStage
from training.runs.estimates import Estimator
from training.runs.services import plain_hash, run_create, run_key
from training.runs.stages import over_default


def plan_recipe(plan: GridPlan) -> Recipe:
    """The base's default recipe with the plan's fields over it. Raises TraceError naming the field."""
    return recipes.stored(over_default(plan.base, plan.recipe)).with_cell(base=plan.base)


def snapshots_of(plan: GridPlan) -> dict[Source, Snapshot]:
    """The snapshots that the plan names by number. Raises TraceError when one is not there."""
    asked = {source.id: source for source in plan.sources if source.id}
    found = Snapshot.objects.in_bulk(list(asked))
    if missing := sorted(set(asked) - set(found)):
        known = ", ".join(map(str, Snapshot.objects.values_list("pk", flat=True)[:10])) or "none yet"
        raise plans.refuse("snapshots", f"there is no snapshot {missing[0]}.", f"The snapshots are: {known}.")
    return {source: found[number] for number, source in asked.items()}


def grid_forecast(plan: GridPlan, snapshots: Mapping[Source, Snapshot] | None = None) -> list[PlannedCell]:
    """The cells in training order with what becomes of their stages. Starts and builds nothing: of a snapshot that is
    not built yet only the catalog is known, so its Stage 2 counts as one to train."""
    known = snapshots_of(plan) if snapshots is None else snapshots
    catalog = catalog_now() if len(known) < len(plan.sources) else ""
    recipe = plan_recipe(plan)
    # hashes of the snapshot, of its catalog, and of what passes without rule samples read
    data: dict[Source, tuple[str, str, str]] = {}
    for source in plan.sources:
        if (snapshot := known.get(source)) is not None:
            data[source] = snapshot.hash, snapshot.catalog_hash, plain_hash(snapshot)
        else:
            append = source.strategy == "append" or not source.per_rule  # the other samples stay as they are
            name = f"to be built: {source if source.per_rule else 'no rule samples'}"
            data[source] = name, catalog, f"{catalog}:rrb" if append else ""
    steps = {cell: stages.steps(cell.of(recipe), *data[cell.source]) for cell in plan.cells()}
    keys = {step.key for own in steps.values() for step in own}
    kept = TrainedStage.objects.filter(key__in=keys, removed_at=None).values_list("key", flat=True)
    return plans.forecast(steps, set(kept))


def grid_start(*, plan: GridPlan, actor: Any = None) -> Job:
    """Queue the building of the plan's snapshots and then its runs; the job's result names the grid."""
    snapshots_of(plan)
    plan_recipe(plan)  # what is wrong with either is told at once
    title = f"grid {plan.name or f'of {len(plan.cells())} cells'}"
    return jobs.enqueue("grid", {"plan": plan.as_dict()}, title=title, created_by=actor)


def run_grid(ctx: JobContext) -> dict[str, Any]:
    """The job's handler: builds what is missing, waits for it in the queue, then makes the runs."""
    plan = plans.read_plan(ctx.params["plan"])
    snapshots = snapshots_of(plan) | built_snapshots(ctx, plan)
    ctx.check()
    with ctx.guard():
        grid = grid_create(plan=plan, snapshots=snapshots, actor=ctx.job.created_by)
    return {"grid": grid.pk, "cells": grid.cells.count()}


def built_snapshots(ctx: JobContext, plan: GridPlan) -> dict[Source, Snapshot]:
    """The plan's own snapshots. Raises JobPostponed until all are built, TraceError when one could not be.

    Which job builds which source is kept with the grid's job.
    """
    builds: dict[str, int] = dict(ctx.params.get("builds", {}))
    with ctx.guard():
        for source in plan.builds():
            if str(source) not in builds:
                builds[str(source)] = snapshot_start(
                    strategy=source.strategy,
                    per_rule=source.per_rule,
                    branches=list(plan.branches),
                    rrb=plan.rrb,
                    seed=plan.snapshot_seed,
                    actor=ctx.job.created_by,
                ).pk
        keep_builds(ctx, builds)
    known = Job.objects.in_bulk(list(builds.values()))
    found: dict[Source, Snapshot] = {}
    waiting: list[tuple[Source, Job]] = []
    for source in plan.builds():
        job = known[builds[str(source)]]
        if job.state in ENDED_BADLY:
            with ctx.guard():
                keep_builds(ctx, {name: pk for name, pk in builds.items() if name != str(source)})
            raise TraceError(
                f"{source} could not be built: {job.error or job.state}",
                code=declared(job.error_code, "no_snapshot"),
                where=f"job {job.pk}",
                hint="Retry this job: it builds that snapshot again.",
            )
        if job.state == Job.State.DONE:
            found[source] = Snapshot.objects.get(pk=(job.result or {})["id"])
        else:
            waiting.append((source, job))
    ctx.progress(len(found), len(plan.builds()), "building snapshots")
    if waiting:
        source, job = waiting[0]
        raise JobPostponed(f"waits for {source}, which job {job.pk} builds", job)
    return found


def keep_builds(ctx: JobContext, builds: dict[str, int]) -> None:
    ctx.params["builds"] = builds
    Job.objects.filter(pk=ctx.job.pk).update(params=ctx.params)


@transaction.atomic
def grid_create(*, plan: GridPlan, snapshots: Mapping[Source, Snapshot], actor: Any = None) -> Grid:
    """The grid with a run per cell, in training order. An equal plan made before is returned and goes on."""
    planned = grid_forecast(plan, snapshots)
    recipe = plan_recipe(plan)
    keys = {run_key(snapshots[one.cell.source].hash, one.cell.of(recipe)) for one in planned}
    sources = ", ".join(map(str, plan.sources))
    name = plan.name or f"{len(planned)} cells on {sources}, base {plan.base}"
    grid, created = Grid.objects.get_or_create(
        key=content_hash(sorted(keys)),
        defaults={"name": name[:200], "plan": plan.as_dict(), "created_by": actor},
    )
    runs: dict[int, Run] = {}
    for one in planned:
        snapshot, own = snapshots[one.cell.source], one.cell.of(recipe)
        run = run_create(snapshot=snapshot, recipe=own, why=Run.Why.GRID, actor=actor)
        runs.setdefault(run.pk, run)  # two snapshots of a sweep may be equal
    if created:
        GridCell.objects.bulk_create(
            GridCell(grid=grid, position=place, run=run) for place, run in enumerate(runs.values())
        )
        detail = {"name": grid.name, "cells": len(runs), **plans.totals(planned)}
        audit_models.record(actor=actor, action="grid.created", obj=grid, detail=detail)
    return grid


@transaction.atomic
def grid_steer(*, grid: Grid, verb: str, actor: Any = None) -> int:
    """`cancel` what waits or runs, whose checkpoints are kept; `resume` what failed or was cancelled, in the order of
    the cells. Returns how many."""
    change = {"cancel": jobs.cancel, "resume": jobs.retry}[verb]
    cells = grid.cells.select_related("run__job").order_by("position")
    return sum(change(cell.run.job, actor=actor) for cell in cells if cell.run.job is not None)


# How long a grid would take: each stage that trains counted once.


def grid_seconds(plan: GridPlan, planned: Iterable[PlannedCell]) -> float | None:
    """Seconds on one worker; None when nothing says how fast the base trains. A snapshot that is to be built counts as
    the newest one there is."""
    known, newest = snapshots_of(plan), Snapshot.objects.first()
    if newest is None:
        return None
    estimator, recipe, total = Estimator([plan.base]), plan_recipe(plan), 0.0
    for one in planned:
        counts = known.get(one.cell.source, newest).counts
        states = zip(one.steps, one.states, strict=True)
        there = {step.stage: 0 for step, state in states if state != "train"}
        seconds = estimator.of(one.cell.of(recipe), counts, there).seconds.value
        if seconds is None:
            return None
        total += seconds
    return total
