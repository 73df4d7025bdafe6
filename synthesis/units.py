"""What runs do to their units (selectors_units): join, share, take over, give up."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet, Subquery

from synthesis.models import RunUnit, Sample, SynthesisRun
from synthesis.selectors_units import shared
from trace_site.jobs import Job, JobContext

LOCK = 7_210_404  # of pg_advisory_xact_lock: one run at a time plans, or takes over what another one planned
BATCH = 2000


@contextmanager
def alone(ctx: JobContext) -> Iterator[None]:
    """The job's guard, while no other run plans. Waiting comes first: it must not hold the job's row."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
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
