"""Pages of the real queries: the list, and the import from file to what is stored."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.core.query_files import read_queries
from catalog.forms_queries import MOST_ON_A_PAGE, QueriesForm, Reviewed
from catalog.queries_import import Proposal, queries_import, queries_preview, query_remove
from catalog.selectors_queries import collections, real_queries, real_query
from trace_site.access import may
from trace_site.lib.errors import TraceError
from trace_site.paging import keyset


@require_GET
def query_list(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.GET.get(name, "").strip()[:200] for name in ("q", "collection")}
    rows = real_queries(chosen["q"].replace("\0", ""), chosen["collection"].replace("\0", ""))
    context = {
        "page": keyset(rows, request.GET.get("after", ""), newest=True),
        "total": rows.count(),
        "collections": collections(),
        "chosen": chosen,
    }
    return render(request, "catalog/queries.html", context)


@never_cache
@require_http_methods(["GET", "POST"])
def query_import(request: HttpRequest) -> HttpResponse:
    """Choose a file or paste; what can be read is answered with what would be stored. Nothing is kept meanwhile."""
    form = QueriesForm(request.POST or None, request.FILES or None)
    context: dict[str, Any] = {"form": form, "collections": collections()}
    if request.method == "POST" and form.is_valid():
        chosen = form.cleaned_data
        try:
            proposals = _proposals(chosen)
        except TraceError as error:
            context["problem"] = error
        else:
            return _preview(request, chosen["collection"], proposals)
    return render(request, "catalog/queries_import.html", context, status=422 if form.is_bound else 200)


def _proposals(chosen: dict[str, Any]) -> list[Proposal]:
    upload = chosen["file"]
    given = read_queries(upload.read(), upload.name) if upload else read_queries(chosen["pasted"])
    if len(given) > MOST_ON_A_PAGE:
        raise TraceError(
            f"{len(given):,} queries are too many to read on one page; the limit is {MOST_ON_A_PAGE}.",
            code="too_many",
            hint="Split them, or use manage.py queries_import.",
        )
    return queries_preview(given)


def _preview(
    request: HttpRequest, collection: str, proposals: list[Proposal], added: int = 0, status: int = 200
) -> HttpResponse:
    context = {
        "collection": collection,
        "ready": [one for one in proposals if not one.code],
        "refused": [one for one in proposals if one.code],
        "added": added,
    }
    return render(request, "catalog/queries_preview.html", context, status=status)


@never_cache
@require_POST
def query_apply(request: HttpRequest) -> HttpResponse:
    """Store the rows as the editor left them; scrubbed and checked again, the refused ones come back."""
    reviewed = Reviewed.read(request.POST)
    done = queries_import(
        given=reviewed.given,
        collection=reviewed.collection,
        actor=request.user,
        no_person=reviewed.no_person,
    )
    if done.refused:
        return _preview(request, reviewed.collection, done.refused, len(done.taken), status=422)
    messages.success(
        request, f"{len(done.taken)} queries are in the registry." if done.taken else "Nothing was stored."
    )
    return redirect("catalog:queries" if may(request.user, "catalog:queries") else "catalog:queries_import")


@require_POST
def query_delete(request: HttpRequest, pk: int) -> HttpResponse:
    query_remove(row=real_query(pk), actor=request.user)
    messages.success(request, "The query is removed; new samples are no longer shown it.")
    return redirect("catalog:queries")
