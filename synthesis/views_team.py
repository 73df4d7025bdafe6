"""The team page: progress, speed, what is left, assignments, and who holds what."""

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from synthesis import assignments, claims, selectors_team
from synthesis.forms_review import QueueFilters
from synthesis.forms_team import AssignForm
from synthesis.selectors_counts import waiting_total
from trace_site import audit
from trace_site.access import ADMIN, roles_of
from trace_site.lib.errors import TraceError, status_of

ENDED = 10  # assignments that ended and are still shown


@require_GET
def team(request: HttpRequest) -> HttpResponse:
    return _page(request)


def _page(
    request: HttpRequest, form: AssignForm | None = None, error: TraceError | None = None
) -> HttpResponse:
    found = selectors_team.team()
    filters = QueueFilters(request.POST if error else request.GET)
    context = {
        "team": found,
        "me": next((member for member in found.members if member.pk == request.user.pk), None),
        "for_me": waiting_total(request.user),
        "running": [_row(request, row) for row in selectors_team.assignments()],
        "ended": selectors_team.assignments(ended=True)[:ENDED],
        "filters": filters,
        "form": form or AssignForm(initial={"assignee": request.user.pk}),
        "is_admin": ADMIN in roles_of(request.user),
        "error": error,
    }
    return render(request, "synthesis/team.html", context, status=status_of(error.code) if error else 200)


def _row(request: HttpRequest, row: Any) -> dict[str, Any]:
    return {"row": row, "may_end": assignments.may_end(request.user, row)}


@require_GET
def assignable(request: HttpRequest) -> HttpResponse:
    """Fragment: how many items of the selection are free for this person."""
    form = AssignForm(request.GET)
    form.is_valid()
    person = form.cleaned_data.get("assignee") or request.user
    context = {
        "free": assignments.count_free(person, QueueFilters(request.GET).values()),
        "most": assignments.MOST,
        "count": form.cleaned_data.get("count"),
        "person": person,
    }
    return render(request, "synthesis/_assignable.html", context)


@require_POST
def assign(request: HttpRequest) -> HttpResponse:
    form = AssignForm(request.POST)
    if not form.is_valid():
        return _page(request, form, TraceError(form.first_mistake, code="bad_input"))
    given = form.cleaned_data
    try:
        row = assignments.assign(
            assignee=given["assignee"] or request.user,
            actor=request.user,
            filters=QueueFilters(request.POST).values(),
            count=given["count"],
            note=given["note"],
        )
    except TraceError as error:
        if error.code == "not_allowed":
            raise
        return _page(request, form, error)
    whom = "you" if row.assignee_id == request.user.pk else row.assignee.username
    messages.success(request, f"{row.count:,} given to {whom}. Nobody else meets them now.")
    return redirect("synthesis:team")


@require_POST
def take_back(request: HttpRequest, pk: int) -> HttpResponse:
    count = assignments.take_back(assignment=assignments.assignment_row(pk), actor=request.user)
    messages.success(request, f"{count:,} taken back; they are everybody's again.")
    return redirect("synthesis:team")


@require_POST
def reassign(request: HttpRequest, pk: int) -> HttpResponse:
    to = request.POST.get("assignee", "")
    person = selectors_team.reviewers().filter(pk=int(to) if to.isdecimal() and len(to) < 19 else 0).first()
    row = assignments.assignment_row(pk)
    if person is None:
        raise TraceError("choose a reviewer.", code="bad_input", where="assignee")
    new = assignments.reassign(assignment=row, assignee=person, actor=request.user)
    messages.success(request, f"{new.count:,} given to {person} instead.")
    return redirect("synthesis:team")


@require_POST
def team_release(request: HttpRequest, pk: int) -> HttpResponse:
    """Free what a colleague holds; what they are reading may go to somebody else, and their decision then fails."""
    person = get_object_or_404(User, pk=pk)
    count = claims.release(person)
    audit.record(
        actor=cast(User, request.user), action="review.released", obj=person, detail={"items": count}
    )
    messages.success(request, f"{count} held by {person} freed.")
    return redirect("synthesis:team")
