"""Pages of synthesis runs: all of them, one with its live funnel and its books, cancel and resume."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.models import Domain, Tool
from rules.editor.services import RuleForm
from rules.models import Rule
from synthesis.core.queries import RULE_STYLES
from synthesis.generate import selectors, services
from synthesis.generate.estimates import estimate
from synthesis.generate.forms import BudgetForm, SynthesisForm
from synthesis.generate.preview import preview
from synthesis.generate.selectors import GROUPS, Slice, funnel, groups, tell_counts
from synthesis.generate.yields import ORDERS, SHOWS, TARGET, chosen_rows, rule_yields
from synthesis.llm.ledger import LIMITS, job_books
from synthesis.llm.ledger import spent as job_spent
from synthesis.llm.writers import endpoints, recorded
from synthesis.models import SynthesisRun
from synthesis.samples.counts import sample_totals
from synthesis.samples.rejections import rejections_of_published
from trace_site import jobs
from trace_site.lib.cells import csv_lines
from trace_site.lib.errors import TraceError
from trace_site.paging import keyset, number_of, sliced
from trace_site.views import refresh_at_end

ROWS = 100  # groups on one page of the funnel's table


@require_GET
def run_list(request: HttpRequest) -> HttpResponse:
    rows = SynthesisRun.objects.select_related("job", "created_by")
    page = keyset(rows, request.GET.get("after", ""), newest=True)
    tell_counts(page.rows)
    return render(request, "synthesis/run_list.html", {"page": page, "totals": sample_totals()})


@require_GET
def run_detail(request: HttpRequest, pk: int) -> HttpResponse:
    return render(request, "synthesis/run_detail.html", started_page(request, pk))


def started_page(request: HttpRequest, pk: int) -> dict[str, Any]:
    """The table and the books come after the figures: a big run's page shows its funnel at once."""
    context = live_context(request, pk)
    by, after = request.GET.get("by", ""), number_of(request.GET.get("after", ""), digits=6)
    context["rest"] = f"{context['part'].query}&by={by if by in GROUPS else ''}&after={after}"
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
    part = part_of(request, pk)
    # what a slice has only one of is not worth a table by it
    alike = {name for name in ("domain", "rule") if run.params.get(name)}  # all samples of the run
    alike |= set() if run.branch == SynthesisRun.Branch.RULE else {"rule"}
    levels = [name for name in GROUPS if name not in part.narrowed and name not in alike]
    by = request.GET.get("by", "")
    by = by if by in levels else (levels or ["style"])[0]
    rows = groups(part, by)
    page = sliced(rows, request.GET.get("after", ""), ROWS)
    context = {"run": run, "part": part, "by": by, "levels": levels, "groups": page}
    return render(request, "synthesis/_funnel.html", context | {"groups_total": len(rows)})


