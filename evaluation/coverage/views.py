"""The coverage pages: a domain's clusters as a ranked list of gaps, one cluster, CSV."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.views.decorators.http import require_GET, require_POST

from catalog import lookalikes
from catalog.models import Cluster, Domain
from evaluation.coverage import map, pages
from rules.models import Rule
from trace_site.lib.cells import csv_lines
from trace_site.paging import number_of

GAP_COLUMNS = (
    *("cluster", "state", "gap_score", "pairs", "pairs_covered"),
    *("mean_similarity", "rules", "tools", "reason"),
)
CLUSTERS = Cluster.objects.select_related("clustering__domain", "dismissed_by")


class DismissForm(forms.Form):
    reason = forms.CharField(
        max_length=500,
        error_messages={"required": "Say why these tools need no rule; the reason stays with the cluster."},
    )


@require_GET
def gaps_csv(request: HttpRequest, domain: str) -> HttpResponse:
    """Every cluster of the domain, the costliest gap first, for a spreadsheet."""
    rows = (
        [
            *(row.label, row.state, round(row.gap_score, 3), row.edges, row.covered),
            round(row.mean_similarity, 3),
            " ".join(rule.code for rule in row.rules),
            " ".join(tool.name for tool in row.tools),
            row.dismissed_reason,
        ]
        for row in pages.domain_coverage(domain).ranked
    )
    return HttpResponse(
        csv_lines(GAP_COLUMNS, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="coverage-{domain}.csv"'},
    )


@require_GET
def cluster_list(request: HttpRequest) -> HttpResponse:
    """A domain's clusters, the costliest gap on top; filters keep that order."""
    domains = list(Domain.objects.all())
    if not domains:
        return render(request, "coverage/cluster_list.html", {"domains": domains})
    page = pages.domain_coverage(request.GET.get("domain") or domains[0].slug)
    state, search = request.GET.get("state", ""), request.GET.get("q", "").strip()
    rows = pages.found_rows(page, state, search)
    keyset = pages.page_after(rows, request.GET.get("after", ""))
    context = {
        "page": page,
        "domains": domains,
        "rows": [(row, pages.write_url(page.domain, row)) for row in keyset.rows],
        "keyset": keyset,
        "total": len(rows),
        "state": state,
        "search": search,
        "labels": pages.STATES,
        "formula": pages.SCORE_FORMULA,
    }
    if request.headers.get("HX-Request"):
        return render(request, "coverage/_clusters.html", context)
    whole = {"open": pages.without_rule(page), "parts": pages.state_parts(page)}
    return render(request, "coverage/cluster_list.html", {**context, **whole})


@require_GET
def rule_coverage(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment of the rule page: the clusters whose pairs the rule tells apart."""
    rule = get_object_or_404(Rule.objects.select_related("published"), pk=pk)
    clusters = pages.clusters_of_rule(pages.domain_coverage(rule.domain_id), rule)
    return render(request, "coverage/_rule.html", {"clusters": clusters})


@require_GET
def cluster_detail(request: HttpRequest, pk: int) -> HttpResponse:
    return _cluster_page(request, pk, DismissForm())


def _cluster_page(request: HttpRequest, pk: int, form: DismissForm) -> HttpResponse:
    cluster = get_object_or_404(CLUSTERS.all(), pk=pk)
    domain = cluster.clustering.domain_id
    page = pages.domain_coverage(domain)
    row = page.by_id.get(pk)
    if row is None:
        messages.info(request, f"{cluster.label} belongs to an older clustering; these are the clusters now.")
        return redirect(pages.clusters_url(domain))
    panel = pages.panel(page, row, number_of(request.GET.get("against", "")))
    edges = pages.cluster_edges(row, panel["tools"])
    context = {**panel, "cluster": cluster, "edges": edges, "formula": pages.SCORE_FORMULA, "form": form}
    return render(request, "coverage/cluster_detail.html", context, status=422 if form.is_bound else 200)


@require_POST
def cluster_dismiss(request: HttpRequest, pk: int) -> HttpResponse:
    form = DismissForm(request.POST)
    if not form.is_valid():
        return _cluster_page(request, pk, form)
    cluster = get_object_or_404(CLUSTERS.all(), pk=pk)
    lookalikes.cluster_dismiss(cluster=cluster, reason=form.cleaned_data["reason"], actor=request.user)
    messages.success(request, f"{cluster.label} is out of the denominator.")
    return redirect("cluster", pk)


@require_POST
def cluster_restore(request: HttpRequest, pk: int) -> HttpResponse:
    cluster = get_object_or_404(CLUSTERS.all(), pk=pk)
    lookalikes.cluster_restore(cluster=cluster, actor=request.user)
    messages.success(request, f"{cluster.label} counts again.")
    return redirect("cluster", pk)


# Addresses of coverage and clusters; their names have no namespace.
urlpatterns = [
    path("coverage/<slug:domain>.csv", gaps_csv, name="coverage-csv"),
    path("coverage/rules/<int:pk>/", rule_coverage, name="rule-coverage"),
    path("clusters/", cluster_list, name="clusters"),
    path("clusters/map/", map.map_page, name="clusters-map"),
    path("clusters/map/<slug:domain>.json", map.map_clusters, name="clusters-map-data"),
    path("clusters/map/<slug:domain>/tools.json", map.map_tools, name="clusters-map-tools"),
    path("clusters/map/<slug:domain>/search.json", map.map_search, name="clusters-map-search"),
    path("clusters/<int:pk>/", cluster_detail, name="cluster"),
    path("clusters/<int:pk>/panel/", map.cluster_panel, name="cluster-panel"),
    path("clusters/<int:pk>/dismiss/", cluster_dismiss, name="cluster-dismiss"),
    path("clusters/<int:pk>/restore/", cluster_restore, name="cluster-restore"),
]
