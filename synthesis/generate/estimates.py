"""What a run would write, ask, cost and take, before it starts; every figure says what it rests on.

Samples come from a plan made dry. The rest is measured on earlier runs here with the same writer, else a default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import Any

from django.db.models import Avg, Count, F, Max, Min, Q, StdDev
from django.utils import timezone

from synthesis.core.agreement import Z95, wilson
from synthesis.core.recipe import Recipe, read_recipe
from synthesis.generate.imports import spare
from synthesis.generate.planning import plan_counts
from synthesis.generate.services import run_params
from synthesis.llm.ledger import LIMITS
from synthesis.llm.writers import configured, endpoints
from synthesis.models import Attempt, Decision, ModelCall, Sample, SynthesisRun
from synthesis.samples.staleness import newest_recipe
from trace_site.jobs import Job

ROLES = {"query": "generator", "trace": "teacher", "judge": "judge"}  # {purpose of a call: whom it asks}
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
READINGS = 500  # the newest decisions of people
AWAY = 300.0  # seconds; who takes longer did something else


@dataclass(frozen=True, slots=True)
class Figure:
    """A number (None: unknown) and what it rests on, with its 95 % interval where it was measured."""

    value: float | None
    basis: str
    low: float | None = None
    high: float | None = None

    def __mul__(self, each: "Figure") -> "Figure":
        """So many of what `each` is one of. The ends are multiplied: for independent figures wider than 95 %."""
        if self.value is None or each.value is None:
            return Figure(None, self.basis if self.value is None else each.basis)
        (low, high), (least, most) = self.ends, each.ends
        return Figure(self.value * each.value, each.basis, low * least, high * most)

    @property
    def ends(self) -> tuple[float, float]:
        assert self.value is not None
        return (self.value, self.value) if self.low is None or self.high is None else (self.low, self.high)


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


@dataclass(frozen=True, slots=True)
class Reading:
    """Of some samples of rules: those that pass filter and judge and so are read, those that people approve, and the
    seconds that one person reads."""

    ready: Figure
    approved: Figure
    seconds: Figure


def estimate_reading(samples: int, *, writer: str = "") -> Reading:
    """Of what this kind of writer (empty: the configured one) writes for rules; four queries."""
    branch, verdict = SynthesisRun.Branch.RULE, Decision.Verdict
    runs = _ended(branch, writer or ("llm" if configured() else "offline"))
    made, dropped = Q(machine=Sample.Machine.READY), Q(machine=Sample.Machine.DROPPED)
    tried = Sample.objects.filter(run__in=list(runs.values_list("pk", flat=True)[:RECENT]))
    counts = tried.aggregate(n=Count("pk", filter=made | dropped), ready=Count("pk", filter=made))
    passed = _share(counts["ready"], counts["n"], "samples of the newest runs here passed filter and judge")
    ready = Figure(samples, "") * (passed or Figure(None, "not measured: no run of these writers has ended"))
    people = Decision.objects.filter(policy="", reviewer__isnull=False, round=1, sample__branch=branch)
    newest = people.exclude(verdict=verdict.UNDO).order_by("-pk").values("pk")[:READINGS]
    read = Decision.objects.filter(pk__in=newest).order_by()
    timed = Q(seconds__gt=0, seconds__lte=AWAY)
    said = read.aggregate(
        n=Count("pk"),
        yes=Count("pk", filter=~Q(verdict=verdict.REJECT)),
        first=Min("at"),
        last=Max("at"),
        timed=Count("pk", filter=timed),
        mean=Avg("seconds", filter=timed),
        spread=StdDev("seconds", filter=timed, sample=True),
    )
    when = f", {_day(said['first'])} to {_day(said['last'])}" if said["n"] else ""
    nobody = Figure(None, "not measured: nobody has read samples of rules here yet")
    approved = _share(said["yes"], said["n"], f"samples that people read here were approved{when}") or nobody
    pace = (
        Figure(None, f"not measured: fewer than {ENOUGH_CALLS} readings were timed here")
        if said["n"]
        else nobody
    )
    if said["timed"] >= ENOUGH_CALLS:
        basis = f"{said['mean']:.0f} s a sample: {said['timed']:,} readings here{when}"
        pace = Figure(said["mean"], basis, *_around(said["mean"], said["spread"], said["timed"]))
    # where no run of this writer has ended, all that are written may have to be read
    to_read = ready if ready.value is not None else Figure(samples, "")
    return Reading(ready, to_read * approved, to_read * pace)


def _share(part: int, whole: int, what: str) -> Figure | None:
    """None: of nothing."""
    found = wilson(part, whole)
    if found.value is None:
        return None
    return Figure(found.value, f"{part:,} of {whole:,} {what}", found.low, found.high)


def _around(mean: float, spread: float | None, n: int) -> tuple[float, float]:
    """The 95 % interval of a mean over n."""
    near = Z95 * (spread or 0.0) / sqrt(n)
    return max(0.0, mean - near), mean + near


def _day(at: Any) -> str:
    return f"{timezone.localtime(at):%-d %b %Y}"


def _ended(branch: str, writer: str) -> Any:
    """Runs of the branch by this kind of writer that are done, the newest first."""
    runs = SynthesisRun.objects.filter(branch=branch, job__state=Job.State.DONE).order_by("-pk")
    return runs.filter(writer__startswith="llm:") if writer == "llm" else runs.filter(writer=writer)


def asked(
    branch: str, recipe: Recipe, plan: dict[str, Any], budget: Mapping[str, float]
) -> tuple[dict[str, Figure], list[str]]:
    """What the models would be asked for a plan's samples, and what of it the budget does not cover."""
    calls, figure = _calls(branch, recipe, plan)
    found = {"calls": figure, **_taken(calls, figure)}
    over = [
        f"{name}: about {found[name].value:,.10g} of {most:,.10g}"
        for name in LIMITS
        if (most := budget.get(name)) is not None and (found[name].value or 0) > most
    ]
    return found, over


