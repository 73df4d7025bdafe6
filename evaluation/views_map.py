"""The clusters as a picture: the page, the data it draws, the search, and the panel of one cluster."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import cache_control
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import condition, require_GET

from catalog.models import Cluster, Domain
from evaluation import selectors_coverage as selectors
from evaluation.coverage import coverage, edition
from evaluation.coverage_rows import ClusterRow, DomainCoverage
from evaluation.maps import places

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
    cluster = _int(request.GET.get("cluster", ""))
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


def _int(text: str) -> int:
    return int(text) if text.isdecimal() else 0


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
    wanted = [_int(text) for text in request.GET.get("ids", "").split(",")][:MOST_CLUSTERS]
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
