"""Pages of the real queries: the list, and the import from file to what is stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.core.query_files import GivenQuery, read_queries
from catalog.queries.imports import Proposal, queries_import, queries_preview, query_remove
from catalog.queries.registry import collections, real_queries, real_query
from trace_site.access import may
from trace_site.lib.errors import TraceError
from trace_site.limits import QUERIES_FILE
from trace_site.paging import keyset

# Forms of the real queries' pages.


MOST_ON_A_PAGE = 300
KILOBYTES = QUERIES_FILE // 1000


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
        help_text=f"TXT with one query a line, CSV with a column query, or JSON lines; at most {KILOBYTES} kB.",
    )
    pasted = forms.CharField(
        label="Or paste them",
        required=False,
        strip=False,
        max_length=KILOBYTES * 1000,
        help_text="One query a line.",
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
    )

    def clean_file(self) -> Any:
        upload = self.cleaned_data["file"]
        if upload and upload.size > KILOBYTES * 1000:
            raise forms.ValidationError(f"The file has {upload.size / 1000:,.0f} kB. Split it.")
        return upload

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors and bool(cleaned.get("file")) == bool((cleaned.get("pasted") or "").strip()):
            raise forms.ValidationError("Choose a file or paste queries, one of the two.")
        return cleaned


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What the editor made of the preview."""

    collection: str
    given: list[GivenQuery]
    no_person: list[int]

    @classmethod
    def read(cls, data: Mapping[str, str]) -> "Reviewed":
        """`text-N` is a row, `leave-N` leaves it out, `person-N` says that its names are none."""
        numbers = sorted(
            int(tail)
            for head, _, tail in (name.partition("-") for name in data)
            if head == "text" and tail.isascii() and tail.isdecimal() and len(tail) < 9
        )[:MOST_ON_A_PAGE]
        kept = [number for number in numbers if f"leave-{number}" not in data]
        return cls(
            data.get("collection", ""),
            [GivenQuery(number, data[f"text-{number}"]) for number in kept],
            [number for number in kept if f"person-{number}" in data],
        )


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
        given=reviewed.given, collection=reviewed.collection, actor=request.user, no_person=reviewed.no_person
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
