"""The coverage pages: a domain's clusters by rank, one cluster, the requests behind numbers, CSV, the map of a
clustering. Lists show what was counted last; the page of a cluster and the map show what is so now.

Places on the map are computed when somebody first looks, then kept with the clustering: a frozen clustering has one
map for ever, so what a person has seen stays where it was.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import F
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import cache_control
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import condition, require_GET, require_http_methods, require_POST

from catalog import lookalikes
from catalog.models import Cluster, Domain, Tool
from catalog.selectors import rule_writers
from evaluation.core.confusion import ELSEWHERE, MODEL, SIDES
from evaluation.core.coverage import COVERED, LINES, STATES, UNCOVERED
from evaluation.core.layout import layout
from evaluation.core.metrics import ALL
from evaluation.coverage import pages
from evaluation.coverage.counted import counted, figures_by_domain
from evaluation.coverage.gaps import (
    PAGES,
    UNSPOKEN,
    ClusterFilter,
    clusters,
    gaps_shown,
    narrowed,
    outcomes,
    pair_confusion,
    production_misses,
    shown_outcomes,
    side_of,
)
from evaluation.coverage.outcomes import WINDOW, Source
from evaluation.coverage.selectors import ClusterRow, edition
from evaluation.models import ClusterPlace, DomainPoint
from rules.models import Rule, RuleVersion
from trace_site.access import may, needed
from trace_site.database import database_now
from trace_site.lib.cells import csv_lines
from trace_site.lib.errors import TraceError
from trace_site.paging import SIZE, Page, number_of, numbers_of, sliced

CSV_COLUMNS = (
    *("rank", "cluster", "state", "expected_wrong", "low", "high", "of_requests", "labelled", "wrong"),
    *("wrong_at_open_pairs", "pairs", "pairs_covered", "pairs_named_only", "owner", "due", "tools", "reason"),
    "counted_at",
)
REQUEST_FILTERS = {
    "group": (ALL, *LINES),
    "source": Source.values,
    "wrong": SIDES,
    "at": (COVERED, UNCOVERED, ELSEWHERE, UNSPOKEN),
    "asked": ("both",),
}
PAGE = 20  # clusters of a page of the list
CLUSTERS = Cluster.objects.select_related("clustering__domain", "dismissed_by", "owner")


class DismissForm(forms.Form):
    reason = forms.CharField(
        max_length=500,
        error_messages={"required": "Say why these tools need no rule; the reason stays with the cluster."},
    )


class AssignForm(forms.Form):
    owner = forms.ModelChoiceField(
        queryset=User.objects.none(),
        required=False,
        error_messages={"invalid_choice": "Choose somebody who writes rules: a domain expert or an admin."},
    )
    due = forms.DateField(required=False, error_messages={"invalid": "Write the day as 2026-12-31."})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        owner = self.fields["owner"]
        assert isinstance(owner, forms.ModelChoiceField)
        owner.queryset = rule_writers()


def acting(user: Any) -> dict[str, Any]:
    """What a page that offers to act on gaps needs: who may what, and for its forms whom a gap can be given to."""
    return {
        "writers": rule_writers(),
        "assigns": may(user, "cluster-assign", "POST"),
        "drafts": may(user, "rules:create"),
        "dismisses": may(user, "cluster-dismiss", "POST"),
        "who_drafts": needed("rules:create"),
        "who_assigns": needed("cluster-assign", "POST"),
        "today": database_now().date(),
    }


def figures_of(domain: str) -> DomainPoint:
    """Of a domain as counted last. Raises Http404."""
    row = figures_by_domain().get(domain)
    if row is None:
        raise Http404
    return row


@require_GET
def gaps_csv(request: HttpRequest, domain: str) -> HttpResponse:
    """Every cluster of the domain as counted last, by rank, for a spreadsheet."""
    figures, chosen = figures_of(domain), ClusterFilter.of(request.GET)
    found = clusters(domain, chosen)
    ids = [pk for row in found for pk in row.cluster.tool_ids]
    names = dict(Tool.objects.filter(pk__in=ids).order_by().values_list("pk", "name"))
    rows = (
        [
            *(row.rank, row.cluster.label, row.state, row.score, row.score_low, row.score_high),
            *(row.requests, row.n, row.wrong, row.wrong_uncovered, row.pairs, row.covered, row.named),
            row.cluster.owner.username if row.cluster.owner else "",
            row.cluster.due or "",
            " ".join(names[pk] for pk in row.cluster.tool_ids if pk in names),
            row.cluster.dismissed_reason,
            f"{figures.at:%Y-%m-%d %H:%M}",
        ]
        for row in found
    )
    return HttpResponse(
        csv_lines(CSV_COLUMNS, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="coverage-{domain}.csv"'},
    )


@require_GET
def cluster_list(request: HttpRequest) -> HttpResponse:
    """A domain's clusters as counted last, by rank; filters keep that order."""
    domains = list(Domain.objects.all())
    if not domains:
        return render(request, "coverage/cluster_list.html", {"domains": domains})
    domain = next((one for one in domains if one.slug == request.GET.get("domain", domains[0].slug)), None)
    if domain is None:
        raise Http404
    figures, chosen = figures_by_domain(domains).get(domain.slug), ClusterFilter.of(request.GET)
    after = number_of(request.GET.get("after", ""), 9)
    found = clusters(domain.slug, chosen, after=after, size=PAGE + 1)
    shown = found[:PAGE]
    more = str(shown[-1].rank) if len(found) > PAGE else None
    side = side_of(figures) if figures else MODEL
    context = {
        "domain": domain,
        "figures": figures,
        "gaps": pages.gap_lines(domain.slug, gaps_shown(shown, request.user, side), side),
        "keyset": Page(shown, str(after or ""), more),
        "total": len(narrowed(domain.slug, chosen)),
        "chosen": chosen,
        "query": request.GET.urlencode(),
        "here": request.get_full_path(),
        **acting(request.user),
    }
    if request.headers.get("HX-Request"):
        return render(request, "coverage/_clusters.html", context)
    whole = {
        "domains": domains,
        "labels": pages.STATES,
        "groups": pages.GROUPS_OF_STATES,
        "parts": pages.state_parts(domain.slug, figures.states) if figures else [],
    }
    return render(request, "coverage/cluster_list.html", {**context, **whole})


