"""Reads behind the synthesis pages: runs with their counts, what a run was started with, samples of a rule or tool."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.db.models import Case, Count, F, Func, JSONField, Max, Q, QuerySet, Sum, Value, When

from catalog.models import Tool
from rules.models import Rule, RuleVersion
from synthesis.llm.ledger import job_books
from synthesis.models import Attempt, RunUnit, Sample, SampleCount, SynthesisRun
from synthesis.samples.counts import TOGETHER
from synthesis.samples.staleness import APPROVED, DROPPED, READY
from synthesis.samples.units import equation, of_run, reasons, shared_samples

# what to do next, by the code of what ended a run
NEXT_STEPS = {
    "llm_budget": "Resume with a higher budget: what was paid for is not paid again.",
    "llm_unreachable": "Have the endpoint's address checked, then resume.",
    "llm_unauthorized": "Have the key of the endpoint checked, then resume.",
    "llm_bad_request": "The endpoint refuses what it is sent: have the model's name and limits checked, then resume.",
    "llm_all_alike": "Have the model and its prompts checked against what is told above, then resume.",
    "llm_not_configured": "Have the endpoint and its models set, then resume.",
    "no_rules": "Publish a rule, then start a new run.",
    "no_tools": "Import tools, then start a new run.",
    "no_neighbours": "Find the look-alikes again, then resume.",
    "incomplete": "Resume: it writes what is missing. What stays missing, a new run plans.",
    "empty_catalog": "Import tools, then resume.",
    "poison": "Read the worker's log before you resume.",
}


def started_with(run: SynthesisRun) -> dict[str, Any]:
    """What a run was started with, and the styles it skipped with the rule of each; two queries at most."""
    codes = {entry["rule"] for entry in run.skipped}
    ids = dict(Rule.objects.filter(code__in=codes).values_list("code", "pk")) if codes else {}
    skipped = [{**entry, "id": ids.get(entry["rule"])} for entry in run.skipped]
    recipe = run.params.get("recipe", {})
    stages = run.samples.values_list("made_from__stages", flat=True).first() or {}
    prompts = [
        (stage, made["prompt"], made["prompt_hash"]) for stage, made in stages.items() if "prompt" in made
    ]
    models = run.params.get("endpoints", [])
    return {"skipped": skipped, "recipe": recipe, "models": models, "prompts": prompts}


def next_step(run: SynthesisRun) -> str:
    """One sentence after the one that says why a run stopped."""
    if run.job is None or run.job.is_active or run.job.state == "done":
        return ""
    if run.job.state == "cancelled":
        return "Resume goes on where it stopped."
    return NEXT_STEPS.get(run.job.error_code, "Resume goes on with the samples that are not written yet.")


def version_yields(rule: Rule) -> list[dict[str, Any]]:
    """Samples of one rule by version and style: how many were planned, are ready, were approved."""
    rows = Sample.objects.filter(rule_version__rule=rule).values("rule_version__number", "style")
    return [dict(row) for row in rows.annotate(**OF_SAMPLES).order_by("-rule_version__number", "style")]


def tool_samples(tool: Tool) -> dict[str, Any]:
    """How many samples answer with this tool, by human status, and the newest of them."""
    found = Sample.objects.filter(answer__contains=[tool.name])
    counts = found.aggregate(
        total=Count("id"),
        approved=Count("id", filter=APPROVED),
        waiting=Count("id", filter=READY & Q(human=Sample.Human.PENDING)),
        newest=Max("created_at"),
    )
    return {**counts, "samples": list(found.select_related("rule_version__rule").order_by("-pk")[:5])}


OF_SAMPLES = {
    "planned": Count("id"),
    "ready": Count("id", filter=READY),
    "dropped": Count("id", filter=DROPPED),
    "approved": Count("id", filter=APPROVED),
    "rejected": Count("id", filter=Q(human=Sample.Human.REJECTED)),
}
OWN = {name: OF_SAMPLES[name] for name in ("planned", "ready", "dropped", "approved")}
SHARED = {
    "planned": Count("pk"),
    "ready": Count("pk", filter=Q(sample__machine=Sample.Machine.READY)),
    "dropped": Count("pk", filter=Q(sample__machine=Sample.Machine.DROPPED)),
    "approved": Count("pk", filter=Q(sample__human=Sample.Human.APPROVED)),
}
_known: tuple[Any, dict[int, dict[str, int]]] = (None, {})


def tell_counts(runs: Sequence[SynthesisRun]) -> None:
    """Put `planned`, `ready`, `dropped` and `approved` on the rows: how many samples each run has.

    Those that a run planned and another run wrote are its own too. Three queries, one while no sample changes.
    """
    global _known
    moved = moved_at()  # before counting: what is counted may be newer, never older
    counts = dict(_known[1]) if _known[0] == moved else {}
    if missing := [run.pk for run in runs if run.pk not in counts]:
        own = Sample.objects.filter(run__in=missing).order_by().values("run").annotate(**OWN)
        units = RunUnit.objects.filter(run__in=missing, why="", sample__attempts__number=1)
        shared = units.exclude(sample__run=F("run")).order_by().values("run").annotate(**SHARED)
        counts |= {pk: dict.fromkeys(OWN, 0) for pk in missing}
        rows: list[Any] = [*own, *shared]
        for row in rows:
            for name in OWN:
                counts[row["run"]][name] += row[name]
        _known = (moved, counts)
    for run in runs:
        for name, count in counts[run.pk].items():
            setattr(run, name, count)
        if run.units is not None:
            run.planned = run.units  # type: ignore[attr-defined]


def moved_at() -> tuple[int, ...]:
    """Another value after every change of what samples are counted by: the rollup only grows between folds, and each
    fold makes newer rows.
    """
    rows = SampleCount.objects.filter(level__in=TOGETHER)
    return tuple(rows.aggregate(n=Count("pk"), sum=Sum("pk"), last=Max("pk")).values())


# The funnel of a run, or of one domain, rule or style of it: written -> filter V -> judge J -> ready -> approved.
#
# All from rows, so that it is right while a run writes and after any kill. Refusals count attempts, the rest samples.


GROUPS: dict[str, tuple[str, ...]] = {
    "domain": ("domain_id",),
    "rule": ("domain_id", "rule_version_id"),
    "style": ("style", "tier"),
}
OF_ATTEMPTS = {
    "attempts": Count("id"),
    "written": Count("id", filter=Q(number=1)),
    "filtered": Count("id", filter=Q(outcome="filtered")),
    "judged_out": Count("id", filter=Q(outcome="judged_out")),
    "errors": Count("id", filter=Q(outcome="error")),
}

# what tells attempts apart in the funnel: a few dozen combinations, however many attempts
CHECKS = Func(
    F("filter_failures"), Value("$[*].check"), function="jsonb_path_query_array", output_field=JSONField()
)
REFUSED_BY = {
    "checks": Case(When(outcome="filtered", then=CHECKS), output_field=JSONField()),
    "axes": Case(When(outcome="judged_out", then=F("judge__failed")), output_field=JSONField()),
}
REFUSALS = {"filtered": "filtered", "judged_out": "judged_out", "error": "errors"}


@dataclass(frozen=True)
class Slice:
    """A run, or the part of it that one looks at; empty fields do not narrow."""

    run: int
    domain: str = ""
    rule: str = ""
    style: str = ""
    tier: str = ""

    @property
    def narrowed(self) -> dict[str, str]:
        return {one.name: value for one in fields(self)[1:] if (value := getattr(self, one.name))}

    @property
    def query(self) -> str:
        """The query string under which the samples page lists what this slice counts."""
        return urlencode({"run": self.run, **self.narrowed})

    def samples(self) -> QuerySet[Sample]:
        return Sample.objects.filter(self._where(""))

    def attempts(self) -> QuerySet[Attempt]:
        return Attempt.objects.filter(self._where("sample__"))

    def _where(self, prefix: str) -> Q:
        names = {"domain": "domain_id", "rule": "rule_version__rule__code"}
        part = {f"{prefix}{names.get(name, name)}": value for name, value in self.narrowed.items()}
        return of_run(self.run, prefix, self.shares) & Q(**part)

    @cached_property
    def shares(self) -> bool:
        return shared_samples(self.run).exists()


@dataclass(slots=True)
class SliceCounts:
    """Of one slice. `written` samples have been tried; `filtered`, `judged_out` and `errors` are attempts."""

    slice: Slice
    rule_id: int | None = None
    planned: int = 0
    written: int = 0
    attempts: int = 0
    filtered: int = 0
    judged_out: int = 0
    errors: int = 0
    ready: int = 0
    dropped: int = 0
    approved: int = 0
    rejected: int = 0

    @property
    def retries(self) -> int:
        return self.attempts - self.written

    @property
    def refused(self) -> int:
        return self.filtered + self.judged_out + self.errors


@dataclass(slots=True)
class Funnel:
    """`given_up`: units of the whole run that are not written any more, by reason. `groups`: for whoever asks."""

    total: SliceCounts
    checks: list[tuple[str, int]] = field(default_factory=list)
    axes: list[tuple[str, int]] = field(default_factory=list)
    errors: list[tuple[str, int]] = field(default_factory=list)
    given_up: list[tuple[str, int]] = field(default_factory=list)
    groups: list[SliceCounts] = field(default_factory=list)


def funnel(part: Slice) -> Funnel:
    """A few queries whatever the size: samples once, attempts once by what they ended with."""
    total = SliceCounts(part, **part.samples().aggregate(**OF_SAMPLES))
    checks, axes, errors, given_up = (Counter[str]() for _ in range(4))
    if not part.narrowed:
        run = SynthesisRun.objects.only("units").get(pk=part.run)
        total.planned = total.planned if run.units is None else run.units
        given_up.update(reasons(run))
    tried = part.attempts().annotate(**REFUSED_BY).values_list("outcome", "error_code", *REFUSED_BY)
    ended = tried.annotate(Count("id"), first=Count("id", filter=Q(number=1))).order_by()
    for outcome, code, refused, failed, count, first in ended:
        total.attempts += count
        total.written += first
        if name := REFUSALS.get(outcome):
            setattr(total, name, getattr(total, name) + count)
        checks.update(dict.fromkeys(refused or (), count))  # one attempt may fail several checks
        axes.update(dict.fromkeys(failed or (), count))
        errors[code or "error"] += count if outcome == "error" else 0
    return Funnel(total, _listed(checks), _listed(axes), _listed(errors), _listed(given_up))


def run_counts(run: SynthesisRun) -> dict[str, Any]:
    """What a run came to, whoever wrote its samples: planned = ready + dropped + those given up, by reason, + missing.

    filtered, judged_out, errors: attempts refused. calls: HTTP exchanges, lost and failed ones too.
    """
    found, units, books = funnel(Slice(run.pk)), equation(run), job_books(run.job)
    paid = ("calls", "tokens", "cost", "unwrapped")
    tried = ("filtered", "judged_out", "attempts", "errors")
    return {
        **asdict(units),
        "missing": units.missing,
        "written": units.ready + units.dropped,
        **{name: books["total"][name] for name in paid},
        **{name: getattr(found.total, name) for name in tried},
        "checks": dict(found.checks),
        "axes": dict(found.axes),
        "error_codes": dict(found.errors),
        "error_texts": books["error_texts"],
        "adapted": run.params.get("adapted", {}),
        "skipped": len(run.skipped),
        "run": run.pk,
    }


def _listed(counts: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent first, then by name."""
    return sorted(
        ((name, count) for name, count in counts.items() if count), key=lambda one: (-one[1], one[0])
    )


