"""Pages of synthesis runs and of samples."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.models import Tool
from rules.models import Rule
from synthesis import selectors, selectors_review, services
from synthesis.forms import SampleFilters, SynthesisForm
from synthesis.models import Sample, SynthesisRun
from synthesis.spans import trace_spans
from trace_site import jobs
from trace_site.access import ADMIN, EXPERT, role_required
from trace_site.lib.errors import TraceError
from trace_site.live import refresh_at_end
from trace_site.paging import keyset


@require_GET
def run_list(request: HttpRequest) -> HttpResponse:
    page = keyset(selectors.runs(), request.GET.get("after", ""), newest=True)
    return render(
        request, "synthesis/run_list.html", {"page": page, "totals": selectors_review.queue_state()}
    )


@role_required(EXPERT, ADMIN)
@require_http_methods(["GET", "POST"])
def run_create(request: HttpRequest) -> HttpResponse:
    form = SynthesisForm(request.POST or None, initial={"domain": request.GET.get("domain", "")})
    if request.method == "POST" and form.is_valid():
        try:
            run = services.synthesis_start(**started(form.cleaned_data), actor=request.user)
        except TraceError as error:
            form.add_error(None, str(error))
        else:
            return redirect("synthesis:detail", run.pk)
    context = {"form": form, "endpoint": settings.LLM_BASE_URL, "model": settings.LLM_GENERATOR_MODEL}
    context["planned"] = selectors.planned("rule", per_rule=12, anchors=100)
    return render(request, "synthesis/run_form.html", context, status=422 if form.errors else 200)


def started(data: dict[str, Any]) -> dict[str, Any]:
    """The service's arguments; an empty number keeps the form's default."""
    return {
        "branch": data["branch"],
        "writer": data["writer"],
        "per_rule": data["per_rule"] or 12,
        "anchors": data["anchors"] or 100,
        "domain": data["domain"],
        "seed": data["seed"],
    }


@require_GET
def estimate(request: HttpRequest) -> HttpResponse:
    """How many samples the form as it stands would set out to write."""
    form = SynthesisForm(request.GET)
    form.is_valid()
    data: dict[str, Any] = {
        "branch": "rule",
        "domain": "",
        "writer": "offline",
        "seed": 0,
    } | form.cleaned_data
    planned = selectors.planned(
        data["branch"],
        per_rule=data.get("per_rule") or 12,
        anchors=data.get("anchors") or 100,
        domain=data["domain"],
    )
    return render(request, "synthesis/_estimate.html", {"planned": planned, "branch": data["branch"]})


@require_GET
def run_detail(request: HttpRequest, pk: int) -> HttpResponse:
    return render(request, "synthesis/run_detail.html", run_context(pk))


@require_GET
def run_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Progress and funnel; asks again every two seconds while the job is active, then loads the page anew."""
    context = run_context(pk)
    response = render(request, "synthesis/_live.html", context)
    return refresh_at_end(response, context["run"].job)


def run_context(pk: int) -> dict[str, Any]:
    run = get_object_or_404(SynthesisRun.objects.select_related("job", "created_by"), pk=pk)
    return {"run": run, "funnel": selectors.funnel(run)}


@role_required(EXPERT, ADMIN)
@require_POST
def run_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(SynthesisRun.objects.select_related("job"), pk=pk)
    if run.job is not None and jobs.cancel(run.job, actor=request.user):
        messages.success(request, "Stopping. Samples written so far are kept; resume goes on with the rest.")
    else:
        messages.error(request, "The run has already ended.")
    return redirect("synthesis:detail", pk)


@role_required(EXPERT, ADMIN)
@require_POST
def run_resume(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(SynthesisRun.objects.select_related("job"), pk=pk)
    if run.job is not None and jobs.retry(run.job, actor=request.user):
        messages.success(request, "Queued again. It goes on with the samples that are not written yet.")
    else:
        messages.error(request, "Only a run that failed or was cancelled can be resumed.")
    return redirect("synthesis:detail", pk)


@require_GET
def sample_list(request: HttpRequest) -> HttpResponse:
    filters = SampleFilters(request.GET)
    values = filters.values()
    page, total = selectors.samples(values, request.GET.get("after", ""))
    context = {"page": page, "total": total, "filters": filters, "active": values}
    return render(request, "synthesis/sample_list.html", context)


@require_GET
def sample_rules(request: HttpRequest) -> HttpResponse:
    """The codes the rule filter suggests, asked for when somebody goes there: there may be thousands."""
    return render(request, "synthesis/_codes.html", {"codes": selectors.rules_with_samples()})


@require_GET
def sample_detail(request: HttpRequest, pk: int) -> HttpResponse:
    sample = get_object_or_404(
        Sample.objects.select_related(
            "run", "domain", "rule_version__rule", "rule_version__target", "anchor"
        ),
        pk=pk,
    )
    return render(request, "synthesis/sample_detail.html", sample_context(sample))


def sample_context(sample: Sample) -> dict[str, Any]:
    """What both the sample page and the review screen show of a sample."""
    code = sample.rule_version.rule.code if sample.rule_version else ""
    pool = selectors.pool_tools(sample)
    return {
        "sample": sample,
        "spans": trace_spans(sample.trace, sample.pool, sample.answer, [code] if code else []),
        "pool": pool,
        "main": pool[0] if pool else None,
        "rule_ids": sample.rule_version.tool_ids if sample.rule_version else [],
        "attempts": list(selectors.attempts(sample)),
        "decisions": list(selectors_review.decisions(sample)),
    }


@require_GET
def rule_samples(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Fragment for a rule's page: its yield."""
    rule = get_object_or_404(Rule, pk=rule_id)
    return render(
        request, "synthesis/_rule_samples.html", {"rule": rule, "rows": selectors.rule_yields(rule)}
    )


@require_GET
def tool_samples(request: HttpRequest, tool_id: int) -> HttpResponse:
    """Fragment for a tool's page: the samples that answer with it."""
    tool = get_object_or_404(Tool.objects.only("pk", "name"), pk=tool_id)
    return render(request, "synthesis/_tool_samples.html", {"tool": tool, **selectors.tool_samples(tool)})
