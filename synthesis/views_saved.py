"""Saved views of the queue and of the sample list: one fragment for both pages."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from synthesis import saved_views
from synthesis.forms import SampleFilters
from synthesis.forms_review import QueueFilters
from synthesis.models import SavedView
from trace_site.access import ADMIN, roles_of
from trace_site.lib.errors import TraceError

FORMS: dict[str, type[QueueFilters] | type[SampleFilters]] = {
    SavedView.Page.REVIEW: QueueFilters,
    SavedView.Page.SAMPLES: SampleFilters,
}
ADDRESSES = {SavedView.Page.REVIEW: "synthesis:review", SavedView.Page.SAMPLES: "synthesis:samples"}


def checked(page: str, query: str) -> dict[str, Any]:
    """The filters of an address as the page's own form takes them: what it would ignore is left out."""
    return FORMS[SavedView.Page(page)](QueryDict(query)).values()


@require_http_methods(["GET", "POST"])
def views(request: HttpRequest) -> HttpResponse:
    """Fragment: the views of ?page=; POST saves the filters of the page it is on under a name."""
    page = (request.POST if request.method == "POST" else request.GET).get("page", "")
    if page not in SavedView.Page.values:
        raise TraceError(
            f"there is no page {page!r}.", code="bad_input", where="page", hint="review or samples."
        )
    if request.method == "POST":
        at = request.headers.get("HX-Current-URL", "")
        query = at.partition("#")[0].partition("?")[2] if at else request.POST.get("query", "")
        saved_views.view_save(
            owner=request.user,
            page=page,
            name=request.POST.get("name", ""),
            query=urlencode(checked(page, query)),
            shared="shared" in request.POST,
        )
    return fragment(request, page)


def fragment(request: HttpRequest, page: str) -> HttpResponse:
    found = [
        {"row": row, "filters": checked(page, row.query), "mine": row.owner_id == request.user.pk}
        for row in saved_views.views_of(request.user, page)
    ]
    context = {
        "views": found,
        "page": page,
        "address": reverse(ADDRESSES[SavedView.Page(page)]),
        "is_admin": ADMIN in roles_of(request.user),
    }
    return render(request, "synthesis/_saved_views.html", context)


@require_POST
def change(request: HttpRequest, pk: int) -> HttpResponse:
    """Rename, share or keep to oneself."""
    name, shared = request.POST.get("name", ""), "shared" in request.POST
    row = saved_views.view_change(view=pk, actor=request.user, name=name, shared=shared)
    return fragment(request, row.page)


@require_POST
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    return fragment(request, saved_views.view_delete(view=pk, actor=request.user).page)
