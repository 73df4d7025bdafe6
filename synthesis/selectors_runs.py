"""How many samples each run of a list has, counted again only when a sample changed: one pass over an index.

Those that a run planned and another run wrote are its own too.
"""

from collections.abc import Sequence
from typing import Any

from django.db.models import Count, F, Max, Q, Sum

from synthesis.models import RunUnit, Sample, SampleCount, SynthesisRun
from synthesis.selectors import APPROVED, DROPPED, READY
from synthesis.selectors_counts import TOGETHER

COUNTS = {
    "planned": Count("pk"),
    "ready": Count("pk", filter=READY),
    "dropped": Count("pk", filter=DROPPED),
    "approved": Count("pk", filter=APPROVED),
}
SHARED = {
    "planned": Count("pk"),
    "ready": Count("pk", filter=Q(sample__machine=Sample.Machine.READY)),
    "dropped": Count("pk", filter=Q(sample__machine=Sample.Machine.DROPPED)),
    "approved": Count("pk", filter=Q(sample__human=Sample.Human.APPROVED)),
}
_known: tuple[Any, dict[int, dict[str, int]]] = (None, {})


def tell_counts(runs: Sequence[SynthesisRun]) -> None:
    """Put `planned`, `ready`, `dropped` and `approved` on the rows. Three queries, one while no sample changes."""
    global _known
    moved = moved_at()  # before counting: what is counted may be newer, never older
    counts = dict(_known[1]) if _known[0] == moved else {}
    if missing := [run.pk for run in runs if run.pk not in counts]:
        own = Sample.objects.filter(run__in=missing).order_by().values("run").annotate(**COUNTS)
        units = RunUnit.objects.filter(run__in=missing, why="", sample__attempts__number=1)
        shared = units.exclude(sample__run=F("run")).order_by().values("run").annotate(**SHARED)
        counts |= {pk: dict.fromkeys(COUNTS, 0) for pk in missing}
        rows: list[Any] = [*own, *shared]
        for row in rows:
            for name in COUNTS:
                counts[row["run"]][name] += row[name]
        _known = (moved, counts)
    for run in runs:
        for name, count in counts[run.pk].items():
            setattr(run, name, count)
        if run.units is not None:
            run.planned = run.units  # type: ignore[attr-defined]


def moved_at() -> tuple[int, ...]:
    """Another value after every change of what samples are counted by: the rollup only grows between folds, and each
    fold makes newer rows.
    """
    rows = SampleCount.objects.filter(level__in=TOGETHER)
    return tuple(rows.aggregate(n=Count("pk"), sum=Sum("pk"), last=Max("pk")).values())
