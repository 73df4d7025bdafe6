"""Pages of change control: the list, one request with what may be done next, the comparison of two versions."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_GET

from rules.changes import drafts, selectors, services
from rules.core.draft import form_words, in_form_words
from rules.models import ChangeRequest, RuleChange
from trace_site.lib.errors import TraceError, status_of
from trace_site.paging import keyset, number_of


@require_GET
def request_list(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.GET.get(name, "").strip() for name in ("state", "whose", "q")}
    rows = selectors.request_rows(
        user=request.user, state=chosen["state"], whose=chosen["whose"], search=chosen["q"][:200]
    )
    context = {
        "page": keyset(rows, request.GET.get("after", ""), newest=True),
        "chosen": chosen,
        "any": any(chosen.values()),
        "states": selectors.state_counts(),
        "waiting": selectors.waiting_for(request.user).count(),
        "rejected": selectors.rejected_of(request.user)[:5],
        "blocked": selectors.blocked_of(request.user)[:5],
    }
    return render(request, "rules/request_list.html", context)


@require_GET
def request_count(request: HttpRequest) -> HttpResponse:
    """The number beside Changes in the sidebar: what waits for this person, and what was sent back to them."""
    told = (
        selectors.waiting_for(request.user).count()
        + selectors.rejected_of(request.user).count()
        + selectors.blocked_of(request.user).count()
    )
    return HttpResponse(f"{told:,}" if told else "")


@require_GET
def request_impact(request: HttpRequest, pk: int) -> HttpResponse:
    total, each = selectors.request_impact(pk)
    return render(request, "rules/_request_impact.html", {"total": total, "each": each})


@require_GET
def request_page(request: HttpRequest, pk: int) -> HttpResponse:
    return _page(request, pk)


def _page(request: HttpRequest, pk: int, problem: TraceError | None = None, tried: str = "") -> HttpResponse:
    """The page; after a refusal with the reason on top and what was typed kept in its field."""
    detail = selectors.request_detail(pk, request.user)
    unfinished = {
        view.change.pk: [form_words({"pointer": place, "message": text}) for place, text in view.problems]
        for view in detail.changes
    }
    context = {
        "unfinished": unfinished,
        "detail": detail,
        "change_request": detail.request,
        "problem": problem,
        "tried": tried,
        "typed": request.POST,
    }
    if detail.request.state == ChangeRequest.State.APPLIED:
        context["published"] = selectors.published_by(detail.request)
    return render(request, "rules/request.html", context, status=status_of(problem.code) if problem else 200)


def request_action(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """One verb on a request; the form carries the revision that the person saw."""
    if verb not in VERBS and verb not in CHANGE_VERBS:
        raise Http404
    row = selectors.request_row(pk)
    if request.method != "POST":
        # where a login that ran out leads back to: nothing was done, and the request is where it was
        context = {"change_request": row, "verb": verb}
        response = render(request, "rules/request_not_sent.html", context, status=405)
        response["Allow"] = "POST"
        return response
    try:
        done = _done(request, row, verb)
    except TraceError as error:
        told = in_form_words(error)
        told.where = error.extra.get("label", told.where)
        return _page(request, pk, told, verb)
    messages.success(request, done)
    return redirect("rules:request", pk)


# verb -> (service, the fields it takes beside the revision, what is said afterwards)
VERBS: dict[str, tuple[Callable[..., Any], tuple[str, ...], str]] = {
    "submit": (
        services.request_submit,
        (),
        "Request {row.pk} is submitted. Somebody who did not write in it decides.",
    ),
    "approve": (services.request_approve, ("comment",), "You approved revision {row.revision}; {next}."),
    "reject": (
        services.request_reject,
        ("reason",),
        "Request {row.pk} is rejected; {row.author.username} is told why.",
    ),
    "schedule": (
        services.request_schedule,
        ("at",),
        "It will be applied on {row.apply_at:%-d %b %Y at %H:%M} UTC, unless something newer stands in the way.",
    ),
    "unschedule": (services.request_unschedule, (), "It is off the schedule, and still approved."),
    "apply": (services.request_apply, (), "Request {row.pk} is applied."),
    "bypass": (
        services.request_bypass,
        ("reason",),
        "Request {row.pk} is applied without approval; the audit names you and the reason.",
    ),
    "cancel": (services.request_cancel, ("reason",), "Request {row.pk} is cancelled; it can be reopened."),
    "reopen": (services.request_reopen, (), "Request {row.pk} is a draft again."),
    "comment": (services.request_comment, ("text",), "Your comment is added."),
    "describe": (
        drafts.request_describe,
        ("title", "description"),
        "The title and the description are saved.",
    ),
}
CHANGE_VERBS = {"remove": drafts.change_remove, "rebase": drafts.change_rebase}


def _done(request: HttpRequest, row: ChangeRequest, verb: str) -> str:
    """Do it, and say what was done. Raises TraceError, `stale_revision` when the form names no revision."""
    revision = number_of(request.POST.get("revision", ""), digits=9)
    if not revision and verb != "comment":
        raise TraceError(
            "The form does not say which revision you saw.",
            code="stale_revision",
            hint="Read the request again, then decide.",
        )
    if verb in CHANGE_VERBS:
        change = get_object_or_404(RuleChange, pk=number_of(request.POST.get("change", "")), request=row)
        done = CHANGE_VERBS[verb](change=change, expected=revision, actor=request.user)
        if isinstance(done, RuleChange):
            return f"The change now stands on {done.base}; approvals of the earlier revision do not count."
        return "The change is taken out of the request."
    call, names, sentence = VERBS[verb]
    given: dict[str, Any] = {name: request.POST.get(name, "") for name in names}
    if verb != "comment":
        given["revision"] = revision
    if "at" in given:
        given["at"] = _time(given["at"])
    row = call(request=row, actor=request.user, **given)
    approved = verb == "approve" and row.state == "approved"
    next_step = "it can be applied or scheduled" if approved else "more approvals are needed"
    return sentence.format(row=row, next=next_step)


def _time(text: str) -> datetime:
    """The form's date and time, which is UTC. Raises TraceError `bad_time`."""
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None:
        hint = "Write it as 2027-01-31T09:00, in UTC."
        raise TraceError(f"'{text[:40]}' is not a date and time.", code="bad_time", hint=hint)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