def part_of(request: HttpRequest, pk: int) -> Slice:
    """The part of the run that the address names."""
    return Slice(
        pk, **{name: request.GET.get(name, "")[:200] for name in ("domain", "rule", "style", "tier")}
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
    found = rule_yields(rule.domain_id, code=rule.code) if rule.published_id else []
    context = {"rule": rule, "rows": selectors.version_yields(rule), "standing": found[0] if found else None}
    return render(request, "synthesis/_rule_samples.html", context)


@require_GET
def tool_samples(request: HttpRequest, tool_id: int) -> HttpResponse:
    """Fragment for a tool's page: the samples that answer with it."""
    tool = get_object_or_404(Tool.objects.only("pk", "name"), pk=tool_id)
    return render(request, "synthesis/_tool_samples.html", {"tool": tool, **selectors.tool_samples(tool)})


MOST_SKIPPED = 20  # shown beside the form
PREFILLED = ("branch", "writer", "domain", "rule", "per_rule", "anchors")


@require_http_methods(["GET", "POST"])
def run_create(request: HttpRequest) -> HttpResponse:
    """What was typed is never lost: a refusal shows the form as it was sent, with the reason beside the field."""
    sent = request.method == "POST"
    given = {name: request.GET[name] for name in PREFILLED if name in request.GET}
    form = SynthesisForm(request.POST) if sent else SynthesisForm(initial=given)
    if sent and form.is_valid():
        try:
            run = services.synthesis_start(**form.options(), actor=request.user)
        except TraceError as error:
            form.refuse(error)
        else:
            return redirect("synthesis:detail", run.pk)
    context = {"form": form, "roles_of_models": configured()}
    return render(request, "synthesis/run_form.html", context, status=422 if form.errors else 200)


def configured() -> dict[str, Any]:
    """{"roles": {role: {"model", "host"}}} of the language models, or the refusal that says why there are none."""
    try:
        found = endpoints()
    except TraceError as error:
        return {"refusal": str(error)}
    if not all(one.base_url for one in found.values()):
        return {}
    return {"roles": {row["role"]: row for row in recorded(found)}}


@require_GET
def run_estimate(request: HttpRequest) -> HttpResponse:
    """What the form as it stands would write, call and cost; starts nothing."""
    form = SynthesisForm(request.GET)
    form.is_valid()
    context: dict[str, Any] = {"branch": form.data.get("branch", "rule")}
    try:
        found = estimate(**form.options())
    except TraceError as error:
        context["refusal"] = error
    else:
        context["estimate"] = found
        context["skipped"] = [row for row in found.plan["rows"] if row.get("skipped")][:MOST_SKIPPED]
        context["figures"] = [
            ("Model calls", found.calls, ""),
            ("Tokens", found.tokens, ""),
            ("Cost", found.money, "money"),
            ("Time", found.seconds, "time"),
        ]
    return render(request, "synthesis/_estimate.html", context)


@require_GET
def run_rules(request: HttpRequest) -> HttpResponse:
    """Fragment: the published rules that one may write for, suggested while somebody types."""
    typed = request.GET.get("rule", "").rpartition("/")[2][:100]
    rules = Rule.objects.filter(published__isnull=False, code__icontains=typed)
    if domain := request.GET.get("domain", ""):
        rules = rules.filter(domain=domain)
    names = [f"{rule.domain_id}/{rule.code}" for rule in rules.order_by("code", "domain_id")[:50]]
    return render(request, "synthesis/_codes.html", {"codes": names})


@require_POST
def editor_preview(request: HttpRequest) -> HttpResponse:
    """Fragment of the rule editor: the pool, and three queries of each style; `page` turns to the next three."""
    form = RuleForm.read(request.POST)
    pk, page = (number_of(request.POST.get(name, ""), digits=9) for name in ("rule", "page"))
    underspecified = "underspecified" in request.POST
    try:
        found = preview(
            content=form.content(),
            rule=Rule.objects.filter(pk=pk).first() if pk else None,
            code=form.code,
            underspecified=underspecified,
            page=page,
        )
    except TraceError as error:
        return render(request, "synthesis/_editor_preview.html", {"error": error})
    context = {"preview": found, "underspecified": underspecified, "next_page": page + 1}
    return render(request, "synthesis/_editor_preview.html", context)


COLUMNS = (
    *("domain", "code", "version", "target", "ready", "stale", "missing", "waiting", "approved", "dropped"),
    *("attempts", "per_ready", "near", "last_run"),
)


@require_GET
def yields(request: HttpRequest) -> HttpResponse:
    """Every published rule, how far it is from its target, and why."""
    chosen = chosen_from(request)
    found = rule_yields(chosen["domain"], chosen["target"])
    rows = chosen_rows(found, chosen["show"], chosen["order"])
    page = sliced(rows, request.GET.get("after", ""), ROWS)
    told = rejections_of_published(row.rule_id for row in page.rows)
    for row in page.rows:
        one = told.get(row.rule_id)
        row.rejections = one.short if one and one.rejected else ""
    context = {
        "book": {
            "rows": found,
            "able": sum(row.target > 0 for row in found),
            "below": sum(row.missing > 0 for row in found),
            "unsupported": sum(bool(row.reasons) for row in found),
        },
        "page": page,
        "shown": len(rows),
        "chosen": chosen,
        "domains": Domain.objects.all(),
    }
    return render(request, "synthesis/yield.html", context)


def chosen_from(request: HttpRequest) -> dict[str, Any]:
    """What of the address narrows and orders; what it cannot be is ignored."""
    given = request.GET
    order, target = given.get("order", ""), number_of(given.get("target", ""))
    return {
        "domain": given.get("domain", "")[:60],
        "show": given["show"] if given.get("show") in SHOWS else "all",
        "order": order if order.removeprefix("-") in ORDERS else ORDERS[0],
        "target": target if 0 < target <= 1000 else TARGET,
    }


@require_GET
def yields_csv(request: HttpRequest) -> StreamingHttpResponse:
    """The rows that match, for a spreadsheet; a cell that could be a formula begins with an apostrophe."""
    chosen = chosen_from(request)
    rows = chosen_rows(rule_yields(chosen["domain"], chosen["target"]), chosen["show"], chosen["order"])
    cells = (
        [*(getattr(row, name) for name in COLUMNS), *(row.reasons.get(style) for style in RULE_STYLES)]
        for row in rows
    )
    return StreamingHttpResponse(
        csv_lines([*COLUMNS, *(f"no_{style}" for style in RULE_STYLES)], cells),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="yield.csv"'},
    )
