"""The review queue: one sample a screen; a decision answers with the next sample."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from synthesis import review, selectors_review
from synthesis.core.rejections import REASONS
from synthesis.forms import SampleFilters
from synthesis.models import Sample
from synthesis.views_samples import sample_context
from trace_site.access import ADMIN, REVIEWER, role_required, roles_of
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash

KEPT = ("branch", "domain", "style", "rule")


def kept_filters(request: HttpRequest) -> dict[str, Any]:
    """The part of the queue one has chosen; it travels in the address."""
    values = SampleFilters(request.GET).values()
    return {name: values[name] for name in KEPT if name in values}


def address(pk: int | None, filters: dict[str, Any]) -> str:
    page = reverse("synthesis:review_item", args=[pk]) if pk else reverse("synthesis:review")
    return f"{page}?{urlencode(filters)}" if filters else page


@role_required(REVIEWER, ADMIN)
@require_GET
def queue(request: HttpRequest) -> HttpResponse:
    """To the next waiting sample, or to the page that says why there is none."""
    filters = kept_filters(request)
    after = request.GET.get("after", "")
    pk = selectors_review.next_waiting(filters, after=int(after) if after.isdecimal() else 0)
    if pk is not None:
        return redirect(address(pk, filters))
    return render(request, "synthesis/review.html", {**shared(request, filters), "sample": None})


def shared(request: HttpRequest, filters: dict[str, Any]) -> dict[str, Any]:
    """What every state of the queue shows."""
    return {
        "progress": selectors_review.progress(request.user),
        "last": selectors_review.last_own_decision(request.user),
        "state": selectors_review.queue_state(),
        "filters": SampleFilters(request.GET),
        "active": filters,
        "suffix": f"?{urlencode(filters)}" if filters else "",
        "more": f"&{urlencode(filters)}" if filters else "",
    }


@role_required(REVIEWER, ADMIN)
@require_GET
def item(request: HttpRequest, pk: int) -> HttpResponse:
    return item_page(request, pk)


def item_page(request: HttpRequest, pk: int, status: int = 200, **more: Any) -> HttpResponse:
    sample = get_object_or_404(
        Sample.objects.select_related(
            "run", "domain", "rule_version__rule", "rule_version__target", "anchor"
        ),
        pk=pk,
    )
    filters = kept_filters(request)
    following = selectors_review.waiting_in(filters).filter(pk__gt=pk).values_list("pk", flat=True).first()
    context = {
        **shared(request, filters),
        **sample_context(sample),
        "seen": seen_key(sample),
        "reasons": list(REASONS.items())[:9],
        "previous": selectors_review.previous_waiting(filters, before=pk),
        "following": following,
        **more,
    }
    return render(request, "synthesis/review.html", context, status=status)


def seen_key(sample: Sample) -> str:
    """Names the text a person has on screen, so that nobody approves words they did not see."""
    return content_hash([sample.query, sample.trace, sample.answer])[:16]


def decided(
    request: HttpRequest, pk: int, decide: Callable[[Sample], Any], typed: dict[str, Any] | None = None
) -> HttpResponse:
    """The next sample, or the same one with what stood in the way: 409 somebody was faster, 422 refused."""
    sample = get_object_or_404(Sample.objects.select_related("rule_version__rule"), pk=pk)
    if request.POST.get("seen") != seen_key(sample):
        return item_page(
            request, pk, 409, conflict="The text has changed since you opened it; this is how it stands."
        )
    try:
        decide(sample)
    except TraceError as error:
        if error.code == "conflict":
            return item_page(request, pk, 409, conflict="Somebody else has decided this sample meanwhile.")
        failures = error.extra.get("failures", [])
        return item_page(
            request,
            pk,
            422,
            editing=bool(typed),
            typed=typed,
            failures=failures,
            refused="" if failures else error,
        )
    filters = kept_filters(request)
    return redirect(address(selectors_review.next_waiting(filters, after=pk), filters))


def typed_texts(request: HttpRequest) -> dict[str, Any]:
    return {
        "query": request.POST.get("query", "").strip(),
        "trace": request.POST.get("trace", "").replace("\r\n", "\n").strip(),
        "answer": request.POST.getlist("answer"),
    }


@role_required(REVIEWER, ADMIN)
@require_POST
def approve(request: HttpRequest, pk: int) -> HttpResponse:
    return decided(request, pk, lambda sample: review.approve(sample=sample, reviewer=request.user))


@role_required(REVIEWER, ADMIN)
@require_POST
def reject(request: HttpRequest, pk: int) -> HttpResponse:
    given = {name: request.POST.get(name, "").strip() for name in ("reason", "note")}
    return decided(request, pk, lambda sample: review.reject(sample=sample, reviewer=request.user, **given))


@role_required(REVIEWER, ADMIN)
@require_POST
def edit(request: HttpRequest, pk: int) -> HttpResponse:
    typed = typed_texts(request)
    return decided(
        request, pk, lambda sample: review.edit(sample=sample, reviewer=request.user, **typed), typed
    )


@role_required(REVIEWER, ADMIN)
@require_POST
def check(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: what filter V says about the text as typed so far."""
    sample = get_object_or_404(Sample.objects.select_related("rule_version__rule"), pk=pk)
    failures = review.check(sample=sample, **typed_texts(request))
    return render(request, "synthesis/_check.html", {"failures": failures, "checked": True})


@role_required(REVIEWER, ADMIN)
@require_POST
def undo(request: HttpRequest) -> HttpResponse:
    """Take back one's own last decision and show its sample again."""
    filters = kept_filters(request)
    try:
        sample = review.undo(reviewer=request.user)
    except TraceError as error:
        messages.error(request, str(error))
        return redirect(address(None, filters))
    return redirect(address(sample.pk, filters))


@require_GET
def count(request: HttpRequest) -> HttpResponse:
    """The number beside Review in the sidebar; empty for those who do not review."""
    if not roles_of(request.user) & {REVIEWER, ADMIN}:
        return HttpResponse("")
    left = selectors_review.waiting().count()
    return HttpResponse(f"{left:,}" if left else "")
