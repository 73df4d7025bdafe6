"""Pages of change control: the list, one request with what may be done next, the comparison of two versions."""

from collections.abc import Callable
from datetime import UTC, datetime

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_GET

from rules.changes import selectors, services
from rules.core.draft import form_words, in_form_words
from rules.models import ChangeRequest, RuleChange
from trace_site.lib.errors import TraceError, status_of
from trace_site.paging import keyset


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
def request_page(request: HttpRequest, pk: int) -> HttpResponse:
    return _page(request, pk)


@require_GET
def request_impact(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: what applying makes stale."""
    total, each = selectors.request_impact(pk)
    return render(request, "rules/_request_impact.html", {"total": total, "each": each})


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
    if verb not in ACTIONS:
        raise Http404
    if request.method != "POST":
        # where a login that ran out leads back to: nothing was done, and the request is where it was
        context = {"change_request": selectors.request_row(pk), "verb": verb}
        response = render(request, "rules/request_not_sent.html", context, status=405)
        response["Allow"] = "POST"
        return response
    return _act(request, pk, verb)


def _act(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    row = selectors.request_row(pk)
    try:
        done = ACTIONS[verb](request, row)
    except TraceError as error:
        told = in_form_words(error)
        told.where = error.extra.get("label", told.where)
        return _page(request, pk, told, verb)
    messages.success(request, done)
    return redirect("rules:request", pk)


def _revision(request: HttpRequest, name: str = "revision") -> int:
    """The revision that the form was printed with. Raises TraceError `stale_revision` for none."""
    given = request.POST.get(name, "")
    if given.isascii() and given.isdecimal() and len(given) < 10:
        return int(given)
    raise TraceError(
        "The form does not say which revision you saw.",
        code="stale_revision",
        hint="Read the request again, then decide.",
    )


def _text(request: HttpRequest, name: str) -> str:
    return request.POST.get(name, "")


def _submit(request: HttpRequest, row: ChangeRequest) -> str:
    services.request_submit(request=row, actor=request.user, revision=_revision(request))
    return f"Request {row.pk} is submitted. Somebody who did not write in it decides."


def _approve(request: HttpRequest, row: ChangeRequest) -> str:
    revision = _revision(request)
    done = services.request_approve(
        request=row, actor=request.user, revision=revision, comment=_text(request, "comment")
    )
    state = "it can be applied or scheduled" if done.state == "approved" else "more approvals are needed"
    return f"You approved revision {revision}; {state}."


def _reject(request: HttpRequest, row: ChangeRequest) -> str:
    services.request_reject(
        request=row, actor=request.user, revision=_revision(request), reason=_text(request, "reason")
    )
    return f"Request {row.pk} is rejected; {row.author.username} is told why."


def _schedule(request: HttpRequest, row: ChangeRequest) -> str:
    at = _time(_text(request, "at"))
    services.request_schedule(request=row, actor=request.user, at=at, revision=_revision(request))
    return f"It is applied on {at:%-d %b %Y at %H:%M} UTC, unless something newer stands in the way."


def _time(text: str) -> datetime:
    """The form's date and time, which is UTC. Raises TraceError `bad_time`."""
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None:
        raise TraceError(
            f"'{text[:40]}' is no date and time.",
            code="bad_time",
            hint="Write it as 2027-01-31T09:00, in UTC.",
        )
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _unschedule(request: HttpRequest, row: ChangeRequest) -> str:
    services.request_unschedule(request=row, actor=request.user, revision=_revision(request))
    return "It is off the schedule and still approved."


def _apply(request: HttpRequest, row: ChangeRequest) -> str:
    services.request_apply(request=row, actor=request.user, revision=_revision(request))
    return f"Request {row.pk} is applied."


def _bypass(request: HttpRequest, row: ChangeRequest) -> str:
    services.request_bypass(
        request=row, actor=request.user, reason=_text(request, "reason"), revision=_revision(request)
    )
    return f"Request {row.pk} is applied without approval; the audit names you and the reason."


def _cancel(request: HttpRequest, row: ChangeRequest) -> str:
    services.request_cancel(
        request=row, actor=request.user, reason=_text(request, "reason"), revision=_revision(request)
    )
    return f"Request {row.pk} is cancelled; it can be reopened."


def _reopen(request: HttpRequest, row: ChangeRequest) -> str:
    services.request_reopen(request=row, actor=request.user, revision=_revision(request))
    return f"Request {row.pk} is a draft again."


def _comment(request: HttpRequest, row: ChangeRequest) -> str:
    services.request_comment(request=row, actor=request.user, text=_text(request, "text"))
    return "Your comment is added."


def _describe(request: HttpRequest, row: ChangeRequest) -> str:
    services.request_describe(
        request=row,
        actor=request.user,
        title=_text(request, "title"),
        description=_text(request, "description"),
        revision=_revision(request),
    )
    return "The title and the description are saved."


def _remove(request: HttpRequest, row: ChangeRequest) -> str:
    change = _change(request, row)
    services.change_remove(change=change, expected=_revision(request), actor=request.user)
    return "The change is taken out of the request."


def _rebase(request: HttpRequest, row: ChangeRequest) -> str:
    change = _change(request, row)
    done = services.change_rebase(change=change, expected=_revision(request), actor=request.user)
    return f"The change now stands on {done.base}; approvals of the earlier revision do not count."


def _change(request: HttpRequest, row: ChangeRequest) -> RuleChange:
    """The change that the form names, when it is one of this request."""
    given = request.POST.get("change", "")
    known = given.isascii() and given.isdecimal() and len(given) < 16
    return get_object_or_404(RuleChange, pk=int(given) if known else 0, request=row)


ACTIONS: dict[str, Callable[[HttpRequest, ChangeRequest], str]] = {
    "submit": _submit,
    "approve": _approve,
    "reject": _reject,
    "schedule": _schedule,
    "unschedule": _unschedule,
    "apply": _apply,
    "bypass": _bypass,
    "cancel": _cancel,
    "reopen": _reopen,
    "comment": _comment,
    "describe": _describe,
    "remove": _remove,
    "rebase": _rebase,
}
