"""Rules against no rules: which model differs from another in the rule samples alone.

In: a model that learned from rule samples. Out: its control, the newest model with the same base, format, Stage 1, seed
and recipe, trained on the same samples without those of rules: on the same snapshot, or on one that holds the same
other samples of the same catalog. Where there is none, the nearest model and what it differs in, for people to read; it
is never compared in its place.
"""

from dataclasses import dataclass
from typing import Any

from training.core.recipe import CELL
from training.core.stages import SPEED_ONLY
from training.models import Model, Run
from training.runs.services import plain_hash

LEARNED = {Run.Retrieval.RULES: Run.Retrieval.REASONED}  # a retrieval with rule samples: the same without
WITHOUT_BULK = ("card", "lineage", "run__log_tail", "run__summary", "run__snapshot__manifest")


@dataclass(frozen=True, slots=True)
class Control:
    """`near`, `differs`: only where there is no `model`."""

    model: Model | None = None
    near: Model | None = None
    differs: str = ""


def control_of(model: Model) -> Control:
    """One query, and one a snapshot that this process has not read yet."""
    run = model.run
    if run.retrieval not in LEARNED:
        return Control()
    rows = Model.objects.filter(run__base=run.base, run__retrieval=LEARNED[Run.Retrieval(run.retrieval)])
    found = rows.select_related("run__snapshot").defer(*WITHOUT_BULK).order_by("-pk")
    differing = [(differences(run, other.run), other) for other in found]
    for differs, other in differing:
        if not differs:
            return Control(other)
    if not differing:
        return Control()
    differs, near = min(differing, key=lambda one: len(one[0]))  # of equal ones the newest
    return Control(None, near, ", ".join(differs))


def differences(run: Run, other: Run) -> list[str]:
    """What two runs differ in beside their retrieval and what only changes how fast they train."""
    found = []
    for name, words in (("base", "base"), ("format", "token format"), ("seed", "seed")):
        if getattr(run, name) != getattr(other, name):
            found.append(f"another {words}")
    if (run.memo, stage1(run)) != (other.memo, stage1(other)):
        found.append("another Stage 1")
    if run.snapshot_id != other.snapshot_id:
        data = plain_hash(run.snapshot)
        if not data or data != plain_hash(other.snapshot):
            found.append(f"other samples (snapshot {other.snapshot_id})")
    ours, theirs = recipe(run), recipe(other)
    if fields := sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)):
        found.append(f"another recipe ({', '.join(fields)})")
    return found


def stage1(run: Run) -> str:
    """The key of its Stage 1; empty without one."""
    return next((str(row["key"]) for row in run.stages if row["stage"] == "stage1"), "")


def recipe(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.recipe.items() if name not in (*CELL, *SPEED_ONLY)}
