"""Pages of samples: all of them by what became of them, and one with every attempt."""

from typing import Any

from django.db.models import Count, F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from rules.models import Rule
from synthesis.llm.ledger import job_books
from synthesis.models import Attempt, Sample, Snapshot
from synthesis.samples import selectors
from synthesis.samples.checks import failure_spans, trace_spans
from synthesis.samples.counts import rules_with_samples
from synthesis.samples.forms import SampleFilters
from synthesis.samples.impact import regeneration_calls, stale_of_rules
from synthesis.samples.lineage import NARROWS, Lineage, decisions_shown, members
from synthesis.samples.staleness import OUTDONE, replacement, stale_map, stale_shown
from trace_site.paging import keyset, numbers_of


@require_GET
def sample_list(request: HttpRequest) -> HttpResponse:
    filters = SampleFilters(request.GET)
    values = filters.values()
    found = selectors.samples(values, request.GET.get("after", ""))
    filters.tell(found.tally.options)
    context = {"found": found, "page": found.page, "filters": filters, "active": values}
    return render(request, "synthesis/sample_list.html", context)


@require_GET
def sample_rules(request: HttpRequest) -> HttpResponse:
    """The codes the rule filter suggests, asked for when somebody goes there: there may be thousands."""
    return render(request, "synthesis/_codes.html", {"codes": rules_with_samples()})


@require_GET
def sample_detail(request: HttpRequest, pk: int) -> HttpResponse:
    sample = selectors.sample(pk)
    context = sample_context(sample)
    shown_decisions, context["hidden"] = decisions_shown(sample, request.user)
    context["decisions"] = shown_decisions[::-1]
    least = selectors.thresholds(sample)
    context["tried"] = [
        {
            "row": row,
            "query": failure_spans(row.query, row.filter_failures),
            "trace": failure_spans(row.trace, row.filter_failures),
            "scores": [_score(axis, row.judge.get(axis), least[axis]) for axis in least if row.judge],
        }
        for row in context["attempts"]
    ]
    context["why"] = selectors.ended_with(context["attempts"][-1]) if context["attempts"] else ""
    context["costs"] = costs(sample, context["attempts"])
    return render(request, "synthesis/sample_detail.html", context)


def sample_context(sample: Sample, rule: str = "") -> dict[str, Any]:
    """What the page of a sample shows of itself, and the review queue. rule: the text that its trace may quote."""
    version, pool = sample.rule_version, selectors.pool_tools(sample)
    codes = [version.rule.code] if version else []
    return {
        "sample": sample,
        "spans": trace_spans(sample.trace, sample.pool, sample.answer, codes, rule),
        "pool": pool,
        "main": pool[0] if pool else None,
        "rule_ids": version.tool_ids if version else [],
        "attempts": list(sample.attempts.order_by("number")),
    }


def _score(axis: str, value: int | None, least: int) -> dict[str, Any]:
    return {"axis": axis, "value": value, "least": least, "passed": value is not None and value >= least}


def costs(sample: Sample, attempts: list[Attempt]) -> dict[str, Any]:
    """Calls of all attempts, and what they cost at the mean of their run: the ledger keeps calls, not samples."""
    calls = sum(row.calls for row in attempts)
    if not calls:
        return {}
    total = job_books(sample.run.job)["total"]
    return {"calls": calls, "cost": calls * total["cost"] / total["calls"] if total["calls"] else None}


@require_GET
def sample_lineage(request: HttpRequest, pk: int) -> HttpResponse:
    found = Lineage(pk, request.user)
    return render(request, "synthesis/sample_lineage.html", {"line": found, "sample": found.sample})


@require_GET
def snapshot_members(request: HttpRequest, pk: int) -> HttpResponse:
    """The samples of a snapshot in its order, all or of a branch, rule or style; each leads to its lineage."""
    snapshot = get_object_or_404(Snapshot.objects.defer("manifest"), pk=pk)
    chosen = {name: value for name in NARROWS if (value := request.GET.get(name, "")[:200])}
    page = keyset(members(pk, chosen), request.GET.get("after", ""), by="position")
    context = {"snapshot": snapshot, "page": page, "chosen": chosen}
    return render(request, "synthesis/snapshot_members.html", context)


@require_GET
def sample_stale(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment: whether it is as it would be written today, and why not."""
    sample = get_object_or_404(Sample.objects.select_related("rule_version"), pk=pk)
    if sample.machine == Sample.Machine.DROPPED or sample.human == Sample.Human.REJECTED:
        return HttpResponse()  # nobody learns from it, current or not
    found = stale_map(Sample.objects.filter(pk=pk))[pk]
    context = {
        "sample": sample,
        "level": found.level,
        "shown": stale_shown(sample, found.reasons),
        "newer": replacement(sample),
        "gone": any(reason.kind == "gone" for reason in found.reasons),
    }
    return render(request, "synthesis/_stale.html", context)


# Fragments of the rule pages: what publishing would make stale, and how many samples each rule has.


MOST_SHOWN = 200  # rules of one page of the list


@require_GET
def rule_impact(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Samples of the published version stop entering snapshots once another version is published."""
    rule = get_object_or_404(Rule, pk=rule_id)
    found = stale_of_rules([rule.pk])
    context = {"rule": rule, "found": found, "calls": regeneration_calls(found.samples)}
    return render(request, "synthesis/_rule_impact.html", context)


@require_GET
def rule_counts(request: HttpRequest) -> HttpResponse:
    """Approved samples of the published rules ?rules=1,2, swapped into the rows of the rule list."""
    shown = numbers_of(request.GET.get("rules", "").split(","))
    approved = Sample.objects.filter(
        ~OUTDONE,
        rule_version__rule__in=shown[:MOST_SHOWN],
        rule_version__rule__published=F("rule_version"),
        machine=Sample.Machine.READY,
        human=Sample.Human.APPROVED,
    )
    counts = (
        approved.order_by()
        .values_list("rule_version__rule", "rule_version__rule__code")
        .annotate(Count("pk"))
    )
    return render(request, "synthesis/_rule_counts.html", {"counts": counts})
