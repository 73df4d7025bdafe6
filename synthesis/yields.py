"""The yield funnel of a run: what was written, refused, ready and paid, from rows alone."""

from collections import Counter
from typing import Any

from django.db.models import Count, Q

from synthesis.books import job_books
from synthesis.models import Attempt, SynthesisRun


def run_counts(run: SynthesisRun) -> dict[str, Any]:
    """The yield funnel. written: samples; filtered, judged_out: attempts refused; ready, dropped: samples.

    calls: HTTP exchanges, lost and failed ones too; tokens and cost: what they took.
    """
    attempts = Attempt.objects.filter(sample__run=run)
    outcomes = Counter(dict(attempts.values_list("outcome").annotate(n=Count("pk"))))
    passed = attempts.filter(outcome="ready").count()
    tried = attempts.values("sample").distinct().count()
    paid = job_books(run.job).total
    checks: Counter[str] = Counter()
    axes: Counter[str] = Counter()
    for failures, judge in attempts.filter(Q(outcome="filtered") | Q(outcome="judged_out")).values_list(
        "filter_failures", "judge"
    ):
        checks.update({failure["check"] for failure in failures})
        axes.update(judge.get("failed", ()))
    return {
        "written": tried,
        "filtered": outcomes["filtered"],
        "judged_out": outcomes["judged_out"],
        "ready": passed,
        "dropped": tried - passed,
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

    return [
        f"  written     {counts['written']:>7,} samples, {counts['attempts']:,} attempts",
        f"  asked       {counts['calls']:>7,} calls, {counts['tokens']:,} tokens, cost {counts['cost']:,.4f}",
        f"  filter V    {counts['filtered']:>7,} attempts refused{listed(counts['checks'])}",
        f"  judge J     {counts['judged_out']:>7,} attempts refused{listed(counts['axes'])}",
        f"  errors      {counts['errors']:>7,} attempts",
        f"  dropped     {counts['dropped']:>7,} samples after all retries",
        f"  ready       {counts['ready']:>7,} samples ({share:.1%})",
    ]
