"""What a model was made from, told once when it is published and kept beside it."""

import os
from pathlib import Path
from typing import Any

from django.conf import settings

from trace_site.lib.files import content_hash, sha256_file
from trace_site.lib.revision import code_revision
from training.core import recipe as recipes
from training.core.recipe import POCKET
from training.core.stages import Step
from training.models import Run, TrainedStage


def provenance(run: Run, plan: list[Step]) -> dict[str, Any]:
    """Snapshot, rules, base, recipe, the stages with who trained each, code and hardware."""
    recipe = recipes.stored(run.recipe)
    trainers = dict(
        TrainedStage.objects.filter(key__in=[step.key for step in plan]).values_list("key", "run_id")
    )
    return {
        "snapshot": {
            "id": run.snapshot_id,
            "hash": run.snapshot.hash,
            "catalog_hash": run.snapshot.catalog_hash,
        },
        "rules": rules_of(run.snapshot.manifest),
        "base": base_identity(run.base),
        "recipe_hash": recipe.hash(),
        "cell": run.cell,
        "seed": run.seed,
        "stages": [
            {"stage": step.stage, "key": step.key, "run": trainers.get(step.key, run.pk)} for step in plan
        ],
        "code": code_revision(settings.BASE_DIR),
        "hardware": run.hardware,
    }


def rules_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """{"count", "hash"} of the rule versions that the snapshot froze."""
    rules = manifest.get("rules", [])
    return {"count": len(rules), "hash": content_hash(rules) if rules else ""}


def base_identity(base: str) -> dict[str, str]:
    """{"name"}, and what pins it: the digest of a local folder, or the revision a downloaded model came in."""
    if base == POCKET:
        return {"name": base}
    folder = Path(base)
    if folder.is_dir():
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {
            "name": base,
            "digest": content_hash([[str(path.relative_to(folder)), sha256_file(path)] for path in files]),
        }
    return {"name": base, **({"revision": found} if (found := downloaded_revision(base)) else {})}


def downloaded_revision(name: str) -> str:
    """The commit of a model in the hub's cache on this machine; empty when it is not there."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    pointer = cache / f"models--{name.replace('/', '--')}" / "refs" / "main"
    return pointer.read_text().strip() if pointer.is_file() else ""
