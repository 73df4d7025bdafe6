"""Pages of the real queries: the list, and the import from file to what is stored."""

import re
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.queries.imports import (
    GivenQuery,
    Proposal,
    queries_import,
    queries_preview,
    query_remove,
    read_queries,
)
from catalog.queries.registry import real_queries, real_query
from trace_site.access import may
from trace_site.lib.errors import TraceError
from trace_site.limits import QUERIES_FILE, file_at_most
from trace_site.paging import keyset

MOST_ON_A_PAGE = 300


class QueriesForm(forms.Form):
    """A file or a paste."""

    collection = forms.CharField(
        label="Collection",
        max_length=100,
        help_text="Where they come from, such as Help desk, October. Removing and searching go by it.",
        widget=forms.TextInput(attrs={"list": "collections", "autocomplete": "off"}),
    )
    file = forms.FileField(
        label="File",
        required=False,
        help_text="TXT with one query a line, CSV with a column query, or JSON lines; at most 1 MB.",
        validators=[file_at_most(QUERIES_FILE, "Split it.")],
    )
    pasted = forms.CharField(
        label="Or paste them",
        required=False,
        strip=False,
        max_length=QUERIES_FILE,
        help_text="One query a line.",
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors and bool(cleaned.get("file")) == bool((cleaned.get("pasted") or "").strip()):
            raise forms.ValidationError("Choose a file or paste queries, one of the two.")
        return cleaned


def _collections() -> list[tuple[str, int]]:
    """(name, how many queries) of every collection of real queries."""
    return sorted(real_queries().order_by().values_list("collection").annotate(n=Count("pk")))


@require_GET
def query_list(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.GET.get(name, "").strip()[:200] for name in ("q", "collection")}
    rows = real_queries(chosen["q"].replace("\0", ""), chosen["collection"].replace("\0", ""))
    page = keyset(rows, request.GET.get("after", ""), newest=True)
    context = {"page": page, "total": rows.count(), "collections": _collections(), "chosen": chosen}
    return render(request, "catalog/queries.html", context)


@never_cache
@require_http_methods(["GET", "POST"])
def query_import(request: HttpRequest) -> HttpResponse:
    """Choose a file or paste; what can be read is answered with what would be stored. Nothing is kept meanwhile."""
    form = QueriesForm(request.POST or None, request.FILES or None)
    context: dict[str, Any] = {"form": form, "collections": _collections()}
    if request.method == "POST" and form.is_valid():
        chosen = form.cleaned_data
        upload = chosen["file"]
        try:
            given = read_queries(upload.read(), upload.name) if upload else read_queries(chosen["pasted"])
            if len(given) > MOST_ON_A_PAGE:
                raise TraceError(
                    f"{len(given):,} queries are too many to read on one page; the limit is {MOST_ON_A_PAGE}.",
                    code="too_many",
                    hint="Split them, or use manage.py queries_import.",
                )
            return _preview(request, chosen["collection"], queries_preview(given))
        except TraceError as error:
            context["problem"] = error
    return render(request, "catalog/queries_import.html", context, status=422 if form.is_bound else 200)


def _preview(
    request: HttpRequest, collection: str, proposals: list[Proposal], added: int = 0, status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {"collection": collection, "added": added, "ready": [], "refused": []}
    for one in proposals:
        context["refused" if one.code else "ready"].append(one)
    return render(request, "catalog/queries_preview.html", context, status=status)


@never_cache
@require_POST
def query_apply(request: HttpRequest) -> HttpResponse:
    """Store the rows as the editor left them; scrubbed and checked again, the refused ones come back. `text-N` is a
    row, `leave-N` leaves it out, `person-N` says that its names are none.
    """
    data = request.POST
    fields = (re.fullmatch(r"text-(0|[1-9][0-9]{0,7})", name) for name in data)
    numbers = sorted(int(field[1]) for field in fields if field)[:MOST_ON_A_PAGE]
    kept = [number for number in numbers if f"leave-{number}" not in data]
    collection = data.get("collection", "")
    found = queries_import(
        given=[GivenQuery(number, data[f"text-{number}"]) for number in kept],
        collection=collection,
        actor=request.user,
        no_person=[number for number in kept if f"person-{number}" in data],
    )
    refused = [one for one in found if one.code]
    if refused:
        return _preview(request, collection, refused, len(found) - len(refused), status=422)
    stored = f"{len(found)} queries are in the registry." if found else "Nothing was stored."
    messages.success(request, stored)
    return redirect("catalog:queries" if may(request.user, "catalog:queries") else "catalog:queries_import")


@require_POST
def query_delete(request: HttpRequest, pk: int) -> HttpResponse:
    query_remove(row=real_query(pk), actor=request.user)
    messages.success(request, "The query is removed; new samples are no longer shown it.")
    return redirect("catalog:queries")