@require_GET
def request_list(request: HttpRequest, domain: str) -> HttpResponse:
    """The labelled requests behind a number, with what is chosen for each. What names nothing leads nowhere, rather
    than to a list of something else."""
    figures, asked = figures_of(domain), request.GET
    given: dict[str, Any] = {name: asked.get(name, "") for name in REQUEST_FILTERS}
    if any(value and value not in REQUEST_FILTERS[name] for name, value in given.items()):
        raise Http404
    cluster, version = None, None
    tools = Tool.objects.filter(pk__in=numbers_of(asked.getlist("tool"))).in_bulk()
    if len(tools) < len(set(asked.getlist("tool"))):
        raise Http404
    if "cluster" in asked:
        cluster = get_object_or_404(Cluster, pk=number_of(asked["cluster"]))
    if "rule" in asked:
        version = get_object_or_404(RuleVersion, rule=number_of(asked["rule"]), rule__published=F("pk"))
    about = cluster or tools or version  # may concern tools of other domains too
    found = outcomes(
        domain="" if about else domain,
        **given,
        cluster=cluster.pk if cluster else 0,
        tools=[*tools] or (version.tool_ids if version else ()),
    )
    page, total = sliced(found, request.GET.get("after", ""), SIZE), len(found)
    context = {
        "figures": figures,
        "domain": figures.domain,
        "page": page,
        "rows": shown_outcomes(page.rows, request.user),
        "sources": dict(Source.choices),
        "groups": pages.GROUP_WORDS,
        "total": total,
        "said": pages.request_words(figures, given, cluster, [*tools.values()], version, total),
        "side": side_of(figures),
        "reads": {source: may(request.user, route) for source, route in PAGES.items()},
    }
    return render(request, "coverage/requests.html", context)


@require_GET
def pair_list(request: HttpRequest, domain: str) -> HttpResponse:
    """The pairs of look-alikes behind a number, as rules stand now."""
    state = request.GET.get("state", pages.ALL_PAIRS)
    if state not in pages.PAIRS:
        raise Http404
    found = pages.pairs(pages.domain_coverage(domain), state)
    context = {
        "domain": get_object_or_404(Domain, pk=domain),
        "total": len(found),
        "page": sliced(found, request.GET.get("after", ""), SIZE),
        "state": state,
        "states": pages.PAIRS,
    }
    return render(request, "coverage/pairs.html", context)


