"""What a run would write, ask, cost and take, before it starts; every figure says what it rests on.

Samples come from a plan made dry. The rest is measured on earlier runs here with the same writer, else a default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Annotated, Any, NamedTuple

from django.db.models import Avg, Count, F, Max, Min, Q, Sum
from django.utils import timezone

from synthesis.core.recipe import Recipe, read_recipe
from synthesis.generate.imports import spare
from synthesis.generate.planning import plan_counts
from synthesis.generate.services import run_params
from synthesis.llm.ledger import LIMITS
from synthesis.llm.writers import configured, endpoints, recorded
from synthesis.models import Attempt, Decision, ModelCall, Sample, SynthesisRun
from synthesis.samples.impact import ENOUGH, RECENT, RETRIES, ended_runs
from synthesis.samples.staleness import newest_recipe
from trace_site.jobs import Job

ROLES = {"query": "generator", "trace": "teacher", "judge": "judge"}  # {purpose of a call: whom it asks}
TOKENS = {
    "query": (900, 350),
    "trace": (1800, 250),
    "judge": (2100, 120),
}  # the default prompts over 30 tools
SECONDS_A_CALL = 2.0
OFFLINE_RATE = 150.0  # samples a second on 2 cores
READINGS = 500  # the newest decisions of people
ENOUGH_READINGS = 5  # timed
AWAY = 300.0  # seconds; who takes longer did something else


@dataclass(frozen=True, slots=True)
class Figure:
    """A number (None: unknown) and what it rests on."""

    value: Annotated[float | None, "null: unknown"]
    basis: Annotated[str, "what it rests on"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """`plan` is planning.plan_counts; `over` names what the budget does not cover."""

    samples: Figure
    calls: Figure
    tokens: Figure
    money: Figure
    seconds: Figure
    plan: dict[str, Any] = field(default_factory=dict)
    over: Annotated[list[str], "what the budget does not cover"] = field(default_factory=list)


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
    return _of_plan(branch, writer, recipe, plan, samples, params["budget"])


def estimate_new(numbers: Sequence[int], *, budget: Mapping[str, float] | None = None) -> Estimate:
    """Of so many samples for each of some rules that are not written yet, by the configured writers."""
    writer, branch = "llm" if configured() else "offline", SynthesisRun.Branch.RULE
    rows = [{"new": number, "content_stale": 0, "outdated": 0} for number in numbers]
    plan = {"samples": sum(numbers), "rows": rows}
    samples = Figure(sum(numbers), f"{len(numbers)} rules that are not written yet")
    return _of_plan(branch, writer, newest_recipe(branch, writer)[0], plan, samples, budget or {})


def _of_plan(
    branch: str,
    writer: str,
    recipe: Recipe,
    plan: dict[str, Any],
    samples: Figure,
    budget: Mapping[str, float],
) -> Estimate:
    if writer != "llm":
        none = Figure(0, f"the {writer} writers ask no model")
        return Estimate(samples, none, none, none, _local_seconds(writer, plan["samples"]), plan)
    found = _asked(branch, recipe, plan)
    over = [
        f"{name}: about {found[name].value:,.10g} of {most:,.10g}"
        for name in LIMITS
        if (most := budget.get(name)) is not None and (found[name].value or 0) > most
    ]
    return Estimate(samples, **found, plan=plan, over=over)


class Taken(NamedTuple):
    """What calls of one purpose take; seconds one after the other."""

    calls: float
    prompt: float
    completion: float
    seconds: float


def _asked(branch: str, recipe: Recipe, plan: dict[str, Any]) -> dict[str, Figure]:
    """The calls, tokens, money and seconds that the models take for a plan's samples: as the newest ended runs of the
    branch that asked the same models needed them, or a default."""
    samples, found = plan["samples"], endpoints()
    runs = ended_runs(branch, "llm").filter(params__endpoints=recorded(found))
    newest = dict(runs.values_list("job", "pk")[:RECENT])
    tried = Attempt.objects.filter(sample__run__in=newest.values(), number=1).count()
    if tried >= ENOUGH:
        sums = (Count("pk"), Sum("prompt_tokens"), Sum("completion_tokens"), Sum("seconds"))
        rows = ModelCall.objects.filter(job__in=newest).order_by().values_list("purpose").annotate(*sums)
        took = dict.fromkeys(ROLES, Taken(0, 0, 0, 0))
        took |= {purpose.partition("_")[0]: Taken._make(numbers) for purpose, *numbers in rows}
        of_purpose = {
            name: Taken._make(samples * number / tried for number in taken) for name, taken in took.items()
        }
        each = sum(taken.calls for taken in took.values()) / tried
        basis = f"{each:.2f} calls a sample, measured on {len(newest)} earlier runs here"
        rests = f"per call measured on {len(newest)} earlier runs of the same models here"
    else:
        calls, basis = _usual_calls(branch, recipe, plan)
        of_purpose = {
            name: Taken(number, number * TOKENS[name][0], number * TOKENS[name][1], number * SECONDS_A_CALL)
            for name, number in calls.items()
        }
        rests = "per call by default"
    money = Figure(None, "no prices are set (LLM_PRICE_IN, LLM_PRICE_OUT)")
    if any(one.price_in or one.price_out for one in found.values()):
        costs = [
            found[ROLES[purpose]].cost(round(taken.prompt), round(taken.completion))
            for purpose, taken in of_purpose.items()
        ]
        money = Figure(round(sum(costs), 4), "those tokens at the prices set for each role")
    slots = sum({one.base_url: one.concurrency for one in found.values()}.values())
    total = [round(sum(part)) for part in zip(*of_purpose.values(), strict=True)]
    return {
        "calls": Figure(total[0], basis),
        "tokens": Figure(total[1] + total[2], f"tokens {rests}"),
        "money": money,
        "seconds": Figure(round(total[3] / slots), f"seconds {rests}, {slots} at a time"),
    }


def _usual_calls(branch: str, recipe: Recipe, plan: dict[str, Any]) -> tuple[dict[str, float], str]:
    """({purpose: calls}, what that rests on), where no run tells better."""
    samples = queries = plan["samples"]
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


def _local_seconds(writer: str, samples: int) -> Figure:
    """From the rates of earlier runs of these writers that wrote enough."""
    started, ended = F("job__started_at"), F("job__finished_at")
    runs = SynthesisRun.objects.filter(writer=writer, job__state=Job.State.DONE, job__total__gte=ENOUGH)
    rows = (
        runs.filter(job__finished_at__gt=started).order_by("-pk").values_list("job__total", ended - started)
    )
    newest = list(rows[:RECENT])
    if not newest:
        return Figure(round(samples / OFFLINE_RATE, 1), f"default {OFFLINE_RATE:,.0f} samples/s")
    rate = sum(total for total, _ in newest) / sum(took.total_seconds() for _, took in newest)
    basis = f"{rate:,.0f} samples/s, measured on earlier {writer} runs here"
    return Figure(round(samples / rate, 1), basis)


@dataclass(frozen=True, slots=True)
class Reading:
    """Of some samples of rules: those that pass filter and judge and so are read, those that people approve, and the
    seconds that one person reads."""

    ready: Figure
    approved: Figure
    seconds: Figure


def estimate_reading(samples: int) -> Reading:
    """Of what the configured writers write for rules; three queries."""
    branch, verdict = SynthesisRun.Branch.RULE, Decision.Verdict
    runs = ended_runs(branch, "llm" if configured() else "offline")
    made, dropped = Q(machine=Sample.Machine.READY), Q(machine=Sample.Machine.DROPPED)
    tried = Sample.objects.filter(run__in=list(runs.values_list("pk", flat=True)[:RECENT]))
    counts = tried.aggregate(n=Count("pk", filter=made | dropped), ready=Count("pk", filter=made))
    people = Decision.objects.filter(policy="", reviewer__isnull=False, round=1, sample__branch=branch)
    newest = people.exclude(verdict=verdict.UNDO).order_by("-pk").values("pk")[:READINGS]
    timed = Q(seconds__gt=0, seconds__lte=AWAY)
    said = Decision.objects.filter(pk__in=newest).aggregate(
        n=Count("pk"),
        yes=Count("pk", filter=~Q(verdict=verdict.REJECT)),
        first=Min("at"),
        last=Max("at"),
        timed=Count("pk", filter=timed),
        mean=Avg("seconds", filter=timed),
    )
    ready, to_read = Figure(None, "not measured: no run of these writers has ended"), float(samples)
    if n := counts["n"]:
        to_read = samples * counts["ready"] / n
        ready = Figure(
            to_read, f"{counts['ready']:,} of {n:,} samples of the newest runs here passed filter and judge"
        )
    if not said["n"]:
        nobody = Figure(None, "not measured: nobody has read samples of rules here yet")
        return Reading(ready, nobody, nobody)
    days = " to ".join(f"{timezone.localtime(said[end]):%-d %b %Y}" for end in ("first", "last"))
    approved = f"{said['yes']:,} of {said['n']:,} samples that people read here were approved, {days}"
    seconds = Figure(None, f"not measured: fewer than {ENOUGH_READINGS} readings were timed here")
    if said["timed"] >= ENOUGH_READINGS:
        basis = f"{said['mean']:.0f} s a sample: {said['timed']:,} readings here, {days}"
        seconds = Figure(to_read * said["mean"], basis)
    return Reading(ready, Figure(to_read * said["yes"] / said["n"], approved), seconds)
