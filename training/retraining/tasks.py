"""The retraining job: it freezes the snapshot a policy asked for, and makes the run that trains on it.

Killed at any moment it is started again: the snapshot of the same content is found by its hash, the run by its key,
and the row that says why is written in one transaction with the run.
"""

from typing import Any

from django.contrib.auth import get_user_model

from synthesis.datasets.build import run_snapshot
from synthesis.models import Snapshot
from trace_site.audit import models as audit_models
from trace_site.jobs import JobContext
from training.core import recipe as recipes
from training.models import Retraining, RetrainPolicy, Run
from training.retraining.selectors import newest_decision
from training.runs.services import run_create


def run_retraining(ctx: JobContext) -> dict[str, Any]:
    """The job's handler; params: those of a snapshot, and {policy, cell, recipe, reasons}."""
    if row := Retraining.objects.filter(reasons__job=ctx.job.pk).select_related("run").first():
        return result(row)
    decision = newest_decision()  # before samples are chosen: what is approved from here on counts as new
    built = run_snapshot(ctx)
    snapshot = Snapshot.objects.get(pk=built["id"])
    actor = get_user_model().objects.filter(pk=ctx.params.get("actor") or 0).first()
    with ctx.guard():
        policy = RetrainPolicy.objects.select_for_update().get(pk=ctx.params["policy"])
        run = run_create(
            snapshot=snapshot,
            recipe=recipes.stored(ctx.params["recipe"]),
            actor=actor,
            why=Run.Why.POLICY,
            **ctx.params["cell"],
        )
        row = Retraining.objects.create(
            policy=policy,
            run=run,
            actor=actor,
            reasons={**ctx.params["reasons"], "job": ctx.job.pk, "decision": decision},
        )
        detail = {"run": run.pk, "snapshot": snapshot.pk, "job": ctx.job.pk}
        audit_models.record(actor=actor, action="retraining.queued", obj=policy, detail=detail)
    return result(row)


def result(row: Retraining) -> dict[str, Any]:
    return {"policy": row.policy_id, "retraining": row.pk, "run": row.run_id, "snapshot": row.run.snapshot_id}
