"""Keeps embeddings and neighbour lists in step with the active tools; only what changed is encoded and written."""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Q

from catalog.core.clusters import Rows, top_k
from catalog.core.tool import embedding_text
from catalog.lookalikes.clusters import clusters_update
from catalog.models import Domain, NeighbourList, Tool
from catalog.tokens import catalog_lock
from trace_site.audit import models as audit_models
from trace_site.jobs import Job, JobContext, JobPostponed, enqueue
from trace_site.lib.child import run_child
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, write_jsonl

K = 13
ECHO_SECONDS = 4.0
Echo = Callable[[str], None]


def neighbours_update(*, k: int = K, echo: Echo = lambda line: None, actor: Any = None) -> dict[str, Any]:
    """Encode new and changed texts in a child process, then rewrite the lists that differ.

    Returns {"tools", "encoded", "changed", "removed", "k", "encoder", "seconds"}; changed counts lists.
    """
    if k < 1:
        raise TraceError("k must be 1 or more.", code="bad_k")
    started = time.monotonic()
    encoded = embeddings_update(echo=echo)
    names, ids, rows = _rows()
    echo(f"{len(names):,} tools: exact top {k} by cosine")
    tick = Ticker(echo, "neighbours")
    positions, cosines = top_k(rows, k, lambda done: tick(done, len(names)))
    fresh = {
        ids[place]: ([ids[other] for other in positions[place]], cosines[place].tolist())
        for place in range(len(names))
    }
    result = {
        "tools": len(names),
        "encoded": encoded,
        **_store_lists(fresh),
        "k": k,
        "encoder": settings.ENCODER,
    }
    if encoded or result["changed"] or result["removed"]:
        domains = Domain.objects.filter(tools__status=Tool.Status.ACTIVE).distinct()
        audit_models.record_all(
            actor=actor, action="catalog.neighbours_updated", objects=[(domain, result) for domain in domains]
        )
    return {**result, "seconds": round(time.monotonic() - started, 1)}


class Ticker:
    """Says how far a loop is, at most every four seconds."""

    def __init__(self, echo: Echo, what: str) -> None:
        self.echo, self.what, self.at = echo, what, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self.at >= ECHO_SECONDS:
            self.at = time.monotonic()
            self.echo(f"{self.what}: {done:,}/{total:,}")


def embedding_key(name: str, description: str) -> str:
    """Changes when the encoder or the text does."""
    return content_hash([settings.ENCODER, embedding_text(name, description)])


def embeddings_update(*, echo: Echo = lambda line: None) -> int:
    """Encode the active tools whose text or encoder changed; returns how many."""
    active = Tool.objects.filter(status=Tool.Status.ACTIVE).values_list(
        "pk", "name", "description", "embedding_key"
    )
    stale: dict[str, list[int]] = {}
    texts: list[dict[str, str]] = []
    for pk, name, description, key in active.order_by("name"):
        if (wanted := embedding_key(name, description)) != key:
            if wanted not in stale:
                texts.append({"id": wanted, "text": embedding_text(name, description)})
            stale.setdefault(wanted, []).append(pk)
    if texts:
        echo(f"encoding {len(texts):,} texts with {settings.ENCODER}")
        keys, rows = encode_texts(texts, echo=echo)
        _store_embeddings([(pk, key, row) for key, row in zip(keys, rows, strict=True) for pk in stale[key]])
    return sum(map(len, stale.values()))


def encode_texts(texts: list[dict[str, str]], *, echo: Echo = lambda line: None) -> tuple[list[str], Rows]:
    """Normalised embeddings of {"id", "text"} rows, made by `python -m catalog.ml encode` in a child process."""
    tick = Ticker(echo, "encoding")
    with tempfile.TemporaryDirectory(prefix="trace-encode-") as name:
        folder = Path(name)
        write_jsonl(folder / "texts.jsonl", texts)
        options = {"--in": folder / "texts.jsonl", "--out": folder, "--encoder": settings.ENCODER}
        options["--threads"] = settings.ML_THREADS
        run_child(
            "catalog.ml",
            ["encode", *(str(part) for option in options.items() for part in option)],
            cwd=settings.BASE_DIR,
            log=folder / "log.txt",
            on_event=lambda event: (
                tick(event["done"], event["total"]) if event["event"] == "progress" else None
            ),
            tick=lambda: None,
        )
        keys: list[str] = json.loads((folder / "ids.json").read_text())
        return keys, np.load(folder / "embeddings.npy")


@transaction.atomic
def _store_embeddings(rows: list[tuple[int, str, Any]]) -> None:
    """One COPY and one UPDATE: thousands of vectors within seconds."""
    catalog_lock()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE fresh (id bigint, key varchar(64), embedding vector)")
        with cursor.copy("COPY fresh FROM STDIN") as copy:
            for pk, key, row in rows:
                copy.write_row((pk, key, str(row.astype(float).round(7).tolist())))
        cursor.execute(
            "UPDATE catalog_tool AS tool SET embedding = fresh.embedding, embedding_key = fresh.key "
            "FROM fresh WHERE tool.id = fresh.id; DROP TABLE fresh"
        )


def _rows() -> tuple[list[str], list[int], Rows]:
    """Active tools by name, with their embeddings as one matrix."""
    found = list(
        Tool.objects.filter(status=Tool.Status.ACTIVE, embedding__isnull=False)
        .order_by("pk")
        .values_list("name", "pk", "embedding")
    )
    found.sort()  # by code point, not by the database's collation
    if not found:
        raise TraceError("there are no tools.", code="empty", hint="Import a catalog first.")
    rows = np.array([np.asarray(_floats(row[2])) for row in found], dtype=np.float32)
    return [row[0] for row in found], [row[1] for row in found], rows


def _floats(value: Any) -> Any:
    return value.to_numpy() if hasattr(value, "to_numpy") else value


@transaction.atomic
def _store_lists(fresh: dict[int, tuple[list[int], list[float]]]) -> dict[str, int]:
    stored = {
        pk: (ids, scores)
        for pk, ids, scores in NeighbourList.objects.values_list("pk", "neighbour_ids", "scores")
    }
    changed = [
        NeighbourList(tool_id=pk, neighbour_ids=ids, scores=scores)
        for pk, (ids, scores) in fresh.items()
        if stored.get(pk) != (ids, scores)
    ]
    NeighbourList.objects.bulk_create(
        changed,
        batch_size=2000,
        update_conflicts=True,
        unique_fields=["tool"],
        update_fields=["neighbour_ids", "scores"],
    )
    removed, _ = NeighbourList.objects.filter(pk__in=stored.keys() - fresh.keys()).delete()
    return {"changed": len(changed), "removed": removed}


# Look-alikes after a change of the catalog: neighbour lists and clusters, brought up to date as one job.


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
