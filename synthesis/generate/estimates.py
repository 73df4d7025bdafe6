"""What a run would write, ask, cost and take, before it starts; every figure says what it rests on.

Samples come from a plan made dry. The rest is measured on earlier runs here with the same writer, else a default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from django.db.models import Avg, Count, F, Sum

from synthesis.core.recipe import Recipe, read_recipe
from synthesis.generate.imports import spare
from synthesis.generate.planning import plan_counts
from synthesis.generate.services import run_params
from synthesis.llm.ledger import LIMITS
from synthesis.llm.writers import configured, endpoints
from synthesis.models import Attempt, ModelCall, SynthesisRun
from synthesis.samples.staleness import newest_recipe
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


def estimate(*, branch: str, writer: str = "offline", seed: int = 0, **chosen: Any) -> Estimate:
    """Takes what `synthesis_start` takes, refuses what it refuses, and neither asks nor writes anything."""
    params = run_params(branch=branch, writer=writer, **chosen)
    recipe = read_recipe(params["recipe"])
    if branch == SynthesisRun.Branch.IMPORTED:
        waiting = spare(params["domain"]).count()
        plan: dict[str, Any] = {"new": waiting, "samples": waiting, "skipped": 0, "rows": []}
    else:
        plan = plan_counts(branch=branch, writer=writer, recipe=recipe, seed=seed, params=params)
    names = {"new": "new", "content_stale": "stale", "outdated": "outdated", "kept": "kept as they are"}
    parts = [f"{plan[name]:,} {words}" for name, words in names.items() if plan.get(name)]
    samples = Figure(plan["samples"], f"counted: {', '.join(parts) or 'nothing is missing'}")
    if writer != "llm":
        none = Figure(0, f"the {writer} writers ask no model")
        return Estimate(samples, none, none, none, _local_seconds(writer, plan["samples"]), plan)
    found, over = asked(branch, recipe, plan, params["budget"])
    return Estimate(samples, **found, plan=plan, over=over)


def estimate_new(numbers: Sequence[int], *, writer: str = "") -> Estimate:
    """Of so many samples for each of some rules that are not written yet, by this kind of writer (empty: the configured
    one)."""
    writer, branch = writer or ("llm" if configured() else "offline"), SynthesisRun.Branch.RULE
    plan = {
        "samples": sum(numbers),
        "rows": [{"new": number, "content_stale": 0, "outdated": 0} for number in numbers],
    }
    samples = Figure(sum(numbers), f"{len(numbers)} rules that are not written yet")
    if writer != "llm":
        none = Figure(0, f"the {writer} writers ask no model")
        return Estimate(samples, none, none, none, _local_seconds(writer, sum(numbers)), plan)
    found, over = asked(branch, newest_recipe(branch, writer)[0], plan, {})
    return Estimate(samples, **found, plan=plan, over=over)


def asked(
    branch: str, recipe: Recipe, plan: dict[str, Any], budget: Mapping[str, float]
) -> tuple[dict[str, Figure], list[str]]:
    """What the models would be asked for a plan's samples, and what of it the budget does not cover."""
    calls, basis = _calls(branch, recipe, plan)
    found = {"calls": Figure(round(sum(calls.values())), basis), **_taken(calls)}
    over = [
        f"{name}: about {found[name].value:,.10g} of {most:,.10g}"
        for name in LIMITS
        if (most := budget.get(name)) is not None and (found[name].value or 0) > most
    ]
    return found, over


def _calls(branch: str, recipe: Recipe, plan: dict[str, Any]) -> tuple[dict[str, float], str]:
    """({purpose: calls}, what that rests on): the newest ended runs of the branch that asked models, or a default."""
    samples = queries = plan["samples"]
    runs = SynthesisRun.objects.filter(branch=branch, writer__startswith="llm:", job__state=Job.State.DONE)
    newest = list(runs.order_by("-pk")[:RECENT].values_list("pk", "job"))
    tried = Attempt.objects.filter(sample__run__in=[pk for pk, _ in newest], number=1).count()
    if tried >= ENOUGH:
        rows = ModelCall.objects.filter(job__in=[job for _, job in newest])
        per = dict.fromkeys(ROLES, 0.0)
        for purpose, calls in rows.values_list("purpose").annotate(calls=Count("pk")):
            per[purpose.partition("_")[0]] += calls / tried
        basis = f"{sum(per.values()):.2f} calls a sample, measured on {len(newest)} earlier runs here"
        return {name: samples * each for name, each in per.items()}, basis
    basis = "default: a query, a trace and a judge call each, a quarter more for retries"
    if branch == SynthesisRun.Branch.RULE:
        most = recipe.query.per_call
        basis += f"; one call writes up to {most} queries"
        written = (row["new"] + row["content_stale"] + row["outdated"] for row in plan["rows"])
        queries = sum(ceil(number / most) for number in written)
    if branch == SynthesisRun.Branch.IMPORTED:
        basis = "default: a trace and a judge call each, a quarter more for retries"
        queries = 0
    return {"query": queries * RETRIES, "trace": samples * RETRIES, "judge": samples * RETRIES}, basis


def _taken(calls: dict[str, float]) -> dict[str, Figure]:
    """The tokens, money and seconds that so many calls of each purpose take."""
    each: dict[str, tuple[float, float, float]] = {}  # prompt tokens, completion tokens, seconds
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
    known = measured >= {purpose for purpose, number in calls.items() if number}

    def basis(what: str) -> str:
        return f"{what} measured on the newest calls here" if known else f"default {what}"

    found = endpoints()
    money = Figure(None, "no prices are set (LLM_PRICE_IN, LLM_PRICE_OUT)")
    if any(one.price_in or one.price_out for one in found.values()):
        prices = {name: found[role].cost(*map(round, each[name][:2])) for name, role in ROLES.items()}
        cost = sum(number * prices[name] for name, number in calls.items())
        money = Figure(round(cost, 4), "those tokens at the prices set for each role")
    slots = sum({one.base_url: one.concurrency for one in found.values()}.values())
    tokens = sum(number * sum(each[name][:2]) for name, number in calls.items())
    seconds = sum(number * each[name][2] for name, number in calls.items()) / slots
    return {
        "tokens": Figure(round(tokens), basis("tokens a call")),
        "money": money,
        "seconds": Figure(round(seconds), basis(f"seconds a call, {slots} at a time")),
    }


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
