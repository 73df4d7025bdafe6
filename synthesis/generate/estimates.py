"""What a run would write, ask, cost and take, before it starts; every figure says what it rests on.

Samples come from a plan made dry. The rest is measured on earlier runs here with the same writer, else a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from django.db.models import Avg, Count, F, Sum

from synthesis.core.recipe import Recipe, read_recipe
from synthesis.generate.imports import spare
from synthesis.generate.planning import plan_counts
from synthesis.generate.services import run_params
from synthesis.llm.usage import LIMITS
from synthesis.llm.writers import endpoints
from synthesis.models import Attempt, ModelCall, SynthesisRun
from trace_site.jobs import Job

ROLES = {"query": "generator", "trace": "teacher", "judge": "judge"}
RETRIES = 1.25  # calls for one that passes at once, retries included
TOKENS = {
    "query": (900, 350),
    "trace": (1800, 250),
    "judge": (2100, 120),
}  # the default prompts over 30 tools
SECONDS_A_CALL = 2.0
OFFLINE_RATE = 150.0  # samples a second on 2 cores
RECENT = 5  # runs
ENOUGH = 20  # samples to measure on
ENOUGH_CALLS = 5  # of one purpose


@dataclass(frozen=True, slots=True)
class Figure:
    """A number (None: unknown) and what it rests on."""

    value: float | None
    basis: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """`plan` is planning.plan_counts; `over` names what the budget does not cover."""

    samples: Figure
    calls: Figure
    tokens: Figure
    money: Figure
    seconds: Figure
    plan: dict[str, Any] = field(default_factory=dict)
    over: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        names = ("samples", "calls", "tokens", "money", "seconds")
        figures = {name: getattr(self, name) for name in names}
        told = {name: {"value": one.value, "basis": one.basis} for name, one in figures.items()}
        return {**told, "plan": self.plan, "over": self.over}


def estimate(*, branch: str, writer: str = "offline", seed: int = 0, **chosen: Any) -> Estimate:
    """Takes what `synthesis_start` takes, refuses what it refuses, and neither asks nor writes anything."""
    params = run_params(branch=branch, writer=writer, **chosen)
    recipe = read_recipe(params["recipe"])
    plan = _plan(branch, writer, recipe, seed, params)
    samples = Figure(plan["samples"], _told(plan))
    if writer != "llm":
        none = Figure(0, f"the {writer} writers ask no model")
        return Estimate(samples, none, none, none, _local_seconds(writer, plan["samples"]), plan)
    calls = _calls(branch, recipe, plan)
    asked = _Asked.of({name: value for name, (value, _) in calls.items()})
    total = Figure(round(asked.calls), next(basis for _, basis in calls.values()))
    found = {"calls": total, "tokens": asked.tokens(), "money": asked.money()}
    over = [
        f"{name}: about {found[name].value:,.10g} of {most:,.10g}"
        for name in LIMITS
        if (most := params["budget"].get(name)) is not None and (found[name].value or 0) > most
    ]
    return Estimate(samples, **found, seconds=asked.seconds(), plan=plan, over=over)


def _plan(branch: str, writer: str, recipe: Recipe, seed: int, params: dict[str, Any]) -> dict[str, Any]:
    if branch != SynthesisRun.Branch.IMPORTED:
        return plan_counts(branch=branch, writer=writer, recipe=recipe, seed=seed, params=params)
    waiting = spare(params["domain"]).count()
    return {"new": waiting, "samples": waiting, "skipped": 0, "rows": []}


def _told(plan: dict[str, Any]) -> str:
    names = {"new": "new", "content_stale": "stale", "outdated": "outdated", "kept": "kept as they are"}
    parts = [f"{plan[name]:,} {words}" for name, words in names.items() if plan.get(name)]
    return f"counted: {', '.join(parts) or 'nothing is missing'}"


def _calls(branch: str, recipe: Recipe, plan: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """{purpose: (calls, what that rests on)}"""
    samples = plan["samples"]
    measured = _calls_a_sample(branch)
    if measured is not None:
        per, runs = measured
        basis = f"{sum(per.values()):.2f} calls a sample, measured on {runs} earlier runs here"
        return {name: (samples * each, basis) for name, each in per.items()}
    basis = "default: a query, a trace and a judge call each, a quarter more for retries"
    queries = samples
    if branch == SynthesisRun.Branch.RULE:
        basis += f"; one call writes up to {recipe.query.per_call} queries"
        queries = sum(ceil(_written(row) / recipe.query.per_call) for row in plan["rows"])
    if branch == SynthesisRun.Branch.IMPORTED:
        basis = "default: a trace and a judge call each, a quarter more for retries"
        queries = 0
    found = {"query": queries, "trace": samples, "judge": samples}
    return {name: (number * RETRIES, basis) for name, number in found.items()}


def _written(row: dict[str, Any]) -> int:
    return int(row["new"] + row["content_stale"] + row["outdated"])


def _calls_a_sample(branch: str) -> tuple[dict[str, float], int] | None:
    """{purpose: exchanges of one sample} over the newest ended runs of the branch that asked models."""
    runs = SynthesisRun.objects.filter(branch=branch, writer__startswith="llm:", job__state=Job.State.DONE)
    newest = list(runs.order_by("-pk")[:RECENT].values_list("pk", "job"))
    tried = Attempt.objects.filter(sample__run__in=[pk for pk, _ in newest], number=1).count()
    if tried < ENOUGH:
        return None
    rows = ModelCall.objects.filter(job__in=[job for _, job in newest])
    counts = rows.values_list("purpose").annotate(calls=Count("pk"))
    per = dict.fromkeys(ROLES, 0.0)
    for purpose, calls in counts:
        per[purpose.partition("_")[0]] += calls / tried
    return per, len(newest)


@dataclass(slots=True)
class _Asked:
    """Calls by purpose with what one takes."""

    numbers: dict[str, float]
    each: Mapping[str, tuple[float, float, float]]  # prompt tokens, completion tokens, seconds
    measured: set[str]

    @classmethod
    def of(cls, numbers: dict[str, float]) -> "_Asked":
        each: dict[str, tuple[float, float, float]] = {}
        measured = set()
        for purpose in ROLES:
            recent = ModelCall.objects.filter(purpose__startswith=purpose, state="answered").order_by("-pk")
            row = ModelCall.objects.filter(pk__in=recent.values("pk")[:500]).aggregate(
                calls=Count("pk"),
                prompt=Avg("prompt_tokens"),
                completion=Avg("completion_tokens"),
                seconds=Avg("seconds"),
            )
            each[purpose] = (*TOKENS[purpose], SECONDS_A_CALL)
            if row["calls"] >= ENOUGH_CALLS:
                each[purpose] = (row["prompt"], row["completion"], row["seconds"])
                measured.add(purpose)
        return cls(numbers, each, measured)

    @property
    def calls(self) -> float:
        return sum(self.numbers.values())

    def tokens(self) -> Figure:
        total = sum(number * sum(self.each[purpose][:2]) for purpose, number in self.numbers.items())
        return Figure(round(total), self._basis("tokens a call"))

    def money(self) -> Figure:
        found = endpoints()
        if not any(one.price_in or one.price_out for one in found.values()):
            return Figure(None, "no prices are set (LLM_PRICE_IN, LLM_PRICE_OUT)")
        total = sum(
            number * found[ROLES[purpose]].cost(*map(round, self.each[purpose][:2]))
            for purpose, number in self.numbers.items()
        )
        return Figure(round(total, 4), "those tokens at the prices set for each role")

    def seconds(self) -> Figure:
        found = endpoints()
        slots = sum({one.base_url: one.concurrency for one in found.values()}.values())
        total = sum(number * self.each[purpose][2] for purpose, number in self.numbers.items()) / slots
        return Figure(round(total), self._basis(f"seconds a call, {slots} at a time"))

    def _basis(self, what: str) -> str:
        if self.measured >= {purpose for purpose, number in self.numbers.items() if number}:
            return f"{what} measured on the newest calls here"
        return f"default {what}"


def _local_seconds(writer: str, samples: int) -> Figure:
    """From the rates of earlier runs of these writers that wrote enough."""
    runs = SynthesisRun.objects.filter(writer=writer, job__state=Job.State.DONE, job__total__gte=ENOUGH)
    newest = runs.order_by("-pk").values("pk")[:RECENT]
    took = F("job__finished_at") - F("job__started_at")
    sums = SynthesisRun.objects.filter(pk__in=newest).aggregate(samples=Sum("job__total"), took=Sum(took))
    if sums["took"] and sums["took"].total_seconds() > 0:
        rate = sums["samples"] / sums["took"].total_seconds()
        return Figure(
            round(samples / rate, 1), f"{rate:,.0f} samples/s, measured on earlier {writer} runs here"
        )
    return Figure(round(samples / OFFLINE_RATE, 1), f"default {OFFLINE_RATE:,.0f} samples/s")
