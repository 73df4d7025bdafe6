"""Look-alikes: embeddings and neighbour lists in step with the active tools, and clusterings found from them.

Only what changed is encoded and written. Clusterings are frozen versions, whose clusters people may dismiss.
"""

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
from django.utils import timezone

from catalog.core.clusters import (
    ALGORITHM,
    MAX_SIZE,
    SPLIT_OVER,
    Rows,
    choose_tau,
    cluster_label,
    find_clusters,
    mutual_edges,
    top_k,
)
from catalog.core.tool import embedding_text
from catalog.models import Cluster, Clustering, Domain, NeighbourList, Tool
from catalog.services import catalog_lock, write_or_update
from trace_site.audit import models as audit_models
from trace_site.jobs import Job, JobContext, JobPostponed, enqueue
from trace_site.lib.child import run_child
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, write_jsonl

K = 13
ECHO_SECONDS = 4.0
MIN_REASON = 5
KIND = "catalog"  # of the job that refreshes both
STEPS, TRIES = 2, 3
Echo = Callable[[str], None]


def silent(line: str) -> None:
    """An Echo that nobody hears."""


def neighbours_update(*, k: int = K, echo: Echo = silent, actor: Any = None) -> dict[str, Any]:
    """Encode new and changed texts in a child process, then rewrite the lists that differ. Returns {"tools", "encoded",
    "changed", "removed", "k", "encoder", "seconds"}; changed counts lists.
    """
    if k < 1:
        raise TraceError("k must be 1 or more.", code="bad_k")
    started = time.monotonic()
    encoded = _embeddings_update(echo)
    # sorted by code point, not by the database's collation
    active = Tool.objects.filter(status=Tool.Status.ACTIVE, embedding__isnull=False)
    tools = sorted(active.order_by("pk").values_list("name", "pk", "embedding"), key=lambda row: row[0])
    if not tools:
        raise TraceError("there are no tools.", code="empty", hint="Import a catalog first.")
    vectors: list[Any] = [vector for _, _, vector in tools]
    rows = np.array(
        [one.to_numpy() if hasattr(one, "to_numpy") else one for one in vectors], dtype=np.float32
    )
    echo(f"{len(tools):,} tools: exact top {k} by cosine")
    tick = Ticker(echo, "neighbours")
    positions, cosines = top_k(rows, k, lambda done: tick(done, len(tools)))
    fresh = {
        pk: ([tools[other][1] for other in positions[place]], cosines[place].tolist())
        for place, (_, pk, _) in enumerate(tools)
    }
    counts = {"tools": len(tools), "encoded": encoded, **_store_lists(fresh), "k": k}
    result = {**counts, "encoder": settings.ENCODER}
    if encoded or counts["changed"] or counts["removed"]:
        domains = Domain.objects.filter(tools__status=Tool.Status.ACTIVE).distinct()
        told = [(domain, result) for domain in domains]
        audit_models.record_all(actor=actor, action="catalog.neighbours_updated", objects=told)
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


def _embeddings_update(echo: Echo) -> int:
    """Encode the active tools whose text or encoder changed; returns how many."""
    active = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by("name")
    stale: dict[str, list[int]] = {}
    texts: list[dict[str, str]] = []
    for pk, name, description, key in active.values_list("pk", "name", "description", "embedding_key"):
        if (wanted := embedding_key(name, description)) != key:
            if wanted not in stale:
                texts.append({"id": wanted, "text": embedding_text(name, description)})
            stale.setdefault(wanted, []).append(pk)
    if texts:
        echo(f"encoding {len(texts):,} texts with {settings.ENCODER}")
        keys, rows = encode_texts(texts, echo=echo)
        _store_embeddings([(pk, key, row) for key, row in zip(keys, rows, strict=True) for pk in stale[key]])
    return sum(map(len, stale.values()))


