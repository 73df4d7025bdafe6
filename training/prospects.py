"""Reads behind the page of retraining: what a policy would freeze and train, and what policies started before."""

from typing import Any

from synthesis.snapshot_files import catalog_now
from synthesis.snapshot_plans import preview
from training.core import stages
from training.core.recipe import Recipe
from training.models import Retraining, RetrainPolicy, TrainedStage
from training.policy import policy_recipe
from training.selectors_retraining import last_of, new_samples

SHOWN = 20
LABELS = {"stage1": "Stage 1", "plain": "Stage 2, plain", "stage2": "Stage 2"}
NEW = "not frozen yet"  # stands for the hash of a snapshot that is not there: no stage has been trained on it


def history(limit: int = 30) -> list[Retraining]:
    """What policies started, newest first; one query."""
    rows = Retraining.objects.select_related("policy", "run__job", "run__model", "actor")
    return list(rows.defer("run__log_tail", "run__model__card", "run__recipe")[:limit])


def would_train(policy: RetrainPolicy) -> dict[str, Any]:
    """{"preview", "stages", "error"?}: counted live, nothing is written. Raises TraceError."""
    options = {name: value for name, value in policy.snapshot.items() if name != "licence"}
    return {"preview": preview(**options), "stages": stage_rows(policy_recipe(policy))}


def stage_rows(recipe: Recipe) -> list[dict[str, Any]]:
    """[{"label", "reused"}]: the run whose stage is taken as it is; None: it is trained."""
    steps = stages.steps(recipe, NEW, catalog_now(), NEW)
    known = TrainedStage.objects.filter(key__in=[step.key for step in steps], removed_at=None)
    runs = dict(known.values_list("key", "run"))
    return [
        {"stage": step.stage, "label": LABELS[step.stage], "reused": runs.get(step.key)} for step in steps
    ]


def newest_samples(policy: RetrainPolicy) -> dict[str, Any]:
    """{"samples", "total"}: those that count as newly approved."""
    last, _ = last_of(policy)
    found = new_samples(policy, last)
    rows = found.select_related("rule_version__rule").only(
        "query", "branch", "domain", "approved_by", "rule_version__number", "rule_version__rule__code"
    )
    return {"samples": list(rows.order_by("-pk")[:SHOWN]), "total": found.count()}
