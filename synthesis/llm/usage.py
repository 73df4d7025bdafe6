"""The books of a job from the ledger: calls, tokens, money and seconds, by purpose and model, and errors by code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from django.db.models import Aggregate, Count, F, FloatField, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from synthesis.models import ModelCall, SynthesisRun
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError, quoted
from trace_site.lib.llm import Budget, Spent

LOST = "llm_lost"  # sent by a process that died: perhaps paid, never read


class Percentile(Aggregate):
    """Percentile(share, column): interpolated, as Postgres counts it."""

    function = "percentile_cont"
    template = "%(function)s(%(share)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()

    def __init__(self, share: float, column: str, **extra: Any) -> None:
        super().__init__(F(column), share=share, **extra)


@dataclass(frozen=True, slots=True)
class Line:
    """One purpose and model, or the total (both empty). `lost` calls are failed ones whose process died."""

    purpose: str = ""
    model: str = ""
    calls: int = 0
    answered: int = 0
    failed: int = 0
    under_way: int = 0
    lost: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    p50: float = 0.0
    p95: float = 0.0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Books:
    """`errors`: {code: calls}, the most frequent first."""

    total: Line
    lines: list[Line] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)


def job_books(job: Job | None) -> Books:
    """Three queries whatever the job's size; empty for a job that asked no model."""
    if job is None:
        return Books(Line())
    rows = ModelCall.objects.filter(job=job)
    errors = rows.exclude(error_code="").values_list("error_code").annotate(calls=Count("pk"))
    groups = rows.values("purpose", "model").order_by("purpose", "model")
    return Books(
        Line(**rows.aggregate(**_sums())),
        [Line(**group) for group in groups.annotate(**_sums())],
        dict(errors.order_by("-calls", "error_code")),
    )


def job_calls(job: Job) -> QuerySet[ModelCall]:
    """The exchanges themselves, newest first."""
    return ModelCall.objects.filter(job=job).order_by("-pk")


def _sums() -> dict[str, Any]:
    states = ModelCall.State
    answered = Q(state=states.ANSWERED)
    return {
        "calls": Count("pk"),
        "answered": Count("pk", filter=answered),
        "failed": Count("pk", filter=Q(state=states.FAILED)),
        "under_way": Count("pk", filter=Q(state=states.SENT)),
        "lost": Count("pk", filter=Q(error_code=LOST)),
        "prompt_tokens": Coalesce(Sum("prompt_tokens"), 0),
        "completion_tokens": Coalesce(Sum("completion_tokens"), 0),
        "cost": Coalesce(Sum("cost"), 0.0),
        "p50": Coalesce(Percentile(0.5, "seconds", filter=answered), 0.0),
        "p95": Coalesce(Percentile(0.95, "seconds", filter=answered), 0.0),
    }


# What a run may spend: calls, tokens and money, counted from the ledger over all attempts of its job.
#
# A call that was lost with its process, cancelled or timed out counts in full: its ledger row holds the most it can
# have cost. What the endpoint refused counts as a call without tokens.


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
