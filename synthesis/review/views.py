"""The review queue's pages: one claimed item a screen, the next one fetched ahead, and why there is none."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from rules.models import Rule
from synthesis.generate import regeneration
from synthesis.generate.regeneration import again, calls_to_write_again
from synthesis.models import ReviewItem, Sample
from synthesis.quality.calibration import verdict_hidden
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.review.selectors import Screen, empty_queue, next_screen, progress, screen_of, shown_samples
from synthesis.samples import checks
from synthesis.samples.checks import failure_spans
from synthesis.samples.counts import waiting_total
from synthesis.samples.decisions import own_decisions
from synthesis.samples.forms import QueueFilters
from synthesis.samples.rejections import REASONS, rejections_of
from synthesis.samples.views import sample_context
from trace_site.access import wants_json
from trace_site.lib.errors import TraceError, status_of
from trace_site.paging import numbers_of

# Rejections as they are read elsewhere: beside a rule and its text, and what of them waits to be written again.


MOST_NOTES = 5  # of one reason
MOST_VERSIONS = 5


@require_GET
def rule_rejections(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Fragment: why readers rejected samples of a rule, by version; `?beside=text`: of the published one alone."""
    rule = get_object_or_404(Rule, pk=rule_id)
    beside = "beside" in request.GET
    versions = rule.versions.filter(pk=rule.published_id or 0) if beside else rule.versions.all()
    found = sorted(rejections_of(versions), key=lambda one: -one.number)[:MOST_VERSIONS]
    context = {"rule": rule, "found": found, "beside": beside, "most": MOST_NOTES}
    return render(request, "synthesis/_rule_rejections.html", context)


@require_GET
def waiting(request: HttpRequest) -> HttpResponse:
    """Fragment of the runs page: rejected samples that wait to be written again, with what that takes."""
    state = again()
    context = {"again": state, "calls": calls_to_write_again() if state.to_start else None}
    return render(request, "synthesis/_again_waiting.html", context)


@require_POST
def regenerate(request: HttpRequest) -> HttpResponse:
    """Write all that wait again, in a run for each set of options."""
    try:
        runs = regeneration.start(actor=request.user)
    except TraceError as error:
        messages.error(request, str(error))
        return redirect("synthesis:list")
    if not runs:
        messages.info(request, "No rejected sample waits to be written again.")
        return redirect("synthesis:list")
    messages.success(request, "The rejected samples are written again; each writer is told the reason.")
    return redirect("synthesis:detail", runs[0].pk) if len(runs) == 1 else redirect("synthesis:list")


MOST = 10  # items that one screen holds
POLL_S = 20  # how often an empty queue asks again
LONGEST_SECONDS = 86_400.0


