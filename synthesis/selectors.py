"""Reads behind the synthesis pages: runs with their counts, what a run was started with, samples of a rule or tool."""

from typing import Any

from django.db.models import Count, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce

from catalog.models import Tool
from rules.models import Rule
from synthesis.models import Sample, SynthesisRun

APPROVED = Q(human=Sample.Human.APPROVED)
READY = Q(machine=Sample.Machine.READY)
DROPPED = Q(machine=Sample.Machine.DROPPED)
GONE = DROPPED | Q(human=Sample.Human.REJECTED)

# what to do next, by the code of what ended a run
NEXT_STEPS = {
    "llm_budget": "Resume with a higher budget: what was paid for is not paid again.",
    "llm_unreachable": "Have the endpoint's address checked, then resume.",
    "llm_unauthorized": "Have the key of the endpoint checked, then resume.",
    "llm_bad_request": "The endpoint refuses what it is sent: have the model's name and limits checked, then resume.",
    "llm_not_configured": "Have the endpoint and its models set, then resume.",
    "no_rules": "Publish a rule, then start a new run.",
    "no_tools": "Import tools, then start a new run.",
    "no_neighbours": "Find the look-alikes again, then resume.",
    "incomplete": "Resume: it writes what is missing. What stays missing, a new run plans.",
    "empty_catalog": "Import tools, then resume.",
    "poison": "Read the worker's log before you resume.",
}


def runs() -> QuerySet[SynthesisRun]:
    """With counts of each run's samples, made for the rows of a page alone and from one index."""
    return SynthesisRun.objects.select_related("job", "created_by").annotate(
        planned=Coalesce("units", _samples(Q())),
        ready=_samples(READY),
        dropped=_samples(DROPPED),
        approved=_samples(APPROVED),
    )


def _samples(which: Q) -> CombinedExpression:
    """How many samples of the run are so: those it writes, and those it planned that another run wrote."""
    own = Sample.objects.filter(which, run=OuterRef("pk")).values("run")
    shared = Sample.objects.filter(
        which, shared_by__run=OuterRef("pk"), shared_by__why="", attempts__number=1
    )
    written = shared.exclude(run=OuterRef("pk")).values("shared_by__run")
    return _counted(own) + _counted(written)


def _counted(rows: QuerySet[Sample, Any]) -> Coalesce:
    return Coalesce(Subquery(rows.order_by().annotate(count=Count("pk")).values("count")), 0)


def started_with(run: SynthesisRun) -> dict[str, Any]:
    """What a run was started with, and the styles it skipped with the rule of each; two queries at most."""
    codes = {entry["rule"] for entry in run.skipped if entry.get("rule")}
    rules = Rule.objects.filter(code__in=codes).values_list("code", "domain_id", "pk") if codes else []
    ids: dict[Any, int] = {}
    for code, domain, pk in rules:
        ids[code] = ids[code, domain] = pk
    skipped = [
        {**entry, "id": ids.get((entry.get("rule"), entry.get("domain")), ids.get(entry.get("rule")))}
        for entry in run.skipped
    ]
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


def rule_yields(rule: Rule) -> list[dict[str, Any]]:
    """Samples of one rule by version and style: how many were planned, are ready, were approved."""
    rows = (
        Sample.objects.filter(rule_version__rule=rule)
        .values("rule_version__number", "style")
        .annotate(
            planned=Count("id"),
            ready=Count("id", filter=READY),
            dropped=Count("id", filter=DROPPED),
            approved=Count("id", filter=APPROVED),
            rejected=Count("id", filter=Q(human=Sample.Human.REJECTED)),
        )
        .order_by("-rule_version__number", "style")
    )
    return [dict(row) for row in rows]


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
