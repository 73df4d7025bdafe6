"""The team page: progress, speed, what is left, assignments, and who holds what."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from synthesis.models import Sample, SavedView
from synthesis.review import queue as review_queue
from synthesis.review.queue import reviewers
from synthesis.review.selectors import is_blind
from synthesis.samples.counts import waiting_total
from synthesis.samples.forms import QueueFilters, SampleFilters
from synthesis.team import selectors, services
from synthesis.team.selectors import visible_to, with_mentions
from synthesis.team.services import LONGEST, MOST, comment_add
from trace_site.access import ADMIN, roles_of
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError, status_of
from trace_site.paging import keyset, number_of


class AssignForm(forms.Form):
    """To whom, how many and why; which items is said by QueueFilters."""

    assignee = forms.ModelChoiceField(reviewers(), required=False, label="To", empty_label=None)
    count = forms.IntegerField(
        min_value=1,
        max_value=MOST,
        required=False,
        label="How many",
        widget=forms.NumberInput(attrs={"placeholder": "all"}),
    )
    note = forms.CharField(max_length=300, required=False, label="Note")


ENDED = 10  # assignments that ended and are still shown


@require_GET
def team(request: HttpRequest) -> HttpResponse:
    return _page(request)


def _page(
    request: HttpRequest, form: AssignForm | None = None, error: TraceError | None = None
) -> HttpResponse:
    found = selectors.team()
    filters = QueueFilters(request.POST if error else request.GET)
    context = {
        "team": found,
        "me": next((one for one in found["members"] if one["pk"] == request.user.pk), None),
        "for_me": waiting_total(request.user),
        "running": [(row, services.may_end(request.user, row)) for row in selectors.assignments()],
        "ended": selectors.assignments(ended=True)[:ENDED],
        "filters": filters,
        "form": form or AssignForm(initial={"assignee": request.user.pk}),
        "is_admin": ADMIN in roles_of(request.user),
        "error": error,
    }
    return render(request, "synthesis/team.html", context, status=status_of(error.code) if error else 200)


@require_GET
def assignable(request: HttpRequest) -> HttpResponse:
    """Fragment: how many items of the selection are free for this person."""
    form = AssignForm(request.GET)
    form.is_valid()
    person = form.cleaned_data.get("assignee") or request.user
    free = services.assignable(person, QueueFilters(request.GET).values())
    context = {
        "free": free[: MOST + 1].count(),  # MOST + 1 means more than MOST
        "most": MOST,
        "count": form.cleaned_data.get("count"),
        "person": person,
    }
    return render(request, "synthesis/_assignable.html", context)


@require_POST
def assign(request: HttpRequest) -> HttpResponse:
    form = AssignForm(request.POST)
    if not form.is_valid():
        name, errors = next(iter(form.errors.items()))
        mistake = f"{form.fields[name].label}: {errors[0]}"
        return _page(request, form, TraceError(mistake, code="bad_input"))
    given, filters = form.cleaned_data, QueueFilters(request.POST).values()
    assignee = given.pop("assignee") or request.user
    try:
        row = services.assign(assignee=assignee, actor=request.user, filters=filters, **given)
    except TraceError as error:
        if error.code == "not_allowed":
            raise
        return _page(request, form, error)
    whom = "you" if row.assignee_id == request.user.pk else row.assignee.username
    messages.success(request, f"{row.count:,} given to {whom}. Nobody else meets them now.")
    return redirect("synthesis:team")


@require_POST
def take_back(request: HttpRequest, pk: int) -> HttpResponse:
    count = services.take_back(assignment=pk, actor=request.user)
    messages.success(request, f"{count:,} taken back; they are everybody's again.")
    return redirect("synthesis:team")


@require_POST
def reassign(request: HttpRequest, pk: int) -> HttpResponse:
    person = reviewers().filter(pk=number_of(request.POST.get("assignee", ""))).first()
    if person is None:
        raise TraceError("choose a reviewer.", code="bad_input", where="assignee")
    new = services.reassign(assignment=pk, assignee=person, actor=request.user)
    messages.success(request, f"{new.count:,} given to {person} instead.")
    return redirect("synthesis:team")


@require_POST
def team_release(request: HttpRequest, pk: int) -> HttpResponse:
    """Free what a colleague holds; what they are reading may go to somebody else, and their decision then fails."""
    person = get_object_or_404(User, pk=pk)
    count = review_queue.release(person)
    audit_models.record(actor=request.user, action="review.released", obj=person, detail={"items": count})
    messages.success(request, f"{count} held by {person} freed.")
    return redirect("synthesis:team")


# Comments on samples: the fragment that the sample page and the review screen load, and all of them as a list.


MOST_COMMENTS = 200


@require_http_methods(["GET", "POST"])
def sample_comments(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: what is said about one sample; POST adds to it. What a reader must not see yet is left out, whatever
    the address asks.
    """
    sample = get_object_or_404(Sample.objects.defer("trace"), pk=pk)
    if request.method == "POST":
        comment_add(sample=sample, author=request.user, text=request.POST.get("text", ""))
    newest = list(visible_to(request.user).filter(sample=sample).order_by("-id")[:MOST_COMMENTS])
    context: dict[str, Any] = {
        "sample": sample,
        "comments": with_mentions(newest[::-1]),
        "blind": is_blind(request.user, sample),
        "longest": LONGEST,
    }
    return render(request, "synthesis/_comments.html", context)


