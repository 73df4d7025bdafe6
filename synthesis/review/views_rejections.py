"""Rejections as they are read elsewhere: beside a rule and its text, and what of them waits to be written again."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from rules.models import Rule
from synthesis.generate import regeneration
from synthesis.generate.regeneration import again, calls_to_write_again, runs_of_waiting
from synthesis.samples.rejections import rejections_of
from trace_site.lib.errors import TraceError

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
    runs = runs_of_waiting() if state.to_start else []
    context = {"again": state, "calls": calls_to_write_again(runs)}
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
    messages.success(
        request, "The rejected samples are being written again; each is told why it was refused."
    )
    return redirect("synthesis:detail", runs[0].pk) if len(runs) == 1 else redirect("synthesis:list")
