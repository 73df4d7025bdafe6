"""The settings page of second readings: a share per domain and style."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from synthesis.models import Sample
from synthesis.share_settings import Place, share_table, shares_set
from trace_site.lib.errors import TraceError


@require_http_methods(["GET", "POST"])
def second_shares(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        changed, wrong = typed(request)
        if not wrong:
            try:
                count = shares_set(shares=changed, actor=request.user)
            except TraceError as error:
                wrong = error.extra["places"]
            else:
                said = f"{count} share{'' if count == 1 else 's'} changed; readings from now on follow."
                messages.success(request, said if count else "Nothing was changed.")
                return redirect("synthesis:second_shares")
        return page(request, wrong)
    return page(request, {})


def typed(request: HttpRequest) -> tuple[dict[Place, float | None], dict[Place, str]]:
    """({place: the share}, {place: what is wrong}) of the cells the person changed: not what another has meanwhile."""
    changed: dict[Place, float | None] = {}
    wrong: dict[Place, str] = {}
    for name, text in request.POST.items():
        kind, _, place = name.partition("|")
        domain, _, style = place.partition("|")
        given = str(text).strip().removesuffix("%").strip().replace(",", ".")
        if kind != "share" or given == request.POST.get(f"was|{place}", ""):
            continue
        try:
            changed[domain, style] = float(given) / 100 if given else None
        except ValueError:
            wrong[domain, style] = f"'{given[:20]}' is no number."
    return changed, wrong


def page(request: HttpRequest, wrong: dict[Place, str]) -> HttpResponse:
    rows, first, second = share_table()
    shown = [
        {
            "row": row,
            "cells": [
                _shown(request, row.slug, cell, wrong.get((row.slug, cell.style), "")) for cell in row.cells
            ],
        }
        for row in rows
    ]
    context: dict[str, Any] = {
        "rows": shown,
        "styles": Sample.Style.labels,
        "first": first,
        "second": second,
        "wrong": wrong,
    }
    return render(request, "synthesis/quality_shares.html", context, status=422 if wrong else 200)


def _shown(request: HttpRequest, domain: str, cell: Any, problem: str) -> dict[str, Any]:
    """A cell as its field shows it: what was typed stays when it is refused."""
    name = f"{domain}|{cell.style}"
    own = "" if cell.own is None else f"{100 * cell.own:g}"
    return {
        "name": name,
        "was": own,
        "value": request.POST.get(f"share|{name}", own),
        "inherited": f"{100 * cell.share:g}",
        "cell": cell,
        "problem": problem,
    }
