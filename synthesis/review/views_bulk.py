"""Approving many samples of one rule at once: rows that are held while one reads them, approved or kept out."""

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from rules.models import RuleVersion
from synthesis.batches.selectors import published_version, waiting_rules
from synthesis.review import bulk
from synthesis.review import queue as review_queue
from synthesis.samples.checks import trace_spans
from trace_site.lib.errors import TraceError


@require_GET
def page(request: HttpRequest) -> HttpResponse:
    """The rows the reader holds of one rule; without a rule, the rules of which samples wait."""
    code = request.GET.get("rule", "")
    version = published_version(code) if code else None
    return shown(request, version, code=code)


def shown(request: HttpRequest, version: RuleVersion | None, status: int = 200, **more: Any) -> HttpResponse:
    context: dict[str, Any] = {"version": version, "most": bulk.MOST, **more}
    if version is None:
        context["rules"] = waiting_rules()
    else:
        context["rows"] = bulk.held_items(request.user, version)
    return render(request, "synthesis/bulk.html", context, status=status)


@require_POST
def take(request: HttpRequest) -> HttpResponse:
    version = asked(request)
    bulk.bulk_take(reviewer=request.user, version=version)
    return redirect(f"{reverse('synthesis:review_bulk')}?{urlencode({'rule': version.rule.code})}")


@require_GET
def opened(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: one sample whole, with the token that says it was opened."""
    try:
        found = bulk.bulk_open(reviewer=request.user, item=pk)
    except TraceError as error:
        return render(request, "synthesis/_bulk_open.html", {"error": error})
    sample = found.sample
    code = sample.rule_version.rule.code if sample.rule_version else ""
    spans = trace_spans(sample.trace, sample.pool, sample.answer, [code] if code else [])
    return render(request, "synthesis/_bulk_open.html", {"opened": found, "sample": sample, "spans": spans})


@require_POST
def approve(request: HttpRequest) -> HttpResponse:
    version = asked(request)
    try:
        outcomes = bulk.bulk_approve(reviewer=request.user, tokens=request.POST.getlist("token"))
    except TraceError as error:
        return shown(request, version, 422, refused=error)
    return shown(request, version, outcomes=outcomes)


@require_POST
def keep(request: HttpRequest) -> HttpResponse:
    bulk.bulk_keep(reviewer=request.user, version=asked(request))
    return HttpResponse(status=204)


@require_POST
def release(request: HttpRequest) -> HttpResponse:
    """Give back what is left; also what the browser calls when the page is left."""
    held = bulk.held_items(request.user, asked(request))
    review_queue.release(request.user, [item.pk for item in held])
    return redirect("synthesis:review_bulk")


def asked(request: HttpRequest) -> RuleVersion:
    """Raises Http404 for a rule that is not published."""
    version = published_version(request.POST.get("rule", ""))
    if version is None:
        raise Http404
    return version
