"""How many samples each run of a list has, counted again only when a sample changed: one pass over an index."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Count, Max, Q, Sum

from synthesis.models import Sample, SampleCount, SynthesisRun
from synthesis.selectors import APPROVED, READY
from synthesis.selectors_counts import TOGETHER

COUNTS = {
    "planned": Count("pk"),
    "ready": Count("pk", filter=READY),
    "dropped": Count("pk", filter=Q(machine=Sample.Machine.DROPPED)),
    "approved": Count("pk", filter=APPROVED),
}
_known: tuple[Any, dict[int, dict[str, int]]] = (None, {})


def tell_counts(runs: Sequence[SynthesisRun]) -> None:
    """Put `planned`, `ready`, `dropped` and `approved` on the rows. Two queries, one while no sample changes."""
    global _known
    moved = moved_at()  # before counting: what is counted may be newer, never older
    counts = dict(_known[1]) if _known[0] == moved else {}
    if missing := [run.pk for run in runs if run.pk not in counts]:
        rows = Sample.objects.filter(run__in=missing).order_by().values_list("run").annotate(**COUNTS)
        found = {pk: numbers for pk, *numbers in rows}
        none = [0] * len(COUNTS)
        counts |= {pk: dict(zip(COUNTS, found.get(pk, none), strict=True)) for pk in missing}
        _known = (moved, counts)
    for run in runs:
        for name, count in counts[run.pk].items():
            setattr(run, name, count)


def moved_at() -> tuple[int, ...]:
    """Another value after every change of what samples are counted by: the rollup only grows between folds, and each
    fold makes newer rows.
    """
    rows = SampleCount.objects.filter(level__in=TOGETHER)
    return tuple(rows.aggregate(n=Count("pk"), sum=Sum("pk"), last=Max("pk")).values())
