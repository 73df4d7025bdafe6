"""The review queue's pages: one claimed item a screen, the next one fetched ahead, and why there is none."""

import json
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from synthesis import claims, samples, selectors_review
from synthesis.calibration import verdict_hidden
from synthesis.core.rejections import REASONS
from synthesis.forms_review import QueueFilters
from synthesis.models import Decision, Sample
from synthesis.reading import (
    Reading,
    empty_queue,
    next_reading,
    own_decisions,
    reading_of,
    shown_samples,
)
from synthesis.selectors_counts import waiting_total
from synthesis.spans import trace_spans
from synthesis.wishes import seen_key
from trace_site.lib.errors import TraceError

MOST = 10  # items that one screen holds
POLL_S = 20  # how often an empty queue asks again


def kept_filters(request: HttpRequest) -> dict[str, Any]:
    """The part of the queue one has chosen; it travels in the address."""
    return QueueFilters(request.GET).values()


def address(pk: int | None, filters: dict[str, Any]) -> str:
    page = reverse("synthesis:review_item", args=[pk]) if pk else reverse("synthesis:review")
    return f"{page}?{urlencode(filters)}" if filters else page


def by_script(request: HttpRequest) -> bool:
    return "HX-Request" in request.headers


@require_GET
def queue(request: HttpRequest) -> HttpResponse:
    """To the next item, claimed, or to the page that says why there is none."""
    filters = kept_filters(request)
    reading = next_reading(request.user, filters, [])
    if reading is not None:
        return redirect(address(reading.sample.pk, filters))
    return empty_page(request, filters)


@require_POST
def ahead(request: HttpRequest) -> HttpResponse:
    """Fragment: the next item, claimed, besides the ones on this screen; or why there is none."""
    filters = kept_filters(request)
    besides = [int(pk) for pk in request.POST.getlist("besides")[:MOST] if pk.isdecimal() and len(pk) < 19]
    reading = next_reading(request.user, filters, besides)
    if reading is None:
        return empty_page(request, filters)
    return reading_page(request, reading)


@require_GET
def item(request: HttpRequest, pk: int) -> HttpResponse:
    return item_page(request, pk)


def empty_page(request: HttpRequest, filters: dict[str, Any]) -> HttpResponse:
    context = {
        **frame(request, filters),
        "state": empty_queue(request.user, filters),
        "previous": own_decisions(request.user).first(),
        "poll": POLL_S,
    }
    return drawn(request, context)


def item_page(request: HttpRequest, pk: int, status: int = 200, **more: Any) -> HttpResponse:
    sample = get_object_or_404(shown_samples(), pk=pk)
    return reading_page(request, reading_of(sample, request.user), status, **more)


def reading_page(request: HttpRequest, reading: Reading, status: int = 200, **more: Any) -> HttpResponse:
    filters = kept_filters(request)
    context = {**frame(request, filters), **reading_context(reading), **more}
    return drawn(request, context, status)


def drawn(request: HttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """The whole page, or only the item for the script that shows one after the other."""
    if by_script(request):
        return render(request, "synthesis/_review_item.html", context, status=status)
    whole = {"progress": selectors_review.progress(request.user), "filters": QueueFilters(request.GET)}
    return render(request, "synthesis/review.html", {**context, **whole}, status=status)


def frame(request: HttpRequest, filters: dict[str, Any]) -> dict[str, Any]:
    """What every state of the queue knows."""
    return {"active": filters, "suffix": f"?{urlencode(filters)}" if filters else ""}


def reading_context(reading: Reading) -> dict[str, Any]:
    sample = reading.sample
    if reading.why:
        return {"sample": sample, "reading": reading}
    version = sample.rule_version
    codes, words = ([version.rule.code], version.text) if version else ([], "")
    pool = samples.pool_tools(sample)
    return {
        "sample": sample,
        "reading": reading,
        "live": reading.item is not None,
        "previous": reading.previous,
        "spans": trace_spans(sample.trace, sample.pool, sample.answer, codes, words),
        "pool": pool,
        "main": pool[0] if pool else None,
        "rule_ids": version.tool_ids if version else [],
        "attempts": samples.attempts(sample),
        "hidden": reading.item is not None and verdict_hidden(reading.item, sample),
        "seen": seen_key(sample),
        "reasons": list(REASONS.items())[:9],
        "own_reason": REASONS.get(reading.decision.reason, "") if reading.decision else "",
    }


@require_GET
def count(request: HttpRequest) -> HttpResponse:
    """The number beside Review in the sidebar."""
    left = waiting_total()
    return HttpResponse(f"{left:,}" if left else "")


@require_POST
def heartbeat(request: HttpRequest) -> JsonResponse:
    """Keep what is on the screen: {item: its claim, or null when it is somebody else's or decided}.

    items: JSON {item: claim}. What was free again meanwhile is claimed anew.
    """
    return JsonResponse({"items": {str(pk): kept(request.user, pk, claim) for pk, claim in held(request)}})


def kept(reviewer: Any, item: int, claim: str) -> str | None:
    try:
        claims.heartbeat(reviewer, item, claim)
        return claim
    except TraceError:
        try:
            return str(claims.claim_item(reviewer, item).claim)
        except TraceError:
            return None


@require_POST
def release(request: HttpRequest) -> JsonResponse:
    """Give back what was on the screen; the browser calls this when it leaves."""
    return JsonResponse({"released": claims.release(request.user, [pk for pk, _ in held(request)])})


def held(request: HttpRequest) -> list[tuple[int, str]]:
    """The items and claims a screen says it has."""
    try:
        told = json.loads(request.POST.get("items", "{}"))
        found = [(int(pk), claim_of(str(claim))) for pk, claim in list(told.items())[:MOST]]
        if any(not 0 < pk < 2**63 for pk, _ in found):
            raise ValueError("no item has this number")
        return found
    except (ValueError, AttributeError, RecursionError) as error:
        message = 'items is no JSON object {"item": "claim"}.'
        raise TraceError(message, code="bad_items", where="items") from error


def claim_of(text: str) -> str:
    """A claim as the database compares it. Raises ValueError."""
    return str(UUID(text))


def last_words(decision: Decision | None) -> dict[str, Any] | None:
    """The own last decision as the page tells it beside the undo button."""
    if decision is None:
        return None
    words = f"{decision.get_verdict_display().lower()} of {decision.sample_id}"
    return {"sample": decision.sample_id, "words": words}


def sample_or_404(pk: int) -> Sample:
    return get_object_or_404(Sample.objects.select_related("rule_version__rule"), pk=pk)
