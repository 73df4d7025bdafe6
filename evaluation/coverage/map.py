"""The map of a clustering: where each cluster lies. Computed when somebody first looks, then kept with the clustering.

A frozen clustering has one map for ever, so what a person has seen stays where it was.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from django.db import connection, transaction
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import cache_control
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import condition, require_GET

from catalog.models import Cluster, Domain
from evaluation.core.layout import layout
from evaluation.coverage import pages as selectors
from evaluation.coverage.rows import ClusterRow, DomainCoverage
from evaluation.coverage.selectors import coverage, edition
from evaluation.models import ClusterPlace
from trace_site.paging import number_of, numbers_of

Place = tuple[int, int, int]  # x, y, radius
MAP_LOCK = 7_210_402  # first half of an advisory lock: one layout of a clustering at a time
MEANS = """
SELECT c.id, cardinality(c.tool_ids), avg(t.embedding)::text FROM catalog_cluster c
CROSS JOIN LATERAL unnest(c.tool_ids) AS member(id) JOIN catalog_tool t ON t.id = member.id
WHERE c.clustering_id = %s GROUP BY c.id ORDER BY c.position, c.id
"""


@lru_cache(maxsize=64)
def places(clustering: int) -> dict[int, Place]:
    """{cluster: (x, y, radius)} of every cluster of the clustering."""
    return stored(clustering) or _laid_out(clustering)


def stored(clustering: int) -> dict[int, Place]:
    rows = ClusterPlace.objects.filter(cluster__clustering=clustering)
    return {pk: (x, y, radius) for pk, x, y, radius in rows.values_list("cluster_id", "x", "y", "radius")}


@transaction.atomic
def _laid_out(clustering: int) -> dict[int, Place]:
    """Seconds for thousands of clusters; whoever asks at the same time waits for the first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [MAP_LOCK, clustering % 2**31])
    if found := stored(clustering):
        return found
    ids, sizes, rows = means(clustering)
    points, radii = layout(rows, sizes)
    made = [
        ClusterPlace(cluster_id=pk, x=int(x), y=int(y), radius=int(radius))
        for pk, (x, y), radius in zip(ids, points, radii, strict=True)
    ]
    ClusterPlace.objects.bulk_create(made, batch_size=2000)
    return {row.cluster_id: (row.x, row.y, row.radius) for row in made}


def means(clustering: int) -> tuple[list[int], np.ndarray, np.ndarray]:
    """(cluster ids, sizes, mean embedding of each cluster's tools); zeros where no tool is embedded."""
    with connection.cursor() as cursor:
        cursor.execute(MEANS, [clustering])
        found = cursor.fetchall()
    texts = [text.strip("[]") if text else "" for _, _, text in found]
    width = max((text.count(",") + 1 for text in texts if text), default=1)
    rows = np.zeros((len(found), width), dtype=np.float32)
    for place, text in enumerate(texts):
        if text:
            rows[place] = np.fromstring(text, dtype=np.float32, sep=",")
    return [pk for pk, _, _ in found], np.array([size for _, size, _ in found], dtype=np.int64), rows


# The clusters as a picture: the page, the data it draws, the search, and the panel of one cluster.


MOST_CLUSTERS = 80  # whose tools are asked for at once
MOST_FOUND = 30


def chosen_page(domain: str) -> DomainCoverage:
    found = coverage(domain, recall=False)
    if not found:
        raise Http404
    return found[0]


@require_GET
def map_page(request: HttpRequest) -> HttpResponse:
    """The frame of the picture; with ?cluster= its panel is part of the page."""
    domains = list(Domain.objects.all())
    if not domains:
        return render(request, "coverage/map.html", {"domains": domains})
    cluster = number_of(request.GET.get("cluster", ""))
    page = chosen_page(request.GET.get("domain") or _domain_of(cluster) or domains[0].slug)
    row = page.by_id.get(cluster)
    context = {
        "domains": domains,
        "page": page,
        "open": selectors.without_rule(page),
        "states": selectors.legend(page),
        "panel": selectors.panel(page, row) if row else None,
    }
    return render(request, "coverage/map.html", context)


def _domain_of(cluster: int) -> str | None:
    found = Cluster.objects.filter(pk=cluster).values_list("clustering__domain_id", flat=True)
    return found.first()


@cache_control(
    private=True, no_cache=True
)  # kept by the browser, which asks each time whether it still holds
@gzip_page
@condition(etag_func=lambda request, domain: f'"{edition()}-{domain}"')
@require_GET
def map_clusters(request: HttpRequest, domain: str) -> JsonResponse:
    """Every cluster in columns, the costliest gap first: about 50 bytes each."""
    page = chosen_page(domain)
    at = places(page.clustering_id) if page.clustering_id else {}
    rows = [row for row in page.ranked if row.id in at]
    columns: dict[str, list[Any]] = {
        "id": [row.id for row in rows],
        "x": [at[row.id][0] for row in rows],
        "y": [at[row.id][1] for row in rows],
        "r": [at[row.id][2] for row in rows],
        "n": [row.size for row in rows],
        "state": [selectors.STATES.index(row.state) for row in rows],
        "share": [round(100 * row.covered / row.edges) if row.edges else 0 for row in rows],
        "score": [round(row.gap_score, 1) for row in rows],
        "label": [row.label for row in rows],
    }
    return _compact({"clustering": page.clustering, **columns})


def _compact(data: dict[str, Any]) -> JsonResponse:
    return JsonResponse(data, json_dumps_params={"separators": (",", ":"), "ensure_ascii": False})


@gzip_page
@require_GET
def map_tools(request: HttpRequest, domain: str) -> JsonResponse:
    """{cluster: {"tools": [[id, name, deprecated]], "edges": [[a, b, covered]]}}; a and b are places in `tools`."""
    page = chosen_page(domain)
    wanted = numbers_of(request.GET.get("ids", "").split(","))[:MOST_CLUSTERS]
    return _compact({str(pk): _tools(page.by_id[pk]) for pk in wanted if pk in page.by_id})


def _tools(row: ClusterRow) -> dict[str, Any]:
    tools = row.tools
    place = {tool.id: number for number, tool in enumerate(tools)}
    covered = set(row.coverage.covered)
    return {
        "tools": [[tool.id, tool.name, int(tool.deprecated)] for tool in tools],
        "edges": [[place[a], place[b], int((a, b) in covered)] for a, b, _ in row.coverage.cluster.edges],
    }


@require_GET
def map_search(request: HttpRequest, domain: str) -> JsonResponse:
    """Clusters and tools whose words are found: all matching ids to light up, and the first few to choose from."""
    page, text = chosen_page(domain), request.GET.get("q", "").strip()
    rows = selectors.found_rows(page, search=text) if text else []
    words = text.casefold().split()
    results = [
        {"cluster": row.id, "label": row.label, "tools": _matching(row, words)[:3]}
        for row in rows[:MOST_FOUND]
    ]
    return _compact({"ids": [row.id for row in rows], "results": results})


def _matching(row: ClusterRow, words: list[str]) -> list[dict[str, Any]]:
    return [
        {"id": tool.id, "name": tool.name}
        for tool in row.tools
        if all(word in tool.name.casefold() for word in words)
    ]


@require_GET
def cluster_panel(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: what one cluster holds, beside the picture."""
    cluster = get_object_or_404(Cluster.objects.select_related("clustering"), pk=pk)
    page = chosen_page(cluster.clustering.domain_id)
    row = page.by_id.get(pk)
    if row is None:
        raise Http404
    return render(request, "coverage/_panel.html", {"panel": selectors.panel(page, row)})
