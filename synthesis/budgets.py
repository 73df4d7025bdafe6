"""What a run may spend: calls, tokens and money, counted from the ledger over all attempts of its job.

A call that was lost with its process, cancelled or timed out counts in full: its ledger row holds the most it can
have cost. What the endpoint refused counts as a call without tokens.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from django.db.models import Count, F, Sum

from synthesis.models import ModelCall, SynthesisRun
from synthesis.selectors_units import equation
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError, quoted
from trace_site.lib.llm import Budget, Spent

LIMITS = ("calls", "tokens", "money")
MOST = 10**12


def read_budget(given: Mapping[str, Any] | None) -> dict[str, float]:
    """{limit: most}, without what is not limited. Raises TraceError naming the limit that is no positive number."""
    found = {name: value for name, value in (given or {}).items() if value is not None}
    for name, value in found.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        whole = name == "money" or isinstance(value, int)
        if name not in LIMITS or not number or not whole or not 0 < value <= MOST:
            raise TraceError(
                f"{quoted(value)} is no budget.",
                code="bad_option",
                where=f"budget.{name}",
                hint=f"Use whole numbers above 0 for calls and tokens, a number above 0 for money; at most {MOST:,}.",
            )
    return found


def spent(job: Job) -> Spent:
    """What every attempt of the job has spent so far."""
    rows = ModelCall.objects.filter(job=job)
    tokens = Sum(F("prompt_tokens") + F("completion_tokens"))
    sums = rows.aggregate(calls=Count("pk"), tokens=tokens, money=Sum("cost"))
    return Spent(calls=sums["calls"], tokens=sums["tokens"] or 0, money=sums["money"] or 0.0)


def run_budget(run: SynthesisRun, job: Job) -> Budget | None:
    """The run's budget with what is spent already; None when it has none."""
    limits = run.params.get("budget") or {}
    return Budget(**limits, spent=spent(job)) if limits else None


def refuse_spent(limits: Mapping[str, float], used: Spent) -> None:
    """Raise when a limit leaves nothing to spend."""
    for name, most in limits.items():
        if most <= getattr(used, name):
            raise TraceError(
                f"{getattr(used, name):,} are spent already.",
                code="bad_option",
                where=f"budget.{name}",
                hint="Choose a higher limit.",
            )


def told_budget(run: SynthesisRun, job: Job) -> TraceError:
    """The sentence of a run that stopped at its budget, with the figures."""
    limits, used = run.params["budget"], spent(job)
    figures = ", ".join(
        f"{getattr(used, name):,.2f} of {limits[name]:,.2f} spent"
        if name == "money"
        else f"{getattr(used, name):,} of {limits[name]:,} {name}"
        for name in LIMITS
        if name in limits
    )
    left = equation(run).missing
    return TraceError(
        f"stopped at its budget: {figures}; {left:,} samples are not written.",
        code="llm_budget",
        hint="Raise the budget and resume; what was paid is not paid again.",
        extra={
            "budget": limits,
            "calls": used.calls,
            "tokens": used.tokens,
            "money": used.money,
            "left": left,
        },
        permanent=True,
    )