def _calls(branch: str, recipe: Recipe, plan: dict[str, Any]) -> tuple[dict[str, float], Figure]:
    """({purpose: calls}, all of them): as the newest ended runs of the branch that asked models needed them, their
    interval from the run that asked least a sample to the one that asked most; or a default."""
    samples = queries = plan["samples"]
    newest = dict(_ended(branch, "llm")[:RECENT].values_list("job", "pk"))
    attempts = Attempt.objects.filter(sample__run__in=newest.values(), number=1).order_by()
    tried: dict[int, int] = dict(attempts.values_list("sample__run").annotate(n=Count("pk")))
    if (many := sum(tried.values())) >= ENOUGH:
        per, of_run = dict.fromkeys(ROLES, 0.0), dict.fromkeys(tried, 0)
        rows = ModelCall.objects.filter(job__in=newest).order_by().values_list("job", "purpose")
        for job, purpose, calls in rows.annotate(calls=Count("pk")):
            per[purpose.partition("_")[0]] += calls / many
            if newest[job] in of_run:
                of_run[newest[job]] += calls
        each = sum(per.values())
        basis = f"{each:.2f} calls a sample, measured on {len(newest)} earlier runs here"
        rates = [samples * calls / tried[run] for run, calls in of_run.items()]
        ends = (min(rates), max(rates)) if len(rates) > 1 else (None, None)
        return {name: samples * one for name, one in per.items()}, Figure(round(samples * each), basis, *ends)
    basis = "default: a query, a trace and a judge call each, a quarter more for retries"
    if branch == SynthesisRun.Branch.RULE:
        most = recipe.query.per_call
        basis += f"; one call writes up to {most} queries"
        written = (row["new"] + row["content_stale"] + row["outdated"] for row in plan["rows"])
        queries = sum(ceil(number / most) for number in written)
    if branch == SynthesisRun.Branch.IMPORTED:
        basis = "default: a trace and a judge call each, a quarter more for retries"
        queries = 0
    found = {"query": queries * RETRIES, "trace": samples * RETRIES, "judge": samples * RETRIES}
    return found, Figure(round(sum(found.values())), basis)


