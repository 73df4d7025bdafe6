"""The what-if page: gaps to pick, what closing them would save and take, and what to do with the choice.

The address holds the choice, so it can be shared and works without scripts; with them a tick swaps the figures alone.
"""

from collections import defaultdict
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
from catalog.selectors import tools_by_id
from evaluation.coverage.counted import ClusterCount, figures_by_domain
from evaluation.coverage.gaps import side_of
from evaluation.coverage.pages import STATES, model_words, requests_url, write_url
from evaluation.coverage.views import AssignForm, acting, figures_of
from evaluation.what_if.selectors import (
    SHOWN_DRAFTS,
    Asked,
    Choice,
    Draft,
    Line,
    Pick,
    Plan,
    drafts_in,
    gap_page,
    plan_of,
)
from rules.suggestions.services import suggestions_draft
from trace_site.lib.cells import csv_lines
from trace_site.lib.errors import TraceError

COLUMNS = (
    *("row", "id", "what", "state", "tools", "pairs_told_apart", "value", "low", "high", "unit"),
    *("labelled_requests", "wrong_of_them", "tools_measured", "tools_with_open_pairs", "computed_from"),
)
SHOWN_TOOLS = 3


@require_GET
def what_if(request: HttpRequest) -> HttpResponse:
    domains = list(Domain.objects.all())
    if not domains:
        return render(request, "coverage/what_if.html", {"domains": domains})
    slug = request.GET.get("domain") or domains[0].slug
    domain = next((one for one in domains if one.slug == slug), None)
    if domain is None:
        raise Http404
    choice, figures = Choice.read(slug, request.GET), figures_by_domain(domains).get(slug)
    context: dict[str, Any] = {"domains": domains, "domain": domain, "choice": choice, "counted": figures}
    if figures is None:
        context["clustered"] = Clustering.objects.filter(domain=domain).exists()
        return render(request, "coverage/what_if.html", context)
    plan = plan_of(choice, figures) if len(choice) else None
    context |= {
        "plan": plan,
        "picks": [_linked(slug, pick) for pick in plan.picks] if plan else [],
        "who": model_words(figures),
        "nobody": {"pk": "choice"},
        **acting(request.user),
    }
    if request.headers.get("HX-Request"):
        return render(request, "coverage/_what_if.html", context)
    return render(request, "coverage/what_if.html", {**context, **_list(request, choice, side_of(figures))})


def _linked(domain: str, pick: Pick) -> tuple[Pick, str, str]:
    """With the addresses of the editor and of the labelled requests."""
    writing = write_url(domain, pick.gap.open_tools)
    return pick, writing, requests_url(domain, tool=sorted(pick.tools))


def _list(request: HttpRequest, choice: Choice, side: str) -> dict[str, Any]:
    """The gaps of one page with their tools and suggestions; six queries."""
    page = gap_page(choice.domain, request.GET.get("after", ""))
    rows: list[ClusterCount] = page.rows
    of_gap: defaultdict[int, list[Draft]] = defaultdict(list)
    for draft in drafts_in(choice.domain, rows):
        of_gap[draft.gap.pk].append(draft)
    drafted = [draft for drafts in of_gap.values() for draft in drafts[:SHOWN_DRAFTS]]
    asked = Asked.of({tool for draft in drafted for pair in draft.pairs for tool in pair}, side)
    wanted = [*(tool for row in rows for tool in row.open_tools[:SHOWN_TOOLS])]
    wanted += [tool for draft in drafted for tool in draft.row.tool_ids]
    tools = {tool.pk: tool for tool in tools_by_id(wanted)}
    shown = [
        {
            "row": row,
            "label": STATES[row.state].label,
            "asked_url": requests_url(choice.domain, cluster=row.pk),
            "tools": [tools[pk] for pk in row.open_tools[:SHOWN_TOOLS] if pk in tools],
            "more": len(row.open_tools) - SHOWN_TOOLS,
            "drafts": [
                (
                    asked.pick(row, draft),
                    [tools[pk] for pk in draft.row.tool_ids if pk in tools],
                )
                for draft in of_gap[row.pk][:SHOWN_DRAFTS]
            ],
            "more_drafts": len(of_gap[row.pk]) - SHOWN_DRAFTS,
        }
        for row in rows
    ]
    seen = {row.pk for row in rows}, {draft.row.pk for draft in drafted}
    three = Choice(choice.domain, tuple(row.pk for row in rows[:3])) if not len(choice) else None
    return {
        "page": page,
        "rows": shown,
        "first_three": three.query if three and len(three) == 3 and not page.after else "",
        # ticks that this part of the list does not show
        "kept_gaps": [pk for pk in choice.gaps if pk not in seen[0]],
        "kept_rules": [pk for pk in choice.rules if pk not in seen[1]],
    }


def _plan(request: HttpRequest) -> Plan:
    """Of a choice sent with the request; raises Http404."""
    given = request.POST if request.method == "POST" else request.GET
    figures = figures_of(given.get("domain", ""))
    return plan_of(Choice.read(figures.domain_id, given), figures)


@require_GET
def what_if_csv(request: HttpRequest) -> HttpResponse:
    """A row for each pick, then one for each figure of all."""
    plan = _plan(request)
    rows = [*map(_pick_row, plan.picks), *map(_line_row, plan.lines)]
    return HttpResponse(
        csv_lines(COLUMNS, ([row.get(name, "") for name in COLUMNS] for row in rows)),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="what-if-{plan.choice.domain}.csv"'},
    )


def _pick_row(pick: Pick) -> dict[str, Any]:
    draft = pick.draft
    tools = [draft.row.content["target"], *draft.row.content["confusables"]] if draft else []
    return {
        "row": "suggested rule" if draft else "gap",
        "id": draft.row.pk if draft else pick.gap.pk,
        "what": pick.gap.cluster.label,
        "state": pick.gap.state,
        "tools": " ".join(tools),
        "pairs_told_apart": pick.pairs,
        **(pick.misses._asdict() if pick.misses else {}),
        "unit": "answers",
        "labelled_requests": pick.n,
        "wrong_of_them": pick.wrong,
        "tools_measured": pick.measured,
        "tools_with_open_pairs": len(pick.terms),
    }


def _line_row(line: Line) -> dict[str, Any]:
    bounds = line.bounds._asdict() if line.bounds else {"value": line.figure.value}
    return {
        "row": "total",
        "what": line.title,
        **bounds,
        "unit": line.unit,
        "computed_from": line.figure.basis,
    }


@require_POST
def what_if_assign(request: HttpRequest) -> HttpResponse:
    """Give the clusters of the choice to one person."""
    plan, form = _plan(request), AssignForm(request.POST)
    found = Cluster.objects.filter(pk__in={pick.gap.pk for pick in plan.picks}).order_by("pk")
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
    """Drafts of the picked suggestions, for the person who asks."""
    plan = _plan(request)
    try:
        made = suggestions_draft(suggestions=[draft.row.pk for draft in plan.drafts], actor=request.user)
    except TraceError as error:
        messages.error(request, str(error))
        return redirect(f"{reverse('evaluation:what_if')}?{plan.choice.query}")
    if not made:
        messages.info(request, "Somebody is writing each of these rules already.")
    else:
        several = f"{len(made)} drafts are" if len(made) > 1 else "A draft is"
        messages.success(request, f"{several} yours. Read each, complete it, and submit it for review.")
    return redirect(f"{reverse('rules:requests')}?{urlencode({'whose': 'mine'})}")
