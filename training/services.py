"""Starting a training run."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from synthesis.models import Snapshot
from trace_site import audit, jobs
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_text
from training.core import recipe as recipes
from training.core import stages
from training.core.recipe import POCKET, Recipe
from training.models import Model, Run

RECIPES = Path(__file__).parent / "recipes"


def default_recipe(base: str) -> Recipe:
    """The recipe a base is trained with unless another is given."""
    return recipes.load(RECIPES / ("pocket.yaml" if base == POCKET else "paper.yaml"))


def recipe_from_text(text: str, where: str = "recipe") -> Recipe:
    """A recipe typed or pasted by a person (YAML)."""
    import yaml

    try:
        return recipes.from_dict(yaml.safe_load(text) or {})
    except yaml.YAMLError as error:
        raise TraceError("not valid YAML.", code="bad_recipe", where=where, hint=str(error)) from error


def recipe_from_file(path: Path) -> Recipe:
    return recipe_from_text(read_text(path), str(path))


def run_key(snapshot_hash: str, recipe: Recipe) -> str:
    """Two runs with this key in common would make the same model."""
    parts = {name: value for name, value in asdict(recipe).items() if name not in stages.SPEED_ONLY}
    return content_hash({"snapshot": snapshot_hash, "recipe": parts})


@transaction.atomic
def run_create(
    *,
    snapshot: Snapshot,
    base: str,
    format: str,
    memo: str,
    retrieval: str,
    recipe: Recipe | None = None,
    seed: int = 0,
    actor: Any = None,
) -> Run:
    """Queue the training of one cell. An equal run made before is returned, its job retried if it did not end well."""
    chosen = (recipe or default_recipe(base)).with_cell(
        base=base, format=format, memo=memo, retrieval=retrieval, seed=seed, threads=settings.ML_THREADS
    )
    key = run_key(snapshot.hash, chosen)
    run, created = Run.objects.get_or_create(
        key=key,
        defaults={
            "snapshot": snapshot,
            "base": base,
            "format": format,
            "memo": memo,
            "retrieval": retrieval,
            "recipe": asdict(chosen),
            "seed": seed,
            "stages": stages.rows(stages.steps(chosen, snapshot.hash, snapshot.catalog_hash)),
            "created_by": actor,
        },
    )
    if created:
        run.job = jobs.enqueue(
            "training",
            {"run": run.pk},
            title=f"train {run.cell} on snapshot {snapshot.pk}",
            created_by=actor,
            idempotency_key=f"training:{key}",
        )
        run.save(update_fields=["job"])
        audit.record(actor=actor, action="run.created", obj=run, detail={"cell": run.cell, "base": base})
    elif run.job is not None and not Model.objects.filter(run=run).exists():
        jobs.retry(run.job, actor=actor)
    return run


def run_recipe(run: Run) -> Recipe:
    return recipes.from_dict(run.recipe)