def _taken(calls: dict[str, float], asked: Figure) -> dict[str, Figure]:
    """The tokens, money and seconds that so many calls of each purpose take; `asked`: all of the calls, whose interval
    goes into theirs."""
    each: dict[str, tuple[float, float, float]] = {}  # prompt tokens, completion tokens, seconds
    unsure = {"tokens": 0.0, "seconds": 0.0}  # squares of what 95 % of the sums lie within
    measured, found = set(), endpoints()
    for purpose, role in ROLES.items():
        # recorded answers take no tokens, another model takes others: neither says what this one takes
        whom = {"endpoint": found[role].base_url, "model": found[role].model}
        recent = ModelCall.objects.filter(purpose__startswith=purpose, state="answered", **whom)
        newest = recent.order_by("-pk").values("pk")[:500]
        row = ModelCall.objects.filter(pk__in=newest).aggregate(
            calls=Count("pk"),
            prompt=Avg("prompt_tokens"),
            completion=Avg("completion_tokens"),
            mean=Avg("seconds"),
            tokens=StdDev(F("prompt_tokens") + F("completion_tokens"), sample=True),
            seconds=StdDev("seconds", sample=True),
        )
        each[purpose] = (*TOKENS[purpose], SECONDS_A_CALL)
        if row["calls"] >= ENOUGH_CALLS:
            each[purpose] = (row["prompt"], row["completion"], row["mean"])
            measured.add(purpose)
            for name in unsure:
                unsure[name] += (Z95 * calls[purpose] * row[name]) ** 2 / row["calls"]
    needed = [purpose for purpose, number in calls.items() if number]
    lacking = [purpose for purpose in needed if purpose not in measured]

    def figure(name: str, value: float, what: str, per: float = 1.0) -> Figure:
        basis = f"{what} measured on the newest calls of the same models here"
        if lacking:
            rest = ", ".join(lacking)
            basis = f"default {what}" if lacking == needed else f"{basis}; default for {rest}"
        if lacking or not value or not asked.value:
            return Figure(value, basis)
        near, (low, high) = sqrt(unsure[name]) * per, asked.ends
        least, most = max(0.0, value - near) * low / asked.value, (value + near) * high / asked.value
        return Figure(value, basis, least, most)

    slots = sum({one.base_url: one.concurrency for one in found.values()}.values())
    sums = {name: sum(each[name][:2]) for name in ROLES}
    tokens = figure(
        "tokens", round(sum(number * sums[name] for name, number in calls.items())), "tokens per call"
    )
    seconds = figure(
        "seconds",
        round(sum(number * each[name][2] for name, number in calls.items()) / slots),
        f"seconds per call, {slots} at a time,",
        1 / slots,
    )
    money = Figure(None, "no prices are set (LLM_PRICE_IN, LLM_PRICE_OUT)")
    if any(one.price_in or one.price_out for one in found.values()):
        prices = {name: found[role].cost(*map(round, each[name][:2])) for name, role in ROLES.items()}
        cost = round(sum(number * prices[name] for name, number in calls.items()), 4)
        low, high = (cost * end / (tokens.value or 1) for end in tokens.ends)
        ends = (low, high) if tokens.low is not None else (None, None)
        money = Figure(cost, "those tokens at the prices set for each role", *ends)
    return {"tokens": tokens, "money": money, "seconds": seconds}


def _local_seconds(writer: str, samples: int) -> Figure:
    """From the rates of earlier runs of these writers that wrote enough."""
    runs = SynthesisRun.objects.filter(writer=writer, job__state=Job.State.DONE, job__total__gte=ENOUGH)
    took = F("job__finished_at") - F("job__started_at")
    newest = [
        (total, spent.total_seconds())
        for total, spent in runs.order_by("-pk").values_list("job__total", took)[:RECENT]
        if spent and spent.total_seconds() > 0
    ]
    if newest:
        rate = sum(total for total, _ in newest) / sum(spent for _, spent in newest)
        each = [samples * spent / total for total, spent in newest]
        ends = (min(each), max(each)) if len(each) > 1 else (None, None)
        basis = f"{rate:,.0f} samples/s, measured on earlier {writer} runs here"
        return Figure(round(samples / rate, 1), basis, *ends)
    return Figure(round(samples / OFFLINE_RATE, 1), f"default {OFFLINE_RATE:,.0f} samples/s")