def groups(part: Slice, by: str) -> list[SliceCounts]:
    """The slice by domain, rule or style and tier, in that order of names; three queries at most."""
    keys = GROUPS[by]
    rows = list(part.samples().values(*keys).annotate(**OF_SAMPLES).order_by())
    prefixed = [f"sample__{name}" for name in keys]
    tried = part.attempts().values(*prefixed).annotate(**OF_ATTEMPTS).order_by()
    rules: dict[Any, tuple[str, int]] = {}  # {version: its rule's code and id}
    if by == "rule":
        versions = RuleVersion.objects.filter(pk__in={row["rule_version_id"] for row in rows} - {None})
        rules = {pk: (code, rule) for pk, code, rule in versions.values_list("pk", "rule__code", "rule_id")}
    found: dict[tuple[Any, ...], SliceCounts] = {}
    for row in [*rows, *tried]:
        values = {name: row.pop(name if name in row else f"sample__{name}") for name in keys}
        code, rule = rules.get(values.pop("rule_version_id", None), ("", None))
        named: dict[str, Any] = {name.removesuffix("_id"): value or "" for name, value in values.items()}
        named |= {"rule": code} if code else {}
        own = replace(part, **named)
        counts = found.setdefault(tuple(own.narrowed.items()), SliceCounts(own, rule))
        for name, count in row.items():
            setattr(counts, name, getattr(counts, name) + count)
    return sorted(found.values(), key=lambda counts: tuple(counts.slice.narrowed.values()))
