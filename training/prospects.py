"""Reads behind the page of retraining: what a policy would freeze and train, and what policies started before."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from synthesis.models import Snapshot
from synthesis.services import snapshot_params
from synthesis.snapshot_files import catalog_now
from synthesis.snapshot_plans import one_moment, plan, told
from training.core import estimate as sums
from training.core import stages
from training.core.estimate import Lengths
from training.core.recipe import Recipe
from training.estimates import Estimator, Figure
from training.lengths import base_facts, lengths_of
from training.models import Retraining, RetrainPolicy, TrainedStage
from training.policy import policy_recipe
from training.selectors_retraining import last_of, new_samples
from training.services import plain_hash_of

SHOWN = 20
LABELS = {"stage1": "Stage 1", "plain": "Stage 2, plain", "stage2": "Stage 2"}
NEW = "not frozen yet"  # stands for the hash of a snapshot that is not there: no stage has been trained on it


def history(limit: int = 30) -> list[Retraining]:
    """What policies started, newest first; one query."""
    rows = Retraining.objects.select_related("policy", "run__job", "run__model", "actor")
    return list(rows.defer("run__log_tail", "run__model__card", "run__recipe")[:limit])


def would_train(policy: RetrainPolicy) -> dict[str, Any]:
    """{"preview", "stages", "seconds"}: counted live, nothing is written. Raises TraceError."""
    with one_moment():
        found = plan(snapshot_params(**policy.snapshot))
    counts, recipe = told(found), policy_recipe(policy)
    counts["refused"] = policy.snapshot.get("strict", False) and counts["contaminated"] > 0
    rows = stage_rows(recipe, [entry.id for entry in found.composition.chosen if entry.branch != "rule"])
    last, _ = last_of(policy)
    like = last.run.snapshot if last else Snapshot.objects.defer("manifest", "parts").first()
    return {"preview": counts, "stages": rows, "seconds": seconds_of(recipe, counts, rows, like)}


def seconds_of(
    recipe: Recipe, counts: dict[str, Any], rows: list[dict[str, Any]], like: Snapshot | None
) -> Figure:
    """How long the stages that are not reused would take, with rows as long as those of the snapshot `like`."""
    if like is None:
        return Figure(None, "nothing was frozen yet, so nobody knows how long its rows are")
    lengths = _lengths(like, counts)
    amounts = {one.stage: one for one in sums.amounts(recipe, lengths)}
    size = sums.size_of(recipe, lengths, base_facts(recipe.base))
    rate, basis = Estimator([recipe.base]).speed(recipe, lengths, size)
    if rate is None:
        return Figure(None, basis)
    todo = [amounts[row["stage"]] for row in rows if row["reused"] is None]
    return Figure(sum(sums.stage_seconds(one, rate) + sums.START for one in todo), basis)


def _lengths(like: Snapshot, counts: dict[str, Any]) -> Lengths:
    """The row lengths of a snapshot with other counts; a branch it lacks is taken to be as long as the rest."""
    known = lengths_of(like)
    samples = {branch: counts[branch] for branch in ("rrb", "rule", "imported") if counts.get(branch)}

    def filled(lengths: Mapping[str, float]) -> dict[str, float]:
        usual = sum(lengths.values()) / max(1, len(lengths))
        return {branch: lengths.get(branch, usual) for branch in samples}

    return replace(known, samples=samples, query=filled(known.query), trace=filled(known.trace))


def stage_rows(recipe: Recipe, plain: list[int]) -> list[dict[str, Any]]:
    """[{"stage", "label", "reused"}]; reused: the run whose stage is taken as it is; None: it is trained.

    plain: ids of the samples that are not of rules, in the order of the snapshot.
    """
    catalog = catalog_now()
    steps = stages.steps(recipe, NEW, catalog, plain_hash_of(catalog, plain))
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
