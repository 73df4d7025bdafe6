"""Starting a training run."""

from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction

from synthesis.models import Snapshot, SnapshotSample
from trace_site import jobs
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_text
from trace_site.lib.small_yaml import read_small_yaml
from training.core import stages
from training.core.recipe import CELL, POCKET, Recipe
from training.core.stages import Step
from training.models import Model, Run


def configured_bases() -> list[str]:
    """What forms and the API offer, the one they begin with first. Commands take any name or path."""
    return list(dict.fromkeys([settings.BASE_MODEL, POCKET, *settings.BASE_MODELS]))


def require_configured(base: str) -> None:
    """Of forms and the API; names the bases that are."""
    if base not in (known := configured_bases()):
        raise ValidationError(
            f"'{base}' is not configured here; the bases are {', '.join(known)}. "
            "Name it in BASE_MODELS, or start it with a command."
        )


def mapping_from_file(path: Path) -> dict[str, Any]:
    """A YAML or JSON file that holds a mapping. Raises TraceError."""
    data = read_small_yaml(read_text(path), str(path))
    if not isinstance(data, dict):
        raise TraceError("must hold a mapping of fields to values.", code="bad_recipe", where=str(path))
    return data


def run_key(snapshot_hash: str, recipe: Recipe) -> str:
    """Two runs with this key in common would make the same model."""
    recipe = stages.normal(recipe)
    parts = {name: value for name, value in asdict(recipe).items() if name not in stages.SPEED_ONLY}
    return content_hash({"snapshot": snapshot_hash, "recipe": parts})


def run_steps(recipe: Recipe, snapshot: Snapshot) -> list[Step]:
    """The stages that this recipe needs on this snapshot, with their keys; the one place that knows both."""
    return stages.steps(recipe, snapshot.hash, snapshot.catalog_hash, plain_hash(snapshot))


def plain_hash(snapshot: Snapshot) -> str:
    """Of what passes without rule samples read: the catalog and the other samples, which are frozen with their
    snapshot. Empty when there are none."""
    return _plain_hash(snapshot.pk, snapshot.hash, snapshot.catalog_hash)


def plain_hash_of(catalog_hash: str, samples: list[int]) -> str:
    """The same of a snapshot that is not frozen yet; samples: ids in their order, without those of rules."""
    return content_hash({"catalog": catalog_hash, "samples": samples}) if samples else ""


@lru_cache(maxsize=256)  # a snapshot never changes
def _plain_hash(pk: int, snapshot_hash: str, catalog_hash: str) -> str:
    members = SnapshotSample.objects.filter(snapshot=pk).exclude(sample__branch="rule")
    return plain_hash_of(catalog_hash, list(members.order_by("position").values_list("sample_id", flat=True)))


def run_values(recipe: Recipe, snapshot: Snapshot) -> dict[str, Any]:
    """The columns of a run that trains the recipe's cell on the snapshot."""
    return {
        "snapshot": snapshot,
        **{name: getattr(recipe, name) for name in CELL},
        "recipe": asdict(recipe),
        "stages": [asdict(step) for step in run_steps(recipe, snapshot)],
    }


@transaction.atomic
def run_create(
    *,
    snapshot: Snapshot,
    recipe: Recipe,
    why: str = Run.Why.MANUAL,
    cloned_from: Run | None = None,
    actor: Any = None,
) -> Run:
    """Queue the training of the recipe's cell. An equal run made before is returned; it is queued again when it did not
    end well or its model's files were removed."""
    chosen = stages.normal(replace(recipe, threads=settings.ML_THREADS))
    key = run_key(snapshot.hash, chosen)
    origin = {"why": why, "cloned_from": cloned_from, "created_by": actor}
    run, created = Run.objects.get_or_create(key=key, defaults=run_values(chosen, snapshot) | origin)
    if created:
        _enqueue(run, actor, f"training:{key}")
        detail = {"cell": run.cell, "base": run.base, "why": why}
        audit_models.record(actor=actor, action="run.created", obj=run, detail=detail)
    else:
        _again(run, chosen, actor)
    return run


def _enqueue(run: Run, actor: Any, key: str) -> None:
    run.job = jobs.enqueue(
        "training",
        {"run": run.pk},
        title=f"train {run.cell} on snapshot {run.snapshot_id}",
        created_by=actor,
        idempotency_key=key,
    )
    run.save(update_fields=["job"])


def _again(run: Run, chosen: Recipe, actor: Any) -> None:
    """Go on with a run that has no model to show; what only changes its speed may differ from last time."""
    model = Model.objects.filter(run=run).first()
    if model is not None and model.removed_at is not None:
        _enqueue(run, actor, f"training:{run.key}:{model.removed_at:%Y%m%d%H%M%S}"[:100])
        audit_models.record(actor=actor, action="run.repeated", obj=run, detail={"model": model.pk})
    elif model is None and run.job is not None and jobs.retry(run.job, actor=actor):
        Run.objects.filter(pk=run.pk).update(recipe=asdict(chosen))


def run_cancel(*, run: Run, actor: Any) -> None:
    """Stop at the next step; the last checkpoint is kept. Raises TraceError `job_state`."""
    if run.job is None or not jobs.cancel(run.job, actor=actor):
        raise TraceError("the run has already ended.", code="job_state", where=str(run))


def run_resume(*, run: Run, actor: Any) -> None:
    """Queue it again; it goes on from its last checkpoint. Raises TraceError `job_state`."""
    if run.job is None or not jobs.retry(run.job, actor=actor):
        problem = "only a run that failed or was cancelled can be resumed."
        raise TraceError(problem, code="job_state", where=str(run))
