"""Pages of synthesis runs: all of them, one with its live funnel and its books, cancel and resume."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from catalog.models import Tool
from rules.models import Rule
from synthesis import selectors, selectors_review, services
from synthesis.books import job_books
from synthesis.budgets import LIMITS
from synthesis.budgets import spent as job_spent
from synthesis.forms import BudgetForm
from synthesis.models import SynthesisRun
from synthesis.rule_yields import rule_book
from synthesis.selectors_funnel import GROUPS, Slice, funnel, groups
from synthesis.selectors_runs import tell_counts
from trace_site import jobs
from trace_site.lib.errors import TraceError
from trace_site.live import refresh_at_end
from trace_site.paging import Page, keyset

ROWS = 100  # groups on one page of the funnel's table


@require_GET
def run_list(request: HttpRequest) -> HttpResponse:
    rows = SynthesisRun.objects.select_related("job", "created_by")
    page = keyset(rows, request.GET.get("after", ""), newest=True)
    tell_counts(page.rows)
    return render(
        request, "synthesis/run_list.html", {"page": page, "totals": selectors_review.sample_totals()}
    )


@require_GET
def run_detail(request: HttpRequest, pk: int) -> HttpResponse:
    return render(request, "synthesis/run_detail.html", started_page(request, pk))


def started_page(request: HttpRequest, pk: int) -> dict[str, Any]:
    """The table and the books come after the figures: a big run's page shows its funnel at once."""
    context = live_context(request, pk)
    by = request.GET.get("by", "")
    context["rest"] = f"{context['part'].query}&by={by if by in GROUPS else ''}&after={_start(request)}"
    return context | selectors.started_with(context["run"])


@require_GET
def run_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Progress, funnel and books; asks again every two seconds while the job is active, then loads the page anew."""
    context = live_context(request, pk)
    response = render(request, "synthesis/_live.html", context)
    return refresh_at_end(response, context["run"].job)


@require_GET
def run_groups(request: HttpRequest, pk: int) -> HttpResponse:
    """The funnel's table, which a run of thousands of rules refreshes less often than its figures."""
    run = get_object_or_404(SynthesisRun.objects.select_related("job"), pk=pk)
    return render(request, "synthesis/_funnel.html", {"run": run} | group_context(request, run))


def part_of(request: HttpRequest, pk: int) -> Slice:
    """The part of the run that the address names."""
    return Slice(
        pk,
        **{name: request.GET.get(name, "")[:200] for name in ("domain", "rule", "style", "tier")},
    )


def live_context(request: HttpRequest, pk: int) -> dict[str, Any]:
    run = get_object_or_404(SynthesisRun.objects.select_related("job", "created_by"), pk=pk)
    part = part_of(request, pk)
    budget = run.params.get("budget") or {}
    used = job_spent(run.job) if run.job and run.writer.startswith("llm") else None
    spent = [(name, getattr(used, name), budget.get(name)) for name in LIMITS] if used else []
    return {
        "run": run,
        "part": part,
        "funnel": funnel(part),
        "spent": spent,
        "next_step": selectors.next_step(run),
        "typed": {},
    }


@require_GET
def run_books(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: the run's calls by purpose and model, and their errors by code."""
    run = get_object_or_404(SynthesisRun.objects.select_related("job"), pk=pk)
    return render(request, "synthesis/_books.html", {"run": run, "books": job_books(run.job)})


def group_context(request: HttpRequest, run: SynthesisRun) -> dict[str, Any]:
    """One page of the table. What a slice has only one of is not worth a table by it."""
    part = part_of(request, run.pk)
    levels = [name for name in GROUPS if name not in part.narrowed and name not in _fixed(run)]
    by = request.GET.get("by", "")
    by = by if by in levels else (levels or ["style"])[0]
    rows = groups(part, by)
    start = _start(request)
    shown = rows[start : start + ROWS]
    page = Page(shown, str(start or ""), str(start + ROWS) if len(rows) > start + ROWS else None)
    return {"part": part, "by": by, "levels": levels, "groups": page, "groups_total": len(rows)}


def _fixed(run: SynthesisRun) -> set[str]:
    """What all samples of a run have in common."""
    fixed = {name for name in ("domain", "rule") if run.params.get(name)}
    return fixed if run.branch == SynthesisRun.Branch.RULE else {*fixed, "rule"}


def _start(request: HttpRequest) -> int:
    """The first row of the table's page."""
    after = request.GET.get("after", "")
    return int(after) if after.isdecimal() and len(after) < 7 else 0


@require_POST
def run_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    run = get_object_or_404(SynthesisRun.objects.select_related("job"), pk=pk)
    if run.job is not None and jobs.cancel(run.job, actor=request.user):
        messages.success(request, "Stopping. Samples written so far are kept; resume goes on with the rest.")
    else:
        messages.error(request, "The run has already ended.")
    return redirect("synthesis:detail", pk)


@require_POST
def run_resume(request: HttpRequest, pk: int) -> HttpResponse:
    """Goes on, with higher limits where some are given; a refusal comes back to the page with what was typed."""
    run = get_object_or_404(SynthesisRun.objects.select_related("job"), pk=pk)
    form = BudgetForm(request.POST)
    try:
        services.synthesis_resume(run, budget=form.limits(), actor=request.user)
    except TraceError as error:
        context = started_page(request, pk) | {"refusal": error, "typed": request.POST}
        return render(request, "synthesis/run_detail.html", context, status=422)
    messages.success(request, "Queued again. It goes on with the samples that are not written yet.")
    return redirect("synthesis:detail", pk)


@require_GET
def rule_samples(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Fragment for a rule's page: how far the published version is from its target, and its samples by style."""
    rule = get_object_or_404(Rule, pk=rule_id)
    book = rule_book(rule.domain_id, code=rule.code).rows if rule.published_id else []
    context = {"rule": rule, "rows": selectors.rule_yields(rule), "standing": book[0] if book else None}
    return render(request, "synthesis/_rule_samples.html", context)


@require_GET
def tool_samples(request: HttpRequest, tool_id: int) -> HttpResponse:
    """Fragment for a tool's page: the samples that answer with it."""
    tool = get_object_or_404(Tool.objects.only("pk", "name"), pk=tool_id)
    return render(request, "synthesis/_tool_samples.html", {"tool": tool, **selectors.tool_samples(tool)})
