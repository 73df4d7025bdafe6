"""How long a grid would take: each stage that trains counted once."""

from collections.abc import Iterable

from synthesis.models import Snapshot
from trace_site.lib.errors import TraceError
from training.core.grid import Plan, Planned
from training.estimates import Estimator
from training.grids import recipe_of, snapshots_of


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
