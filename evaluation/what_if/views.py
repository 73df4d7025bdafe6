"""The what-if page: gaps to pick, what closing them would save and take, and what to do with the choice.

The address holds the choice, so it can be shared and works without scripts; with them a tick swaps the figures alone.
"""

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_POST

from catalog.lookalikes import cluster_assign
from catalog.models import Cluster, Clustering, Domain
from evaluation.coverage.counted import figures_by_domain
from evaluation.coverage.gaps import cluster_page, side_of
from evaluation.coverage.pages import gap_lines, model_words, requests_url, write_url
from evaluation.coverage.views import AssignForm, acting, figures_of
from evaluation.what_if.selectors import Choice, Plan, plan_of
from rules.suggestions.services import suggestions_draft
from trace_site.lib.cells import csv_lines
from trace_site.lib.errors import TraceError
from trace_site.paging import number_of

COLUMNS = (
    *("row", "id", "what", "state", "pairs_told_apart", "value", "low", "high", "unit"),
    *("labelled_requests", "wrong_of_them", "tools_measured", "tools_with_open_pairs", "computed_from"),
)
SIZE = 25  # gaps of a page


@require_GET
def what_if(request: HttpRequest) -> HttpResponse:
    domains = list(Domain.objects.all())
    if not domains:
        return render(request, "coverage/what_if.html", {"domains": domains})
    slug = request.GET.get("domain") or domains[0].slug
    domain = next((one for one in domains if one.slug == slug), None)
    if domain is None:
        raise Http404
    choice, figures = Choice.read(slug, request.GET.getlist("gap")), figures_by_domain(domains).get(slug)
    context: dict[str, Any] = {"domains": domains, "domain": domain, "choice": choice, "counted": figures}
    if figures is None:
        context["clustered"] = Clustering.objects.filter(domain=domain).exists()
        return render(request, "coverage/what_if.html", context)
    plan = plan_of(choice, figures) if choice.gaps else None
    context |= {
        "plan": plan,
        # with the addresses of the editor and of the labelled requests
        "picks": [
            (gap, write_url(slug, gap.open_tools), requests_url(slug, cluster=gap.pk))
            for gap in (plan.picks if plan else ())
        ],
        "who": model_words(figures),
        "nobody": {"pk": "choice"},
        **acting(request.user),
    }
    if request.headers.get("HX-Request"):
        return render(request, "coverage/_what_if.html", context)
    return render(request, "coverage/what_if.html", {**context, **_list(request, choice, side_of(figures))})


def _list(request: HttpRequest, choice: Choice, side: str) -> dict[str, Any]:
    """The gaps of one page, as the list of clusters shows them."""
    page = cluster_page(choice.domain, after=number_of(request.GET.get("after", ""), 9), size=SIZE)
    shown = [row.pk for row in page.rows]
    three = Choice(choice.domain, tuple(shown[:3]))
    return {
        "page": page,
        "rows": gap_lines(choice.domain, page.rows, request.user, side),
        "first_three": three.query if len(three.gaps) == 3 and not (choice.gaps or page.after) else "",
        # ticks that this part of the list does not show
        "kept_gaps": [pk for pk in choice.gaps if pk not in shown],
    }


def _plan(request: HttpRequest) -> Plan:
    """Of a choice sent with the request; raises Http404."""
    given = request.POST if request.method == "POST" else request.GET
    figures = figures_of(given.get("domain", ""))
    return plan_of(Choice.read(figures.domain_id, given.getlist("gap")), figures)


@require_GET
def what_if_csv(request: HttpRequest) -> HttpResponse:
    """A row for each pick, then one for each figure of all."""
    plan = _plan(request)
    rows: list[list[Any]] = [
        [
            *("gap", gap.pk, gap.cluster.label, gap.state, gap.uncovered),
            *(gap.score, gap.score_low, gap.score_high, "answers"),
            *(gap.n, gap.wrong_uncovered, gap.measured, len(gap.open_tools), ""),
        ]
        for gap in plan.picks
    ]
    for line in plan.lines:
        bounds = line.bounds or (line.figure.value, "", "")
        rows.append(["total", "", line.title, "", "", *bounds, line.unit, *[""] * 4, line.figure.basis])
    return HttpResponse(
        csv_lines(COLUMNS, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="what-if-{plan.choice.domain}.csv"'},
    )


@require_POST
def what_if_assign(request: HttpRequest) -> HttpResponse:
    """Give the clusters of the choice to one person."""
    plan, form = _plan(request), AssignForm(request.POST)
    found = Cluster.objects.filter(pk__in=[gap.pk for gap in plan.picks]).order_by("pk")
    try:
        if not form.is_valid():
            message = str(next(iter(form.errors.values()))[0])
            raise TraceError(message, code="bad_input")
        with transaction.atomic():
            for cluster in found:
                cluster_assign(cluster=cluster, actor=request.user, **form.cleaned_data)
        owner, many = form.cleaned_data["owner"], len(found)
        several = f"{many} clusters are" if many != 1 else f"{found[0].label} is"
        messages.success(request, f"{several} given to {owner or 'nobody'}.")
    except TraceError as error:
        messages.error(request, error.message)
    return redirect(f"{reverse('evaluation:what_if')}?{plan.choice.query}")


@require_POST
def what_if_draft(request: HttpRequest) -> HttpResponse:
    """Drafts of the rules suggested for the choice, for the person who asks."""
    plan = _plan(request)
    try:
        made = suggestions_draft(suggestions=[one.pk for one in plan.suggested], actor=request.user)
    except TraceError as error:
        messages.error(request, str(error))
        return redirect(f"{reverse('evaluation:what_if')}?{plan.choice.query}")
    if not made:
        messages.info(request, "Somebody is writing each of these rules already.")
    else:
        several = f"{len(made)} drafts are" if len(made) > 1 else "A draft is"
        messages.success(request, f"{several} yours. Read each, complete it, and submit it for review.")
    return redirect(f"{reverse('rules:requests')}?{urlencode({'whose': 'mine'})}")
