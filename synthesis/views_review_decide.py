"""What a person does with the item on the screen: decide, put off, take back, and try a text on filter V."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from synthesis import claims, review, selectors_review
from synthesis.models import ReviewItem
from synthesis.reading import own_decisions
from synthesis.spans import failure_spans
from synthesis.views_review import (
    address,
    claim_of,
    item_page,
    kept_filters,
    last_words,
    sample_or_404,
)
from trace_site.access import wants_json
from trace_site.lib.errors import TraceError, status_of

LONGEST_SECONDS = 86_400.0


def decided(
    request: HttpRequest, pk: int, decide: Callable[..., Any], typed: dict[str, Any] | None = None
) -> HttpResponse:
    """To the next item, or the same one with what stood in the way: 409 somebody was faster, 422 refused.

    A script gets the same as JSON, and shows the item that it has fetched ahead.
    """
    sample = sample_or_404(pk)
    try:
        decide(sample=sample, reviewer=request.user, **shown(request))
    except TraceError as error:
        return refused(request, pk, error, typed)
    if wants_json(request):
        return JsonResponse(told(request.user))
    return redirect(address(None, kept_filters(request)))


def shown(request: HttpRequest) -> dict[str, Any]:
    """Under which claim the item was on the screen, with which text, and how long."""
    try:
        claim = claim_of(request.POST.get("claim", ""))
    except ValueError as error:
        message = "the form does not say under which claim the item was shown."
        raise TraceError(message, code="conflict", hint="Open the item again.") from error
    return {"claim": claim, "seen": request.POST.get("seen") or "nothing", "seconds": seconds_of(request)}


def refused(request: HttpRequest, pk: int, error: TraceError, typed: dict[str, Any] | None) -> HttpResponse:
    conflict = status_of(error.code) == 409
    if wants_json(request):
        return JsonResponse(error.as_dict(), status=409 if conflict else 422)
    if conflict:
        return item_page(request, pk, 409, conflict=str(error))
    failures = error.extra.get("failures", [])
    kept = {"editing": bool(typed), "typed": typed, "refused": "" if failures else error}
    return item_page(request, pk, 422, **kept, **marked(failures, typed))


def marked(failures: list[dict[str, Any]], typed: dict[str, Any] | None) -> dict[str, Any]:
    """What filter V found, and the typed texts with the places it means."""
    texts = typed or {"query": "", "trace": ""}
    pieces = {name: failure_spans(texts[name], failures) for name in ("query", "trace")}
    places = {name: found for name, found in pieces.items() if any(piece.checks for piece in found)}
    return {"failures": failures, "places": places}


def seconds_of(request: HttpRequest) -> float | None:
    """How long the item was on the screen, if the page says so."""
    try:
        seconds = float(request.POST.get("seconds", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds <= LONGEST_SECONDS else None


def told(reviewer: Any) -> dict[str, Any]:
    """What the screen says after a decision."""
    progress = selectors_review.progress(reviewer)
    last = last_words(own_decisions(reviewer).first())
    return {"today": progress.today, "left": progress.left, "percent": progress.percent, "last": last}


def typed_texts(request: HttpRequest) -> dict[str, Any]:
    return {
        "query": request.POST.get("query", "").strip(),
        "trace": request.POST.get("trace", "").replace("\r\n", "\n").strip(),
        "answer": request.POST.getlist("answer"),
    }


@require_POST
def approve(request: HttpRequest, pk: int) -> HttpResponse:
    return decided(request, pk, review.approve)


@require_POST
def reject(request: HttpRequest, pk: int) -> HttpResponse:
    reason, note = (request.POST.get(name, "").strip() for name in ("reason", "note"))
    follow_up = request.POST.get("follow_up") or "regenerate"
    asked = partial(review.reject, reason=reason, note=note, follow_up=follow_up)
    return decided(request, pk, asked)


@require_POST
def edit(request: HttpRequest, pk: int) -> HttpResponse:
    typed = typed_texts(request)
    return decided(request, pk, lambda **how: review.edit(**typed, **how), typed)


@require_POST
def check(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: what filter V says about the text as typed so far, and how it differs from the sample's."""
    sample = sample_or_404(pk)
    typed = typed_texts(request)
    review.fits(query=typed["query"], trace=typed["trace"])
    found = [failure.as_dict() for failure in review.check(sample=sample, **typed)]
    context = {**marked(found, typed), "checked": True, "sample": sample, "typed": typed}
    return render(request, "synthesis/_check.html", context)


@require_POST
def skip(request: HttpRequest, pk: int) -> HttpResponse:
    """Put the sample's item off: free for everybody, and for oneself after all others."""
    waiting = ReviewItem.objects.filter(sample=pk, state__in=("open", "claimed")).first()
    if waiting is not None and waiting.claimed_by_id in (None, request.user.pk):
        claims.skip(request.user, waiting.pk)
    if wants_json(request):
        return JsonResponse(told(request.user))
    return redirect(address(None, kept_filters(request)))


@require_POST
def undo(request: HttpRequest) -> HttpResponse:
    """Take back one's own last decision and show its sample again."""
    filters = kept_filters(request)
    try:
        sample = review.undo(reviewer=request.user)
    except TraceError as error:
        if wants_json(request):
            raise
        messages.error(request, str(error))
        return redirect(address(None, filters))
    if wants_json(request):
        return JsonResponse({**told(request.user), "sample": sample.pk})
    return redirect(address(sample.pk, filters))