def encode_texts(texts: list[dict[str, str]], *, echo: Echo = silent) -> tuple[list[str], Rows]:
    """Normalised embeddings of {"id", "text"} rows, made by `python -m catalog.ml encode` in a child process."""
    tick = Ticker(echo, "encoding")

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "progress":
            tick(event["done"], event["total"])

    with tempfile.TemporaryDirectory(prefix="trace-encode-") as name:
        folder = Path(name)
        write_jsonl(folder / "texts.jsonl", texts)
        options = ["--in", folder / "texts.jsonl", "--out", folder, "--encoder", settings.ENCODER]
        run_child(
            "catalog.ml",
            ["encode", *map(str, options), "--threads", str(settings.ML_THREADS)],
            cwd=settings.BASE_DIR,
            log=folder / "log.txt",
            on_event=on_event,
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


@transaction.atomic
def _store_lists(fresh: dict[int, tuple[list[int], list[float]]]) -> dict[str, int]:
    rows = NeighbourList.objects.values_list("pk", "neighbour_ids", "scores")
    stored = {pk: (ids, scores) for pk, ids, scores in rows}
    changed = []
    for pk, (ids, scores) in fresh.items():
        if stored.get(pk) != (ids, scores):
            changed.append(NeighbourList(tool_id=pk, neighbour_ids=ids, scores=scores))
    write_or_update(changed, of=["tool"], fields=["neighbour_ids", "scores"])
    removed, _ = NeighbourList.objects.filter(pk__in=stored.keys() - fresh.keys()).delete()
    return {"changed": len(changed), "removed": removed}


def clusters_update(
    *,
    domain: str = "",
    tau: float | None = None,
    retune: bool = False,
    echo: Echo = silent,
    actor: Any = None,
) -> dict[str, dict[str, Any]]:
    """Find the clusters of one domain, or of all. A new version is stored only where the result differs.

    tau stays as the last version has it; it is chosen anew on the first run and with `retune`, or given.
    Returns {slug: {"version", "new", "tau", "clusters", "tools", "median"}}.
    """
    if tau is not None and not 0 < tau < 1:
        raise TraceError("tau must lie between 0 and 1.", code="bad_tau", where="--tau")
    domains = Domain.objects.filter(tools__status=Tool.Status.ACTIVE).distinct()
    if domain:
        domains = domains.filter(slug=domain.lower())
    if not domains:
        where = f"the domain '{domain}'" if domain else "the catalog"
        raise TraceError(f"{where} has no tools.", code="empty", hint="Import a catalog first.")
    results = {}
    for row in domains:
        results[row.slug] = found = _cluster_domain(row, tau, retune, actor)
        echo(f"{row.slug}: {found['clusters']:,} clusters of {found['tools']:,} tools at tau {found['tau']}")
    return results


@transaction.atomic
def _cluster_domain(domain: Domain, tau: float | None, retune: bool, actor: Any) -> dict[str, Any]:
    Domain.objects.select_for_update().get(pk=domain.pk)
    active = Tool.objects.filter(domain=domain, status=Tool.Status.ACTIVE)
    names: dict[int, str] = dict(active.values_list("pk", "name"))
    stored = NeighbourList.objects.filter(tool__in=active).values_list("tool_id", "neighbour_ids", "scores")
    lists = {
        names[pk]: [(names[o], s) for o, s in zip(others, scores, strict=True) if o in names]
        for pk, others, scores in stored
    }
    if missing := len(names) - len(lists):
        message = f"{missing:,} tools of the domain '{domain.slug}' have no neighbours yet."
        raise TraceError(message, code="no_neighbours", hint="Run catalog_neighbours first.")
    ids = {name: pk for pk, name in names.items()}
    edges = mutual_edges(lists)
    last = Clustering.objects.filter(domain=domain).order_by("-version").first()
    if tau is None:
        tau = last.tau if last and not retune else choose_tau(edges)
    rows = [
        Cluster(
            position=place,
            label=cluster_label(cluster.tools),
            tool_ids=[ids[name] for name in cluster.tools],
            edges=[[ids[left], ids[right], cosine] for left, right, cosine in cluster.edges],
            mean_similarity=round(cluster.mean_similarity, 6),
        )
        for place, cluster in enumerate(find_clusters(edges, tau), start=1)
    ]
    new = last is None or last.tau != tau or last.algorithm != ALGORITHM
    if last and not new:
        before = last.clusters.order_by("position").values_list("tool_ids", "edges")
        new = list(before) != [(row.tool_ids, row.edges) for row in rows]
    if new:
        last = _store_clustering(domain, last, tau, rows)
        detail = {"version": last.version, "tau": tau, "clusters": len(rows)}
        audit_models.record(actor=actor, action="catalog.clustered", obj=last, detail=detail)
    assert last is not None
    sizes = sorted(len(row.tool_ids) for row in rows)
    found = {"clusters": len(rows), "tools": sum(sizes), "median": sizes[len(sizes) // 2] if sizes else 0}
    return {"version": last.version, "new": new, "tau": tau, **found}


def _store_clustering(domain: Domain, last: Clustering | None, tau: float, rows: list[Cluster]) -> Clustering:
    """A new version. A dismissal holds on for a cluster of exactly the same tools."""
    catalog_lock()
    version, params = last.version + 1 if last else 1, {"max_size": MAX_SIZE, "split_over": SPLIT_OVER}
    made_by = {"tau": tau, "algorithm": ALGORITHM, "params": params}
    clustering = Clustering.objects.create(domain=domain, version=version, **made_by)
    dismissed = last.clusters.exclude(dismissed_reason="") if last else ()
    before = {frozenset(cluster.tool_ids): cluster for cluster in dismissed}
    for row in rows:
        row.clustering = clustering
        if old := before.get(frozenset(row.tool_ids)):
            row.dismissed_reason, row.dismissed_by_id = old.dismissed_reason, old.dismissed_by_id
            row.dismissed_at = old.dismissed_at
    Cluster.objects.bulk_create(rows, batch_size=1000)
    _place_tools(clustering)
    return clustering


def _place_tools(clustering: Clustering) -> None:
    """Every tool of the domain knows its cluster, so that lists need not look into arrays."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE catalog_tool AS tool SET cluster_id = found.cluster_id FROM catalog_tool AS same LEFT JOIN "
            "(SELECT id AS cluster_id, unnest(tool_ids) AS tool_id FROM catalog_cluster WHERE clustering_id = %s) "
            "AS found ON found.tool_id = same.id WHERE same.id = tool.id AND tool.domain_id = %s "
            "AND tool.cluster_id IS DISTINCT FROM found.cluster_id",
            [clustering.pk, clustering.domain_id],
        )


@transaction.atomic
def cluster_dismiss(*, cluster: Cluster, reason: str, actor: Any) -> None:
    """Take a cluster out of the coverage denominator: its descriptions are enough. Needs a reason."""
    reason = reason.strip()
    if len(reason) < MIN_REASON:
        raise TraceError("Say why the cluster needs no rule.", code="no_reason", where="reason")
    cluster.dismissed_reason, cluster.dismissed_by, cluster.dismissed_at = reason, actor, timezone.now()
    cluster.save(update_fields=["dismissed_reason", "dismissed_by", "dismissed_at"])
    audit_models.record(actor=actor, action="cluster.dismissed", obj=cluster, detail={"reason": reason})


@transaction.atomic
def cluster_restore(*, cluster: Cluster, actor: Any) -> None:
    """Undo a dismissal."""
    if cluster.dismissed_reason:
        cluster.dismissed_reason, cluster.dismissed_by, cluster.dismissed_at = "", None, None
        cluster.save(update_fields=["dismissed_reason", "dismissed_by", "dismissed_at"])
        audit_models.record(actor=actor, action="cluster.restored", obj=cluster)


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
    rows, keys = Count("pk", filter=Q(embedding__isnull=False)), Count("pk", filter=~Q(embedding_key=""))
    states = active.aggregate(tools=Count("pk"), rows=rows, keys=keys)
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
    """For a job that cannot go on without the look-alikes of new tools: they are found first. Raises JobPostponed, or
    TraceError "no_neighbours" when the job that this one waited for could not find them.
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
    message = f"waits for the look-alikes of {tools_behind():,} tools, which job {found.pk} finds"
    raise JobPostponed(message, found)


def catalog_refresh(ctx: JobContext) -> dict[str, Any]:
    """The job's handler body. What it writes follows from the catalog alone, so doing it twice changes nothing."""
    actor = ctx.job.created_by
    for tried in range(1, TRIES + 1):
        try:
            ctx.progress(0, STEPS, "reading the catalog")
            neighbours = neighbours_update(echo=lambda line: ctx.progress(0, STEPS, line), actor=actor)
            ctx.progress(1, STEPS, "finding clusters")
            domains = clusters_update(echo=lambda line: ctx.progress(1, STEPS, line), actor=actor)
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
