"""When to train again: policies, and starting what they ask for.

Every start takes one lock and looks again under it, so that two sweepers, or a sweeper and a person, start one
retraining between them. The job that is queued builds the snapshot and makes the run (training.retraining.services).
"""

import logging
from dataclasses import asdict
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Max, Q
from django.urls import reverse

from synthesis.datasets.build import run_snapshot, snapshot_params
from synthesis.models import Decision, Snapshot
from trace_site import jobs
from trace_site.access import ADMIN
from trace_site.audit import models as audit_models
from trace_site.jobs import Job, JobContext
from trace_site.lib.errors import TraceError
from trace_site.notices.services import Notice, tell
from training.core import recipe as recipes
from training.core.recipe import CELL, Recipe
from training.models import Retraining, RetrainPolicy, Run
from training.retraining.selectors import KIND, Standing, standing
from training.runs.services import run_create
from training.runs.stages import over_default

log = logging.getLogger(__name__)
LOCK = 7_210_402  # advisory lock number: one start at a time
LIMITS = ("approved_samples", "changed_rules", "quiet_minutes")


def retraining_lock(wait: bool = True) -> bool:
    """Hold the starting of retrainings to the end of the transaction; False when somebody else has it."""
    call = "pg_advisory_xact_lock" if wait else "pg_try_advisory_xact_lock"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {call}(%s)", [LOCK])
        return cursor.fetchone()[0] is not False


@transaction.atomic
def policy_save(
    *, policy: RetrainPolicy | None = None, actor: Any, name: str, snapshot: dict[str, Any], **fields: Any
) -> RetrainPolicy:
    """Make a policy, or change one. fields: the cell, the limits, and `recipe` as a mapping of fields."""
    row = RetrainPolicy() if policy is None else RetrainPolicy.objects.select_for_update().get(pk=policy.pk)
    row.name = name
    if RetrainPolicy.objects.filter(name=name).exclude(pk=row.pk).exists():
        raise TraceError("another policy has this name.", code="bad_input", where="name")
    for field in (*CELL, *LIMITS, "recipe"):
        setattr(row, field, fields.get(field, getattr(row, field)))
    row.snapshot = {key: value for key, value in snapshot_params(**snapshot).items() if key != "actor"}
    if row.retrieval == Run.Retrieval.NONE:
        problem = "a cell without Stage 2 learns neither from samples nor from rules."
        raise TraceError(problem, code="bad_input", where="retrieval", hint="Choose n, r, r+R or n>r.")
    policy_recipe(row)
    row.changed_by = actor
    row.save()
    action = "retraining.policy_changed" if policy else "retraining.policy_created"
    audit_models.record(actor=actor, action=action, obj=row, detail=said(row))
    return row


def said(policy: RetrainPolicy) -> dict[str, Any]:
    """A policy's settings, as the audit log keeps them."""
    return {name: getattr(policy, name) for name in (*CELL, *LIMITS, "active", "snapshot", "recipe")}


def policy_recipe(policy: RetrainPolicy) -> Recipe:
    """The recipe its runs get: the base's default with the policy's own fields over it. Raises TraceError."""
    recipe = recipes.stored(over_default(policy.base, policy.recipe))
    return recipe.with_cell(**{name: getattr(policy, name) for name in CELL})


@transaction.atomic
def policy_switch(*, policy: RetrainPolicy, active: bool, actor: Any) -> RetrainPolicy:
    """Let it start by itself, or not; a run under way goes on."""
    row = RetrainPolicy.objects.select_for_update().get(pk=policy.pk)
    if row.active != active:
        row.active, row.changed_by = active, actor
        row.save(update_fields=["active", "changed_by", "changed_at"])
        action = "retraining.switched_on" if active else "retraining.switched_off"
        audit_models.record(actor=actor, action=action, obj=row, detail=said(row))
    return row


@transaction.atomic
def start(*, policy: RetrainPolicy, actor: Any) -> Job:
    """Start now, whatever the limits say. Raises TraceError `bad_state` while one of its own is under way."""
    retraining_lock()
    found = standing(RetrainPolicy.objects.select_for_update().get(pk=policy.pk))
    if found.own is not None:
        raise TraceError(
            f"{found.own.title} is {found.own.state}.",
            code="bad_state",
            where=policy.name,
            hint="Wait for it, or cancel it first.",
        )
    return _enqueue(found, actor)


