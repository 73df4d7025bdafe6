"""Batches under acceptance sampling: all of them, a new one with what its plan promises, and one with who read what."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from rules.models import RuleVersion
from synthesis.batches import selectors as reads
from synthesis.batches.services import batch_create, batch_withdraw
from synthesis.core.acceptance import AQLS, LEVELS, SamplingPlan, plan
from synthesis.models import Sample
from synthesis.review import bulk
from synthesis.review import queue as review_queue
from synthesis.review.selectors import not_blind
from synthesis.samples.checks import trace_spans
from trace_site.lib.charts import Series, line_chart
from trace_site.lib.errors import TraceError
from trace_site.paging import keyset

# Approving many samples of one rule at once: rows that are held while one reads them, approved or kept out.


@require_GET
def page(request: HttpRequest) -> HttpResponse:
    """The rows the reader holds of one rule; without a rule, the rules of which samples wait."""
    code = request.GET.get("rule", "")
    version = reads.published_version(code) if code else None
    return shown(request, version, code=code)


def shown(request: HttpRequest, version: RuleVersion | None, status: int = 200, **more: Any) -> HttpResponse:
    context: dict[str, Any] = {"version": version, "most": bulk.MOST, **more}
    if version is None:
        context["rules"] = reads.waiting_rules()
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
        sample, failures, token = bulk.bulk_open(reviewer=request.user, item=pk)
    except TraceError as error:
        return render(request, "synthesis/_bulk_open.html", {"error": error})
    codes = [sample.rule_version.rule.code] if sample.rule_version else []
    spans = trace_spans(sample.trace, sample.pool, sample.answer, codes)
    context = {"failures": failures, "token": token, "sample": sample, "spans": spans}
    return render(request, "synthesis/_bulk_open.html", context)


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
    version = reads.published_version(request.POST.get("rule", ""))
    if version is None:
        raise Http404
    return version


class BatchForm(forms.Form):
    """Which samples, and how sure one wants to be."""

    rule = forms.CharField(max_length=200)
    style = forms.ChoiceField(choices=[("", "every style"), *Sample.Style.choices], required=False)
    level = forms.ChoiceField(choices=[(level, level) for level in LEVELS], initial="II")
    aql = forms.TypedChoiceField(
        choices=[(str(aql), f"{aql:g} %") for aql in AQLS], coerce=float, initial="1.0"
    )
    seed = forms.IntegerField(required=False, min_value=0, max_value=2**31 - 1)


TONES = {"sampling": "run", "accepted": "good", "failed": "bad", "withdrawn": "idle"}


@require_GET
def batch_list(request: HttpRequest) -> HttpResponse:
    page = keyset(reads.batches(), request.GET.get("after", ""), newest=True)
    counts = reads.progress([row.pk for row in page.rows])
    rows = [(row, TONES[row.state], counts.get(row.pk, reads.Progress())) for row in page.rows]
    return render(request, "synthesis/batch_list.html", {"page": page, "rows": rows})


@require_http_methods(["GET", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    form = BatchForm(request.POST or None, initial={"rule": request.GET.get("rule", "")})
    if request.method == "POST" and form.is_valid():
        try:
            made = batch_create(**form.cleaned_data, actor=request.user)
        except TraceError as error:
            form.add_error(None, f"{error.message} {error.hint}".strip())
        else:
            return redirect("synthesis:batch", made.batch.pk)
    context = {"form": form, "rules": reads.waiting_rules()}
    return render(request, "synthesis/batch_form.html", context, status=422 if form.errors else 200)


@require_GET
def preview(request: HttpRequest) -> HttpResponse:
    """Fragment: the lot as it stands, its plan, and what the plan promises."""
    form = BatchForm(request.GET)
    context: dict[str, Any] = {}
    if form.is_valid():
        asked = form.cleaned_data
        version = reads.published_version(asked["rule"])
        waiting = reads.lot_items(version, asked["style"]).count() if version else 0
        context = {"version": version, "waiting": waiting, "largest": reads.LARGEST_LOT}
        if version and waiting > 1:
            found = plan(min(waiting, reads.LARGEST_LOT), level=asked["level"], aql=asked["aql"])
            context |= {**promise(found), "failed": reads.failed_lately(version.rule_id)}
    return render(request, "synthesis/_batch_preview.html", context)


@require_GET
def batch(request: HttpRequest, pk: int) -> HttpResponse:
    row = reads.batch(pk)
    decided = reads.standing_decisions([pk]).select_related("reviewer", "sample").order_by("pk")
    found = SamplingPlan(row.lot_size, row.level, row.aql, row.letter, row.sample_size, row.accept)
    context = {
        "batch": row,
        "tone": TONES[row.state],
        "progress": reads.progress([pk]).get(pk, reads.Progress()),
        **promise(found),
        "decisions": not_blind(request.user, decided, "reviewer"),
        "note": reads.left_out(row),
    }
    return render(request, "synthesis/batch_detail.html", context)


@require_POST
def withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    reads.batch(pk)
    try:
        batch_withdraw(batch=pk, actor=request.user)
    except TraceError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    return redirect("synthesis:batch", pk)


def promise(found: SamplingPlan) -> dict[str, Any]:
    """A plan and its operating characteristic; where the curve ends says nothing."""
    drawn = line_chart(
        "How often a lot is accepted",
        [Series(f"n {found.size}, c {found.accept}", found.curve())],
        x_label="defects in the lot, %",
        y_label="accepted, of 100 such lots",
    )
    chart = replace(drawn, curves=[replace(curve, last="") for curve in drawn.curves])
    return {"plan": found, "producers": 100 * found.producers_risk, "chart": chart}