def to_queue(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """To a sample, or to the next; the part of the queue one has chosen travels in the address."""
    filters = QueueFilters(request.GET).values()
    page = reverse("synthesis:review_item", args=[pk]) if pk else reverse("synthesis:review")
    return redirect(f"{page}?{urlencode(filters)}" if filters else page)


@require_GET
def queue(request: HttpRequest) -> HttpResponse:
    """To the next item, claimed, or to the page that says why there is none."""
    screen = next_screen(request.user, QueueFilters(request.GET).values(), [])
    return to_queue(request, screen.sample.pk) if screen else drawn(request, None)


@require_POST
def ahead(request: HttpRequest) -> HttpResponse:
    """Fragment: the next item, claimed, besides the ones on this screen; or why there is none."""
    besides = numbers_of(request.POST.getlist("besides")[:MOST])
    return drawn(request, next_screen(request.user, QueueFilters(request.GET).values(), besides))


def item_page(request: HttpRequest, pk: int, status: int = 200, **more: Any) -> HttpResponse:
    sample = get_object_or_404(shown_samples(), pk=pk)
    return drawn(request, screen_of(sample, request.user), status, **more)


item = require_GET(item_page)


def drawn(request: HttpRequest, screen: Screen | None, status: int = 200, **more: Any) -> HttpResponse:
    """The whole page, or only the item for the script that shows one after the other. screen: None: nothing waits."""
    form = QueueFilters(request.GET)
    filters = form.values()
    context = {"active": filters, "suffix": f"?{urlencode(filters)}" if filters else "", **more}
    if screen is None:
        previous = own_decisions(request.user).first()
        context |= {"state": empty_queue(request.user, filters), "previous": previous, "poll": POLL_S}
    else:
        context |= reading_context(screen)
    if "HX-Request" in request.headers:
        return render(request, "synthesis/_review_item.html", context, status=status)
    context |= {"progress": progress(request.user), "filters": form}
    return render(request, "synthesis/review.html", context, status=status)


def reading_context(screen: Screen) -> dict[str, Any]:
    sample = screen.sample
    if screen.why:
        return {"sample": sample, "reading": screen}
    return {
        **sample_context(sample, screen.rule_text),
        "reading": screen,
        "live": screen.item is not None,
        "previous": screen.previous,
        "hidden": screen.item is not None and verdict_hidden(screen.item, sample),
        "seen": screen.seen,
        "reasons": list(REASONS.items())[:9],
        "own_reason": REASONS.get(screen.decision.reason, "") if screen.decision else "",
    }


@require_GET
def count(request: HttpRequest) -> HttpResponse:
    """The number beside Review in the sidebar."""
    left = waiting_total()
    return HttpResponse(f"{left:,}" if left else "")


@require_POST
def heartbeat(request: HttpRequest) -> JsonResponse:
    """Keep what is on the screen: {item: its claim, or null when it is somebody else's or decided}. items: JSON {item:
    claim}. What was free again meanwhile is claimed anew.
    """
    kept: dict[str, str | None] = {}
    for pk, claim in held(request):
        try:
            review_queue.heartbeat(request.user, pk, claim)
            kept[str(pk)] = claim
        except TraceError:
            try:
                kept[str(pk)] = str(review_queue.claim_item(request.user, pk).claim)
            except TraceError:
                kept[str(pk)] = None
    return JsonResponse({"items": kept})


@require_POST
def release(request: HttpRequest) -> JsonResponse:
    """Give back what was on the screen; the browser calls this when it leaves."""
    return JsonResponse({"released": review_queue.release(request.user, [pk for pk, _ in held(request)])})


def held(request: HttpRequest) -> list[tuple[int, str]]:
    """The items and claims a screen says it has."""
    try:
        told = json.loads(request.POST.get("items", "{}"))
        found = [(int(pk), str(UUID(str(claim)))) for pk, claim in list(told.items())[:MOST]]
        if any(not 0 < pk < 2**63 for pk, _ in found):
            raise ValueError("no item has this number")
        return found
    except (ValueError, AttributeError, RecursionError) as error:
        message = 'items is no JSON object {"item": "claim"}.'
        raise TraceError(message, code="bad_items", where="items") from error


def sample_or_404(pk: int) -> Sample:
    return get_object_or_404(Sample.objects.select_related("rule_version__rule"), pk=pk)


# What a person does with the item on the screen: decide, put off, take back, and try a text on filter V.


def decided(
    request: HttpRequest, pk: int, decide: Callable[..., Any], typed: dict[str, Any] | None = None
) -> HttpResponse:
    """To the next item, or the same one with what stood in the way: 409 somebody was faster, 422 refused. A script gets
    the same as JSON, and shows the item that it has fetched ahead.
    """
    try:
        decide(sample=sample_or_404(pk), reviewer=request.user, **shown(request))
    except TraceError as error:
        conflict = status_of(error.code) == 409
        if wants_json(request):
            return JsonResponse(error.as_dict(), status=409 if conflict else 422)
        if conflict:
            return item_page(request, pk, 409, conflict=str(error))
        failures = error.extra.get("failures", [])
        kept = {"editing": bool(typed), "typed": typed, "refused": "" if failures else error}
        return item_page(request, pk, 422, **kept, **marked(failures, typed))
    return done(request)


def done(request: HttpRequest) -> HttpResponse:
    """To the next item; a script is told the day's progress and the own last decision, beside the undo button."""
    return JsonResponse(told(request.user)) if wants_json(request) else to_queue(request)


def told(reviewer: Any) -> dict[str, Any]:
    last = None
    if decision := own_decisions(reviewer).first():
        words = f"{decision.get_verdict_display().lower()} of {decision.sample_id}"
        last = {"sample": decision.sample_id, "words": words}
    return {**progress(reviewer), "last": last}


def shown(request: HttpRequest) -> dict[str, Any]:
    """Under which claim the item was on the screen, with which text, and how long if the page says so."""
    try:
        claim = str(UUID(request.POST.get("claim", "")))
    except ValueError as error:
        message = "the form does not say under which claim the item was shown."
        raise TraceError(message, code="conflict", hint="Open the item again.") from error
    try:
        seconds = float(request.POST.get("seconds", ""))
    except ValueError:
        seconds = -1
    known = seconds if 0 <= seconds <= LONGEST_SECONDS else None
    return {"claim": claim, "seen": request.POST.get("seen") or "nothing", "seconds": known}


def marked(failures: list[dict[str, Any]], typed: dict[str, Any] | None) -> dict[str, Any]:
    """What filter V found, and the typed texts with the places it means."""
    texts = typed or {"query": "", "trace": ""}
    pieces = {name: failure_spans(texts[name], failures) for name in ("query", "trace")}
    places = {name: found for name, found in pieces.items() if any(piece.checks for piece in found)}
    return {"failures": failures, "places": places}


def typed_texts(request: HttpRequest) -> dict[str, Any]:
    texts = {name: request.POST.get(name, "").replace("\r\n", "\n").strip() for name in ("query", "trace")}
    return {**texts, "answer": request.POST.getlist("answer")}


@require_POST
def approve(request: HttpRequest, pk: int) -> HttpResponse:
    return decided(request, pk, review_services.approve)


@require_POST
def reject(request: HttpRequest, pk: int) -> HttpResponse:
    given: dict[str, Any] = {name: request.POST.get(name, "").strip() for name in ("reason", "note")}
    given["follow_up"] = request.POST.get("follow_up") or "regenerate"
    return decided(request, pk, partial(review_services.reject, **given))


@require_POST
def edit(request: HttpRequest, pk: int) -> HttpResponse:
    typed = typed_texts(request)
    return decided(request, pk, partial(review_services.edit, **typed), typed)


@require_POST
def check(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: what filter V says about the text as typed so far, and how it differs from the sample's."""
    sample = sample_or_404(pk)
    typed = typed_texts(request)
    review_services.fits(query=typed["query"], trace=typed["trace"])
    found = [failure.as_dict() for failure in checks.check(sample=sample, **typed)]
    context = {**marked(found, typed), "checked": True, "sample": sample, "typed": typed}
    return render(request, "synthesis/_check.html", context)


@require_POST
def skip(request: HttpRequest, pk: int) -> HttpResponse:
    """Put the sample's item off: free for everybody, and for oneself after all others."""
    waiting = ReviewItem.objects.filter(sample=pk, state__in=("open", "claimed")).first()
    if waiting is not None and waiting.claimed_by_id in (None, request.user.pk):
        review_queue.skip(request.user, waiting.pk)
    return done(request)


@require_POST
def undo(request: HttpRequest) -> HttpResponse:
    """Take back one's own last decision and show its sample again."""
    try:
        sample = review_services.undo(reviewer=request.user)
    except TraceError as error:
        if wants_json(request):
            raise
        messages.error(request, str(error))
        return to_queue(request)
    if wants_json(request):
        return JsonResponse({**told(request.user), "sample": sample.pk})
    return to_queue(request, sample.pk)
