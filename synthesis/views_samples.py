"""Pages of samples: all of them by what became of them, and one with every attempt."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from synthesis import samples
from synthesis.books import job_books
from synthesis.forms import SampleFilters
from synthesis.models import Attempt, Sample
from synthesis.selectors_counts import rules_with_samples
from synthesis.selectors_lineage import decisions_shown
from synthesis.spans import FailureSpan, failure_spans, trace_spans


@require_GET
def sample_list(request: HttpRequest) -> HttpResponse:
    filters = SampleFilters(request.GET)
    values = filters.values()
    found = samples.samples(values, request.GET.get("after", ""))
    filters.tell(found.tally.options)
    context = {"found": found, "page": found.page, "filters": filters, "active": values}
    return render(request, "synthesis/sample_list.html", context)


@require_GET
def sample_rules(request: HttpRequest) -> HttpResponse:
    """The codes the rule filter suggests, asked for when somebody goes there: there may be thousands."""
    return render(request, "synthesis/_codes.html", {"codes": rules_with_samples()})


@require_GET
def sample_detail(request: HttpRequest, pk: int) -> HttpResponse:
    sample = samples.sample(pk)
    context = sample_context(sample)
    shown_decisions, context["hidden"] = decisions_shown(sample, request.user)
    context["decisions"] = shown_decisions[::-1]
    least = samples.thresholds(sample)
    context["tried"] = [shown(row, least) for row in context["attempts"]]
    context["why"] = samples.ended_with(context["attempts"][-1]) if context["attempts"] else ""
    context["costs"] = costs(sample, context["attempts"])
    return render(request, "synthesis/sample_detail.html", context)


def sample_context(sample: Sample) -> dict[str, Any]:
    """What the page of a sample shows of itself."""
    code = sample.rule_version.rule.code if sample.rule_version else ""
    pool = samples.pool_tools(sample)
    return {
        "sample": sample,
        "spans": trace_spans(sample.trace, sample.pool, sample.answer, [code] if code else []),
        "pool": pool,
        "main": pool[0] if pool else None,
        "rule_ids": sample.rule_version.tool_ids if sample.rule_version else [],
        "attempts": samples.attempts(sample),
    }


@dataclass(frozen=True, slots=True)
class Score:
    axis: str
    value: int | None
    least: int

    @property
    def passed(self) -> bool:
        return self.value is not None and self.value >= self.least


@dataclass(frozen=True, slots=True)
class Shown:
    """One attempt as its page shows it: texts with the evidence in them, scores against their thresholds."""

    row: Attempt
    query: list[FailureSpan]
    trace: list[FailureSpan]
    scores: list[Score]


def shown(row: Attempt, least: dict[str, int]) -> Shown:
    query, trace = (failure_spans(text, row.filter_failures) for text in (row.query, row.trace))
    scores = [Score(axis, row.judge.get(axis), score) for axis, score in least.items()]
    return Shown(row, query, trace, scores if row.judge else [])


def costs(sample: Sample, attempts: list[Attempt]) -> dict[str, Any]:
    """Calls of all attempts, and what they cost at the mean of their run: the ledger keeps calls, not samples."""
    calls = sum(row.calls for row in attempts)
    if not calls:
        return {}
    total = job_books(sample.run.job).total
    return {"calls": calls, "cost": calls * total.cost / total.calls if total.calls else None}