def sweep() -> int:
    """Start every active policy that is due, and tell of failures, of the others too; how many were started."""
    started = 0
    for policy in RetrainPolicy.objects.order_by("pk"):
        try:
            with transaction.atomic():
                if not retraining_lock(wait=False):
                    return started
                started += start_if_due(policy)
        except TraceError as error:
            log.warning("policy %s could not start: %s", policy, error)
    return started


def start_if_due(policy: RetrainPolicy) -> bool:
    """The caller holds the lock; what it stands before is read again under it."""
    row = RetrainPolicy.objects.select_for_update().get(pk=policy.pk)
    found = standing(row)
    if found.failed is not None:
        _tell_failure(found.failed, row)
    if not found.starts_itself:
        return False
    _enqueue(found, None)
    return True


def _enqueue(found: Standing, actor: Any) -> Job:
    policy = found.policy
    params = {
        **snapshot_params(**policy.snapshot, actor=actor),
        "policy": policy.pk,
        "recipe": asdict(policy_recipe(policy)),
        "reasons": found.reasons(),
    }
    title = f"retraining {policy.name}: snapshot and run"
    job = jobs.enqueue(KIND, params, title=title, created_by=actor)
    audit_models.record(
        actor=actor, action="retraining.started", obj=policy, detail={"job": job.pk, **params["reasons"]}
    )
    why = "; ".join(found.verdict.reasons) or "started by hand"
    tell_admins(f"Retraining {policy.name} started: {why}.", f"retraining:{job.pk}")
    return job


def _tell_failure(job: Job, policy: RetrainPolicy) -> None:
    """Once a failed job, however often the sweeper comes by."""
    key = f"retraining-failed:{job.pk}"
    if not Notice.objects.filter(key=key).exists():
        what = "built no snapshot" if job.kind == KIND else "made no model"
        tell_admins(f"Retraining {policy.name} {what}: {job.error or job.state}", key)


def tell_admins(text: str, key: str) -> None:
    admins = User.objects.filter(Q(is_superuser=True) | Q(groups__name=ADMIN), is_active=True).distinct()
    tell(admins, "retraining", text, link=reverse("training:policies"), key=key)


# The retraining job: it freezes the snapshot a policy asked for, and makes the run that trains on it.
#
# Killed at any moment it is started again: the snapshot of the same content is found by its hash, the run by its key,
# and the row that says why is written in one transaction with the run.


def run_retraining(ctx: JobContext) -> dict[str, Any]:
    """The job's handler; params: those of a snapshot, and {policy, recipe, reasons}."""
    row = Retraining.objects.filter(reasons__job=ctx.job.pk).select_related("run").first()
    row = row or _retraining(ctx)
    return {"policy": row.policy_id, "retraining": row.pk, "run": row.run_id, "snapshot": row.run.snapshot_id}


def _retraining(ctx: JobContext) -> Retraining:
    # before samples are chosen: what is approved from here on counts as new
    decision = Decision.objects.aggregate(newest=Max("pk"))["newest"] or 0
    built = run_snapshot(ctx)
    snapshot = Snapshot.objects.get(pk=built["id"])
    actor = get_user_model().objects.filter(pk=ctx.params.get("actor") or 0).first()
    with ctx.guard():
        policy = RetrainPolicy.objects.select_for_update().get(pk=ctx.params["policy"])
        run = run_create(
            snapshot=snapshot,
            recipe=recipes.stored(ctx.params["recipe"]),
            why=Run.Why.POLICY,
            actor=actor,
        )
        row = Retraining.objects.create(
            policy=policy,
            run=run,
            actor=actor,
            reasons={**ctx.params["reasons"], "job": ctx.job.pk, "decision": decision},
        )
        detail = {"run": run.pk, "snapshot": snapshot.pk, "job": ctx.job.pk}
        audit_models.record(actor=actor, action="retraining.queued", obj=policy, detail=detail)
    return row