@require_GET
def miss_list(request: HttpRequest, domain: str) -> HttpResponse:
    """Answers to programs that were reported wrong."""
    chosen = get_object_or_404(Domain, pk=domain)
    rows, missed = production_misses(domain, request.user)
    context = {"domain": chosen, "rows": rows, "missed": missed, "days": WINDOW}
    return render(request, "coverage/misses.html", context)


@require_GET
def rule_coverage(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment of the rule page: the clusters whose pairs the rule tells apart."""
    rule = get_object_or_404(Rule.objects.select_related("published"), pk=pk)
    clusters = pages.clusters_of_rule(pages.domain_coverage(rule.domain_id), rule)
    return render(request, "coverage/_rule.html", {"clusters": clusters})


@require_GET
def cluster_detail(request: HttpRequest, pk: int) -> HttpResponse:
    return _cluster_page(request, pk)


def _cluster_page(
    request: HttpRequest, pk: int, dismiss: DismissForm | None = None, assign: AssignForm | None = None
) -> HttpResponse:
    cluster = get_object_or_404(CLUSTERS.all(), pk=pk)
    domain = cluster.clustering.domain_id
    page = pages.domain_coverage(domain)
    row = page.by_id.get(pk)
    if row is None:
        messages.info(request, f"{cluster.label} belongs to an older clustering; these are the clusters now.")
        return redirect(pages.clusters_url(domain))
    panel = pages.panel(page, row, number_of(request.GET.get("against", "")))
    side = side_of(figures) if (figures := counted().domains.get(domain)) else MODEL
    context = {
        **panel,
        "cluster": cluster,
        "edges": pages.cluster_edges(row, cluster, panel["tools"]),
        "confused": pair_confusion(outcomes(cluster=pk), side),
        "form": dismiss or DismissForm(),
        "assign": assign or AssignForm(),
        "side": side,
        "here": request.POST.get("back", ""),
        **acting(request.user),
    }
    return render(request, "coverage/cluster_detail.html", context, status=422 if dismiss or assign else 200)


def _back(request: HttpRequest, pk: int) -> HttpResponse:
    """To the page the form stood on, else to the cluster's."""
    place = request.POST.get("back", "")
    safe = place.startswith("/") and url_has_allowed_host_and_scheme(place, allowed_hosts=None)
    return redirect(place) if safe else redirect("cluster", pk)


def _decided(form: forms.Form, service: Callable[..., None], **about: Any) -> bool:
    """Whether the service took what the form says; if not, the form says why."""
    if form.is_valid():
        try:
            service(**about, **form.cleaned_data)
        except TraceError as problem:
            form.add_error(problem.where if problem.where in form.fields else None, problem.message)
    return form.is_valid()


def _form(request: HttpRequest, template: str, cluster: Cluster) -> HttpResponse:
    """Fragment of a list, which holds too many gaps to send a form with each."""
    context = {"cluster": cluster, "here": request.GET.get("back", ""), **acting(request.user)}
    return render(request, template, context)


@require_http_methods(["GET", "HEAD", "POST"])
def cluster_dismiss(request: HttpRequest, pk: int) -> HttpResponse:
    if request.method != "POST":
        return _form(request, "coverage/_dismiss_form.html", get_object_or_404(CLUSTERS.all(), pk=pk))
    cluster, form = get_object_or_404(CLUSTERS.all(), pk=pk), DismissForm(request.POST)
    if not _decided(form, lookalikes.cluster_dismiss, cluster=cluster, actor=request.user):
        return _cluster_page(request, pk, dismiss=form)
    messages.success(request, f"{cluster.label} no longer counts as a gap.")
    return _back(request, pk)


@require_POST
def cluster_restore(request: HttpRequest, pk: int) -> HttpResponse:
    cluster = get_object_or_404(CLUSTERS.all(), pk=pk)
    try:
        lookalikes.cluster_restore(cluster=cluster, actor=request.user)
        messages.success(request, f"{cluster.label} counts again.")
    except TraceError as problem:
        messages.error(request, problem.message)
    return redirect("cluster", pk)


@require_http_methods(["GET", "HEAD", "POST"])
def cluster_assign(request: HttpRequest, pk: int) -> HttpResponse:
    if request.method != "POST":
        return _form(request, "coverage/_assign_form.html", get_object_or_404(CLUSTERS.all(), pk=pk))
    cluster, form = get_object_or_404(CLUSTERS.all(), pk=pk), AssignForm(request.POST)
    if not _decided(form, lookalikes.cluster_assign, cluster=cluster, actor=request.user):
        return _cluster_page(request, pk, assign=form)
    owner = form.cleaned_data["owner"]
    messages.success(request, f"{cluster.label} is {f'given to {owner}' if owner else 'given to nobody'}.")
    return _back(request, pk)


# The map.

MAP_LOCK = 7_210_402  # first half of an advisory lock: one layout of a clustering at a time
MEANS = """
SELECT c.id, cardinality(c.tool_ids), avg(t.embedding)::text FROM catalog_cluster c
CROSS JOIN LATERAL unnest(c.tool_ids) AS member(id) JOIN catalog_tool t ON t.id = member.id
WHERE c.clustering_id = %s GROUP BY c.id ORDER BY c.position, c.id
"""
MOST_CLUSTERS = 80  # whose tools are asked for at once
MOST_FOUND = 30


@lru_cache(maxsize=64)
def places(clustering: int) -> dict[int, tuple[int, int, int]]:
    """{cluster: (x, y, radius)} of every cluster of the clustering."""
    stored = ClusterPlace.objects.filter(cluster__clustering=clustering)
    if not stored.exists():
        _lay_out(clustering)
    return {pk: (x, y, radius) for pk, x, y, radius in stored.values_list("cluster_id", "x", "y", "radius")}


@transaction.atomic
def _lay_out(clustering: int) -> None:
    """Seconds for thousands of clusters; whoever asks at the same time waits for the first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [MAP_LOCK, clustering % 2**31])
        if ClusterPlace.objects.filter(cluster__clustering=clustering).exists():
            return
        cursor.execute(MEANS, [clustering])
        found = cursor.fetchall()
    means = [[float(value) for value in text.strip("[]").split(",")] if text else [] for _, _, text in found]
    # 0: nothing is embedded
    rows = np.zeros((len(found), max(map(len, means), default=1) or 1), dtype=np.float32)
    for place, mean in enumerate(means):
        rows[place, : len(mean)] = mean
    points, radii = layout(rows, np.array([size for _, size, _ in found], dtype=np.int64))
    made = [
        ClusterPlace(cluster_id=pk, x=int(x), y=int(y), radius=int(radius))
        for (pk, *_), (x, y), radius in zip(found, points, radii, strict=True)
    ]
    ClusterPlace.objects.bulk_create(made, batch_size=2000)


@require_GET
def map_page(request: HttpRequest) -> HttpResponse:
    """The frame of the picture; with ?cluster= its panel is part of the page."""
    domains = list(Domain.objects.all())
    if not domains:
        return render(request, "coverage/map.html", {"domains": domains})
    cluster = number_of(request.GET.get("cluster", ""))
    owner = Cluster.objects.filter(pk=cluster).values_list("clustering__domain_id", flat=True)
    page = pages.domain_coverage(request.GET.get("domain") or owner.first() or domains[0].slug)
    row = page.by_id.get(cluster)
    context = {
        "domains": domains,
        "page": page,
        "open": pages.without_rule(page),
        "states": pages.state_parts(page.domain, page.totals.states),
        "panel": pages.panel(page, row) if row else None,
    }
    return render(request, "coverage/map.html", context)


# kept by the browser, which asks each time whether it still holds
@cache_control(private=True, no_cache=True)
@gzip_page
@condition(etag_func=lambda request, domain: f'"{edition()}-{domain}"')
@require_GET
def map_clusters(request: HttpRequest, domain: str) -> JsonResponse:
    """Every cluster in columns, those with the most open pairs first: about 50 bytes each."""
    page = pages.domain_coverage(domain)
    at = places(page.clustering_id) if page.clustering_id else {}
    rows = [row for row in page.ranked if row.id in at]
    columns: dict[str, list[Any]] = {
        "id": [row.id for row in rows],
        "x": [at[row.id][0] for row in rows],
        "y": [at[row.id][1] for row in rows],
        "r": [at[row.id][2] for row in rows],
        "n": [row.size for row in rows],
        "state": [STATES.index(row.state) for row in rows],
        "share": [round(100 * row.covered / row.edges) if row.edges else 0 for row in rows],
        "label": [row.label for row in rows],
    }
    return _compact({"clustering": page.clustering, **columns})


def _compact(data: dict[str, Any]) -> JsonResponse:
    return JsonResponse(data, json_dumps_params={"separators": (",", ":"), "ensure_ascii": False})


@gzip_page
@require_GET
def map_tools(request: HttpRequest, domain: str) -> JsonResponse:
    """{cluster: {"tools": [[id, name, deprecated]], "edges": [[a, b, state]]}}; a and b are places in `tools`, `state`
    is 1 where a rule tells them apart, 2 where one only names them, else 0."""

    def tools_of(row: ClusterRow) -> dict[str, Any]:
        place = {tool.id: number for number, tool in enumerate(row.tools)}
        state = dict.fromkeys(row.coverage.covered, 1) | dict.fromkeys(row.coverage.named, 2)
        return {
            "tools": [[tool.id, tool.name, int(tool.deprecated)] for tool in row.tools],
            "edges": [[place[a], place[b], state.get((a, b), 0)] for a, b, _ in row.coverage.cluster.edges],
        }

    page = pages.domain_coverage(domain)
    wanted = numbers_of(request.GET.get("ids", "").split(","))[:MOST_CLUSTERS]
    return _compact({str(pk): tools_of(page.by_id[pk]) for pk in wanted if pk in page.by_id})


@require_GET
def map_search(request: HttpRequest, domain: str) -> JsonResponse:
    """Clusters and tools whose words are found: all matching ids to light up, and the first few to choose from."""
    page, text = pages.domain_coverage(domain), request.GET.get("q", "").strip()
    rows = pages.found_rows(page, text) if text else []
    words = text.casefold().split()

    def matching(row: ClusterRow) -> list[dict[str, Any]]:
        named = [tool for tool in row.tools if all(word in tool.name.casefold() for word in words)]
        return [{"id": tool.id, "name": tool.name} for tool in named[:3]]

    results = [{"cluster": row.id, "label": row.label, "tools": matching(row)} for row in rows[:MOST_FOUND]]
    return _compact({"ids": [row.id for row in rows], "results": results})


@require_GET
def cluster_panel(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: what one cluster holds, beside the picture."""
    cluster = get_object_or_404(Cluster.objects.select_related("clustering"), pk=pk)
    page = pages.domain_coverage(cluster.clustering.domain_id)
    if pk not in page.by_id:
        raise Http404
    return render(request, "coverage/_panel.html", {"panel": pages.panel(page, page.by_id[pk])})


# Addresses of coverage and clusters; their names have no namespace.
urlpatterns = [
    path("coverage/<slug:domain>.csv", gaps_csv, name="coverage-csv"),
    path("coverage/<slug:domain>/requests/", request_list, name="coverage-requests"),
    path("coverage/<slug:domain>/pairs/", pair_list, name="coverage-pairs"),
    path("coverage/<slug:domain>/misses/", miss_list, name="coverage-misses"),
    path("coverage/rules/<int:pk>/", rule_coverage, name="rule-coverage"),
    path("clusters/", cluster_list, name="clusters"),
    path("clusters/map/", map_page, name="clusters-map"),
    path("clusters/map/<slug:domain>.json", map_clusters, name="clusters-map-data"),
    path("clusters/map/<slug:domain>/tools.json", map_tools, name="clusters-map-tools"),
    path("clusters/map/<slug:domain>/search.json", map_search, name="clusters-map-search"),
    path("clusters/<int:pk>/", cluster_detail, name="cluster"),
    path("clusters/<int:pk>/panel/", cluster_panel, name="cluster-panel"),
    path("clusters/<int:pk>/dismiss/", cluster_dismiss, name="cluster-dismiss"),
    path("clusters/<int:pk>/restore/", cluster_restore, name="cluster-restore"),
    path("clusters/<int:pk>/assign/", cluster_assign, name="cluster-assign"),
]
