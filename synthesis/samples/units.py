"""The units of a run: joined, shared, taken over, given up, and counted.

planned = ready + dropped + given up with a reason, once a run is done; what is missing is told, never passed over.
A unit is a sample. The run that writes it is `Sample.run`; runs that planned the same sample count it through
RunUnit.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery

from synthesis.models import Attempt, RunUnit, Sample, SynthesisRun
from trace_site.database import hold_lock
from trace_site.jobs import Job, JobContext


@dataclass(frozen=True, slots=True)
class Equation:
    """`ready` and `dropped` have been tried; `given_up`: {why: how many}."""

    planned: int
    ready: int
    dropped: int
    given_up: dict[str, int]

    @property
    def missing(self) -> int:
        return self.planned - self.ready - self.dropped - sum(self.given_up.values())


def equation(run: SynthesisRun) -> Equation:
    """From rows as they stand, whoever wrote them."""
    attempts = Attempt.objects.filter(of_run(run.pk, "sample__"))
    tried = attempts.values("sample").distinct().count()
    ready = attempts.filter(outcome="ready").count()
    planned = SynthesisRun.objects.values_list("units", flat=True).get(pk=run.pk)
    return Equation(planned or 0, ready, tried - ready, reasons(run))


def reasons(run: SynthesisRun) -> dict[str, int]:
    """{why: how many of its units the run has given up for it}"""
    rows = RunUnit.objects.filter(run=run).exclude(why="").values_list("why")
    return dict(rows.annotate(Count("pk")).order_by("why"))


def of_run(run: int, prefix: str = "", shares: bool | None = None) -> Q:
    """The run's samples: those it writes, and the others, which it shares with the run that does.

    `shares`: whether there are others, where it is known already.
    """
    others = shared_samples(run)
    if not (others.exists() if shares is None else shares):
        return Q(**{f"{prefix}run": run})
    # two sets that each have an index; an OR over both would read every sample
    own = Sample.objects.filter(run=run).order_by().values_list("pk")
    return Q(**{f"{prefix or 'pk__'}in": own.union(others, all=True)})


def shared_samples(run: int) -> QuerySet[RunUnit, Any]:
    """Samples that the run planned and does not write. An imported query counts once it was tried."""
    planned = Q(sample__machine=Sample.Machine.PENDING) | Q(sample__attempts__number=1)
    return shared(run).filter(planned, sample__isnull=False).values_list("sample")


def shared(run: int) -> QuerySet[RunUnit]:
    """Units whose sample another run writes, or nobody any more."""
    return RunUnit.objects.filter(run=run, why="").exclude(sample__run=F("run"))


def count(run: SynthesisRun) -> int:
    others = RunUnit.objects.filter(run=run).exclude(sample__run=F("run"))
    return Sample.objects.filter(run=run).count() + others.count()


def writing_elsewhere(run: SynthesisRun) -> tuple[SynthesisRun, int] | None:
    """A run under way that writes units of this one, and how many."""
    rows = shared(run.pk).filter(
        sample__machine=Sample.Machine.PENDING, sample__run__job__state=Job.State.RUNNING
    )
    found = rows.values_list("sample__run").annotate(count=Count("pk")).order_by("sample__run").first()
    return (SynthesisRun.objects.select_related("job").get(pk=found[0]), found[1]) if found else None


LOCK = 7_210_404  # of pg_advisory_xact_lock: one run at a time plans, or takes over what another one planned
BATCH = 2000


@contextmanager
def alone(ctx: JobContext) -> Iterator[None]:
    """The job's guard, while no other run plans. Waiting comes first: it must not hold the job's row."""
    with transaction.atomic():
        hold_lock(LOCK)
        with ctx.guard():
            yield


def join(run: SynthesisRun, samples: QuerySet[Sample]) -> None:
    """Count these as units of the run, whoever writes them."""
    others = samples.exclude(run=run).values_list("pk", flat=True)
    join_all((run.pk, pk) for pk in others.iterator(chunk_size=BATCH))


def join_all(units: Iterable[tuple[int, int]]) -> None:
    """(run, sample) of each."""
    rows = (RunUnit(run_id=run, sample_id=sample) for run, sample in units)
    while some := list(islice(rows, BATCH)):  # as many as there are queries: more than fit in memory
        RunUnit.objects.bulk_create(some, ignore_conflicts=True)


def take_over(run: SynthesisRun) -> None:
    """Write what the run shares and nobody is writing, inside `alone`. Whose plan it was shares it then."""
    waiting = shared(run.pk).filter(sample__machine=Sample.Machine.PENDING)
    idle = waiting.exclude(sample__run__job__state=Job.State.RUNNING)
    left = list(idle.values_list("sample__run", "sample"))
    join_all(left)
    Sample.objects.filter(pk__in=[sample for _, sample in left]).update(run=run)


def give_up(run: SynthesisRun, samples: Collection[int], why: str) -> None:
    """The run will not write these any more. What another run has planned too becomes that run's."""
    RunUnit.objects.filter(run=run, sample__in=samples).delete()
    note(run, len(samples), why)
    rows = Sample.objects.filter(pk__in=samples, run=run, machine=Sample.Machine.PENDING)
    heirs = RunUnit.objects.filter(sample=OuterRef("pk"), why="").order_by("-run_id")
    rows.filter(Exists(heirs)).update(run=Subquery(heirs.values("run")[:1]))
    rows.delete()


def note(run: SynthesisRun, number: int, why: str) -> None:
    """Units that came to nothing, with the reason."""
    RunUnit.objects.bulk_create((RunUnit(run=run, why=why[:300]) for _ in range(number)), batch_size=BATCH)