@require_GET
def comment_list(request: HttpRequest) -> HttpResponse:
    """Everything said lately, newest first, with the way to the sample."""
    rows = visible_to(request.user).select_related("author", "sample").defer("sample__trace")
    page = keyset(rows, request.GET.get("after", ""), newest=True)
    return render(request, "synthesis/comments.html", {"page": page, "comments": with_mentions(page.rows)})


# Saved views of the queue and of the sample list: one fragment for both pages.


FORMS: dict[str, type[QueueFilters] | type[SampleFilters]] = {
    "review": QueueFilters,
    "samples": SampleFilters,
}


def checked(page: str, query: str) -> dict[str, Any]:
    """The filters of an address as the page's own form takes them: what it would ignore is left out."""
    return FORMS[page](QueryDict(query)).values()


@require_http_methods(["GET", "POST"])
def views(request: HttpRequest) -> HttpResponse:
    """Fragment: the views of ?page=; POST saves the filters of the page it is on under a name."""
    page = (request.POST if request.method == "POST" else request.GET).get("page", "")
    if page not in SavedView.Page.values:
        message = f"there is no page {page!r}."
        raise TraceError(message, code="bad_input", where="page", hint="review or samples.")
    if request.method == "POST":
        at = request.headers.get("HX-Current-URL", "")
        query = at.partition("#")[0].partition("?")[2] if at else request.POST.get("query", "")
        name, shared = request.POST.get("name", ""), "shared" in request.POST
        kept = urlencode(checked(page, query))
        services.view_save(owner=request.user, page=page, name=name, query=kept, shared=shared)
    return fragment(request, page)


def fragment(request: HttpRequest, page: str) -> HttpResponse:
    rows = SavedView.objects.filter(Q(owner=request.user.pk) | Q(shared=True), page=page)
    found = [
        {"row": row, "filters": checked(page, row.query), "mine": row.owner_id == request.user.pk}
        for row in rows.select_related("owner").order_by("name", "id")
    ]
    context: dict[str, Any] = {"views": found, "page": page, "address": reverse(f"synthesis:{page}")}
    context["is_admin"] = ADMIN in roles_of(request.user)
    return render(request, "synthesis/_saved_views.html", context)


@require_POST
def change(request: HttpRequest, pk: int) -> HttpResponse:
    """Rename, share or keep to oneself."""
    name, shared = request.POST.get("name", ""), "shared" in request.POST
    row = services.view_change(view=pk, actor=request.user, name=name, shared=shared)
    return fragment(request, row.page)


@require_POST
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    return fragment(request, services.view_delete(view=pk, actor=request.user).page)
