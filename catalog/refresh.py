"""Look-alikes after a change of the catalog: neighbour lists and clusters, brought up to date as one job."""

from collections.abc import Callable
from typing import Any, NoReturn

from django.db import transaction
from django.db.models import Count, Q

from catalog.clusters import clusters_update
from catalog.models import NeighbourList, Tool
from catalog.neighbours import embedding_key, neighbours_update
from trace_site.jobs import Job, JobContext, JobPostponed, enqueue
from trace_site.lib.errors import TraceError

KIND = "catalog"
STEPS, TRIES = 2, 3


def tools_behind() -> int:
    """How many tools came, changed or went since look-alikes were found; counted from indexes, not from texts."""
    active = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by()
    embedded = active.exclude(embedding_key="").first()
    if embedded and embedded.embedding_key != embedding_key(embedded.name, embedded.description):
        return active.count()  # another encoder
    gone = NeighbourList.objects.filter(tool__status=Tool.Status.RETIRED).count()
    unlisted = active.count() - (NeighbourList.objects.count() - gone)
    return max(active.filter(embedding_key="").count(), unlisted) + gone


def half_embedded() -> bool:
    """Whether some active tools are embedded and others are not, or not as they are described now."""
    active = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by()
    states = active.aggregate(
        tools=Count("pk"),
        rows=Count("pk", filter=Q(embedding__isnull=False)),
        keys=Count("pk", filter=~Q(embedding_key="")),
    )
    return any(0 < states[name] < states["tools"] for name in ("rows", "keys"))


def refresh_job() -> Job | None:
    """The newest refresh that is worth showing: one that is under way, or the last when it did not end well."""
    last = Job.objects.filter(kind=KIND).order_by("-pk").first()
    return last if last and last.state != Job.State.DONE else None


@transaction.atomic
def catalog_refresh_start(*, actor: Any) -> Job:
    """Queue the refresh. One that still waits is joined; one that runs may have begun before the last change."""
    waiting = Job.objects.select_for_update().filter(kind=KIND, state=Job.State.QUEUED).first()
    return waiting or enqueue(KIND, {}, title="Find look-alikes: neighbours and clusters", created_by=actor)


def await_look_alikes(ctx: JobContext) -> NoReturn:
    """For a job that cannot go on without the look-alikes of new tools: they are found first.

    Raises JobPostponed, or TraceError "no_neighbours" when the job that this one waited for could not find them.
    """
    waited = Job.objects.filter(pk=ctx.waited_for or 0, kind=KIND).first()
    if waited is not None and not waited.is_active and waited.state != Job.State.DONE:
        raise TraceError(
            f"the look-alikes of new tools were not found: {waited.error or waited.state}",
            code="no_neighbours",
            where=f"job {waited.pk}",
            hint="Mend what it says, then resume: they are looked for again.",
        )
    under_way = Job.objects.filter(kind=KIND, state__in=[Job.State.QUEUED, Job.State.RUNNING]).first()
    with ctx.guard():
        found = under_way or catalog_refresh_start(actor=ctx.job.created_by)
    raise JobPostponed(
        f"waits for the look-alikes of {tools_behind():,} tools, which job {found.pk} finds", found
    )


def catalog_refresh(ctx: JobContext) -> dict[str, Any]:
    """The job's handler body. What it writes follows from the catalog alone, so doing it twice changes nothing."""
    for tried in range(1, TRIES + 1):
        try:
            neighbours, domains = _found(ctx)
            break
        except TraceError as error:  # no_neighbours: tools were imported between the two steps
            if error.code != "no_neighbours" or tried == TRIES:
                raise
    ctx.progress(STEPS, STEPS, "")
    return {
        "tools": neighbours["tools"],
        "encoded": neighbours["encoded"],
        "lists_changed": neighbours["changed"],
        "clusters": {slug: found["clusters"] for slug, found in domains.items()},
        "new_versions": sum(found["new"] for found in domains.values()),
    }


def _found(ctx: JobContext) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    actor = ctx.job.created_by
    ctx.progress(0, STEPS, "reading the catalog")
    neighbours = neighbours_update(echo=_echo(ctx, 0), actor=actor)
    ctx.progress(1, STEPS, "finding clusters")
    return neighbours, clusters_update(echo=_echo(ctx, 1), actor=actor)


def _echo(ctx: JobContext, step: int) -> Callable[[str], None]:
    return lambda line: ctx.progress(step, STEPS, line)
