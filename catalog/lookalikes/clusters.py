"""Clusterings: found from the neighbour lists, kept as frozen versions, dismissed by people."""

from collections.abc import Callable
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from catalog.core.clusters import (
    ALGORITHM,
    MAX_SIZE,
    SPLIT_OVER,
    FoundCluster,
    choose_tau,
    cluster_label,
    find_clusters,
    mutual_edges,
)
from catalog.models import Cluster, Clustering, Domain, NeighbourList, Tool
from catalog.tokens import catalog_lock
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError

MIN_REASON = 5


def clusters_update(
    *,
    domain: str = "",
    tau: float | None = None,
    retune: bool = False,
    echo: Callable[[str], None] = lambda line: None,
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
        result = _cluster_domain(row, tau, retune, actor)
        results[row.slug] = result
        echo(
            f"{row.slug}: {result['clusters']:,} clusters of {result['tools']:,} tools at tau {result['tau']}"
        )
    return results


@transaction.atomic
def _cluster_domain(domain: Domain, tau: float | None, retune: bool, actor: Any) -> dict[str, Any]:
    Domain.objects.select_for_update().get(pk=domain.pk)
    ids, edges = _domain_edges(domain)
    last = Clustering.objects.filter(domain=domain).order_by("-version").first()
    if tau is None:
        kept = last.tau if last and not retune else None
        tau = kept if kept is not None else choose_tau(edges)
    found = find_clusters(edges, tau)
    rows = [_row(place, cluster, ids) for place, cluster in enumerate(found, start=1)]
    new = last is None or last.tau != tau or last.algorithm != ALGORITHM or not _same(last, rows)
    if new:
        last = _store(domain, last, tau, rows)
        detail = {"version": last.version, "tau": tau, "clusters": len(rows)}
        audit_models.record(actor=actor, action="catalog.clustered", obj=last, detail=detail)
    assert last is not None
    sizes = sorted(len(row.tool_ids) for row in rows)
    middle = sizes[len(sizes) // 2] if sizes else 0
    return {
        "version": last.version,
        "new": new,
        "tau": tau,
        "clusters": len(rows),
        "tools": sum(sizes),
        "median": middle,
    }


def _domain_edges(domain: Domain) -> tuple[dict[str, int], list[tuple[str, str, float]]]:
    """Tool ids by name, and the mutual edges inside the domain."""
    active = Tool.objects.filter(domain=domain, status=Tool.Status.ACTIVE)
    names: dict[int, str] = dict(active.values_list("pk", "name"))
    stored = NeighbourList.objects.filter(tool__in=active).values_list("tool_id", "neighbour_ids", "scores")
    lists = {
        names[pk]: [(names[o], s) for o, s in zip(others, scores, strict=True) if o in names]
        for pk, others, scores in stored
    }
    if missing := len(names) - len(lists):
        raise TraceError(
            f"{missing:,} tools of the domain '{domain.slug}' have no neighbours yet.",
            code="no_neighbours",
            hint="Run catalog_neighbours first.",
        )
    return {name: pk for pk, name in names.items()}, mutual_edges(lists)


def _row(position: int, cluster: FoundCluster, ids: dict[str, int]) -> Cluster:
    return Cluster(
        position=position,
        label=cluster_label(cluster.tools),
        tool_ids=[ids[name] for name in cluster.tools],
        edges=[[ids[left], ids[right], cosine] for left, right, cosine in cluster.edges],
        mean_similarity=round(cluster.mean_similarity, 6),
    )


def _same(last: Clustering, rows: list[Cluster]) -> bool:
    stored = last.clusters.order_by("position").values_list("tool_ids", "edges")
    return [(ids, edges) for ids, edges in stored] == [(row.tool_ids, row.edges) for row in rows]


def _store(domain: Domain, last: Clustering | None, tau: float, rows: list[Cluster]) -> Clustering:
    """A new version. A dismissal holds on for a cluster of exactly the same tools."""
    catalog_lock()
    clustering = Clustering.objects.create(
        domain=domain,
        version=last.version + 1 if last else 1,
        tau=tau,
        algorithm=ALGORITHM,
        params={"max_size": MAX_SIZE, "split_over": SPLIT_OVER},
    )
    dismissed = last.clusters.exclude(dismissed_reason="") if last else Cluster.objects.none()
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
def cluster_dismiss(*, cluster: Cluster, reason: str, actor: Any) -> Cluster:
    """Take a cluster out of the coverage denominator: its descriptions are enough. Needs a reason."""
    reason = reason.strip()
    if len(reason) < MIN_REASON:
        raise TraceError("Say why the cluster needs no rule.", code="no_reason", where="reason")
    cluster.dismissed_reason, cluster.dismissed_by, cluster.dismissed_at = reason, actor, timezone.now()
    cluster.save(update_fields=["dismissed_reason", "dismissed_by", "dismissed_at"])
    audit_models.record(actor=actor, action="cluster.dismissed", obj=cluster, detail={"reason": reason})
    return cluster


@transaction.atomic
def cluster_restore(*, cluster: Cluster, actor: Any) -> Cluster:
    """Undo a dismissal."""
    if cluster.dismissed_reason:
        cluster.dismissed_reason, cluster.dismissed_by, cluster.dismissed_at = "", None, None
        cluster.save(update_fields=["dismissed_reason", "dismissed_by", "dismissed_at"])
        audit_models.record(actor=actor, action="cluster.restored", obj=cluster)
    return cluster
