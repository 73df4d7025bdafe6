"""The yield funnel of a run: what was written, refused, ready and paid, from rows alone."""

from collections import Counter
from typing import Any

from django.db.models import Count, Q

from synthesis.books import job_books
from synthesis.models import Attempt, SynthesisRun
from synthesis.selectors_units import equation, of_run


def run_counts(run: SynthesisRun) -> dict[str, Any]:
    """The yield funnel. written: samples; filtered, judged_out: attempts refused; ready, dropped: samples.

    planned = ready + dropped + those given up, by reason, + missing; whoever wrote them.
    calls: HTTP exchanges, lost and failed ones too; tokens and cost: what they took.
    """
    attempts = Attempt.objects.filter(of_run(run.pk, "sample__"))
    outcomes = Counter(dict(attempts.values_list("outcome").annotate(n=Count("pk"))))
    units = equation(run)
    paid = job_books(run.job).total
    checks: Counter[str] = Counter()
    axes: Counter[str] = Counter()
    for failures, judge in attempts.filter(Q(outcome="filtered") | Q(outcome="judged_out")).values_list(
        "filter_failures", "judge"
    ):
        checks.update({failure["check"] for failure in failures})
        axes.update(judge.get("failed", ()))
    return {
        "planned": units.planned,
        "given_up": units.given_up,
        "missing": units.missing,
        "written": units.ready + units.dropped,
        "filtered": outcomes["filtered"],
        "judged_out": outcomes["judged_out"],
        "ready": units.ready,
        "dropped": units.dropped,
        "calls": paid.calls,
        "tokens": paid.tokens,
        "cost": paid.cost,
        "attempts": sum(outcomes.values()),
        "errors": outcomes["error"],
        "checks": dict(checks.most_common()),
        "axes": dict(axes.most_common()),
        "skipped": len(run.skipped),
        "run": run.pk,
    }


def funnel_lines(counts: dict[str, Any]) -> list[str]:
    """The funnel for a terminal."""
    share = counts["ready"] / counts["written"] if counts["written"] else 0.0

    def listed(reasons: dict[str, int]) -> str:
        return f" ({', '.join(f'{name} {number:,}' for name, number in reasons.items())})" if reasons else ""

    given_up = sum(counts["given_up"].values())
    return [
        f"  planned     {counts['planned']:>7,} samples, {given_up:,} given up{listed(counts['given_up'])}",
        f"  written     {counts['written']:>7,} samples, {counts['attempts']:,} attempts",
        f"  asked       {counts['calls']:>7,} calls, {counts['tokens']:,} tokens, cost {counts['cost']:,.4f}",
        f"  filter V    {counts['filtered']:>7,} attempts refused{listed(counts['checks'])}",
        f"  judge J     {counts['judged_out']:>7,} attempts refused{listed(counts['axes'])}",
        f"  errors      {counts['errors']:>7,} attempts",
        f"  dropped     {counts['dropped']:>7,} samples after all retries",
        f"  ready       {counts['ready']:>7,} samples ({share:.1%})",
    ]
