"""Many samples at once: approved in bulk, but none that was not opened, or in batches under acceptance sampling.

The bulk page holds claims on up to MOST items of one rule version. Opening a row fetches the whole sample with a signed
token over item, claim, text and reader; only tokens are approved. Each item stands for itself: it is approved wholly,
or the page says why not.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core import signing
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from rules.models import RuleVersion
from synthesis.batches import selectors as reads
from synthesis.batches.services import batch_create, batch_withdraw
from synthesis.core.acceptance import AQLS, LEVELS, SamplingPlan, plan
from synthesis.core.filters import Failure
from synthesis.models import ReviewItem, Sample
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.review.selectors import not_blind
from synthesis.samples.checks import Checker, trace_spans
from synthesis.samples.decisions import seen_key
from trace_site.lib.charts import Series, line_chart
from trace_site.lib.errors import TraceError
from trace_site.paging import keyset

MOST = 20
SALT = "synthesis.review.bulk"
TOKEN_SECONDS = 3600


def bulk_take(*, reviewer: Any, version: RuleVersion) -> int:
    """Claim first readings of this rule version until the reviewer holds MOST of them; how many they hold."""
    review_queue.sweep()
    with transaction.atomic():
        held = held_items(reviewer, version).count()
        free = review_queue.open_to(reviewer, _first_readings(version)).order_by("rank", "pk")
        locked = free.select_for_update(skip_locked=True, no_key=True, of=("self",))
        taken = [review_queue.take(item, reviewer) for item in locked[: max(0, MOST - held)]]
    return held + len(taken)


def held_items(reviewer: Any, version: RuleVersion) -> QuerySet[ReviewItem]:
    """What the reviewer holds of this rule version."""
    rows = _first_readings(version).filter(state=ReviewItem.State.CLAIMED, claimed_by=reviewer)
    unread = [f"sample__{name}" for name in ("trace", "explanation", "made_from", "pool")]
    return rows.select_related("sample").defer(*unread).order_by("rank", "pk")


def bulk_open(*, reviewer: Any, item: int) -> tuple[Sample, list[Failure], str]:
    """The whole sample of an item, claimed by the reader; what filter V refuses it for, and else the token that says it
    was opened. Raises TraceError "conflict", or "not_bulk".
    """
    row = review_queue.claim_item(reviewer, item)
    if row.round != ReviewItem.Round.FIRST or row.calibration or row.batch_id or not row.rule_version_id:
        message = "it is read one by one: only first readings of a rule's samples are approved in bulk."
        raise TraceError(message, code="not_bulk", where=f"sample {row.sample_id}")
    sample = _samples([row.sample_id]).get()
    failures = [failure for _, found in Checker().failing([sample]) for failure in found]
    said = {"item": row.pk, "claim": str(row.claim), "seen": seen_key(sample), "user": reviewer.pk}
    return sample, failures, "" if failures else signing.dumps(said, salt=SALT)


def bulk_approve(*, reviewer: Any, tokens: Iterable[str]) -> list[dict[str, Any]]:
    """Approve what was opened, each for itself: [{"sample", "approved", "second", "why": what stood in the way}].
    Raises TraceError when nothing of it may be approved: forged, too many, of two rule versions.
    """
    opened = {said["item"]: said for said in (_read(token, reviewer) for token in tokens)}
    items = {item.pk: item for item in ReviewItem.objects.filter(pk__in=list(opened))}
    if not items or len(items) > MOST:
        raise TraceError(
            f"open and tick 1 to {MOST} samples." if items else "nothing was ticked.",
            code="bulk_count",
            hint="Only samples that were opened can be ticked.",
        )
    if len({item.rule_version_id for item in items.values()}) > 1:
        raise TraceError("the samples belong to different rule versions.", code="mixed_rules")
    samples = {sample.pk: sample for sample in _samples([item.sample_id for item in items.values()])}
    refused = {sample.pk: failures for sample, failures in Checker().failing(samples.values())}
    outcomes = []
    for pk, item in sorted(items.items()):
        human, why = "", " ".join(f"{one.check}: {one.message}" for one in refused.get(item.sample_id, []))
        if not why:
            shown = {"claim": opened[pk]["claim"], "seen": opened[pk]["seen"], "how": Sample.How.BULK}
            try:
                row = review_services.approve(sample=samples[item.sample_id], reviewer=reviewer, **shown)
                human = row.human
            except TraceError as error:
                why = error.message
        ended = {"approved": human == Sample.Human.APPROVED, "second": human == Sample.Human.SECOND}
        outcomes.append({"sample": item.sample_id, **ended, "why": why})
    return outcomes


def _read(token: str, reviewer: Any) -> dict[str, Any]:
    """What a token says. Raises TraceError for one that is forged, another reader's, or too old."""
    try:
        said: dict[str, Any] = signing.loads(token, salt=SALT, max_age=TOKEN_SECONDS)
        if said["user"] != reviewer.pk:
            raise signing.BadSignature("another reader's")
        return said
    except signing.BadSignature as error:
        raise TraceError(
            "a sample was not opened by you on this page, or too long ago.",
            code="not_opened",
            hint="Open it again: what is not opened is not approved.",
        ) from error


def _first_readings(version: RuleVersion) -> QuerySet[ReviewItem]:
    first = ReviewItem.objects.filter(round=ReviewItem.Round.FIRST, calibration=False, batch=None)
    return first.filter(rule=version.rule_id, rule_version=version)  # the rule has the index


def _samples(pks: list[int]) -> QuerySet[Sample]:
    return Sample.objects.filter(pk__in=pks).select_related("run", "rule_version__rule", "domain")


@require_GET
def page(request: HttpRequest) -> HttpResponse:
    """The rows the reader holds of one rule; without a rule, the rules of which samples wait."""
    code = request.GET.get("rule", "")
    version = reads.published_version(code) if code else None
    return shown(request, version, code=code)


def shown(request: HttpRequest, version: RuleVersion | None, status: int = 200, **more: Any) -> HttpResponse:
    context: dict[str, Any] = {"version": version, "most": MOST, **more}
    context |= {"rows": held_items(request.user, version)} if version else {"rules": reads.waiting_rules()}
    return render(request, "synthesis/bulk.html", context, status=status)


@require_POST
def take(request: HttpRequest) -> HttpResponse:
    version = asked(request)
    bulk_take(reviewer=request.user, version=version)
    return redirect(f"{reverse('synthesis:review_bulk')}?{urlencode({'rule': version.rule.code})}")


@require_GET
def opened(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: one sample whole, with the token that says it was opened."""
    try:
        sample, failures, token = bulk_open(reviewer=request.user, item=pk)
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
        outcomes = bulk_approve(reviewer=request.user, tokens=request.POST.getlist("token"))
    except TraceError as error:
        return shown(request, version, 422, refused=error)
    return shown(request, version, outcomes=outcomes)


@require_POST
def keep(request: HttpRequest) -> HttpResponse:
    """Renew the leases."""
    held = held_items(request.user, asked(request)).order_by()
    held.update(claimed_until=Now() + review_queue.LEASE)
    return HttpResponse(status=204)


@require_POST
def release(request: HttpRequest) -> HttpResponse:
    """Give back what is left; also what the browser calls when the page is left."""
    held = held_items(request.user, asked(request))
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
    rows = [(row, TONES[row.state], counts[row.pk]) for row in page.rows]
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
        "progress": reads.progress([pk])[pk],
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
