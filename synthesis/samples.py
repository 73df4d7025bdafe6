"""Reads behind the samples pages: filters by what became of a sample, one page of them, one sample's attempts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.shortcuts import get_object_or_404

from catalog.models import Tool
from rules.models import Rule
from synthesis.core.queries import AXES, THRESHOLDS
from synthesis.models import Attempt, Sample
from synthesis.staleness import stale_filter
from trace_site.paging import Page, keyset

EQUAL = ("run", "branch", "domain", "style", "tier", "machine", "human")
# what an attempt of the sample must have been for it to be listed, by the filter's name
TRIED = ("check", "axis", "error", "outcome", "tries")


@dataclass(frozen=True, slots=True)
class Found:
    """One page of samples, newest first. `attempts` counts those the attempt filters name, None without any."""

    page: Page
    total: int
    attempts: int | None


def samples(filters: Mapping[str, Any], after: str = "") -> Found:
    """Needs the same queries whatever the number of samples."""
    found = filtered_samples(filters)
    page = keyset(found.select_related("rule_version__rule", "domain", "run__job"), after, newest=True)
    tell_why(page.rows)
    tried = attempts_named(filters)
    counted = None
    if tried is not None and "tries" not in filters:
        counted = Attempt.objects.filter(tried, sample__in=found.values("pk")).count()
    return Found(page, found.count(), counted)


def tell_why(rows: list[Sample]) -> None:
    """Put `why` on dropped samples: what their last attempt ended with. One query."""
    dropped = [row.pk for row in rows if row.machine == Sample.Machine.DROPPED]
    last = Attempt.objects.filter(sample__in=dropped).order_by("sample_id", "-number").distinct("sample_id")
    why = {attempt.sample_id: ended_with(attempt) for attempt in last}
    for row in rows:
        row.why = why.get(row.pk, "")  # type: ignore[attr-defined]


def ended_with(attempt: Attempt) -> str:
    """Why an attempt did not pass, in a few words."""
    if attempt.outcome == "filtered":
        return "filter V: " + ", ".join(dict.fromkeys(entry["check"] for entry in attempt.filter_failures))
    if attempt.outcome == "judged_out":
        return "judge J: " + (", ".join(attempt.judge.get("failed", ())) or "scored too low")
    return attempt.error_code if attempt.outcome == "error" else ""


def sample(pk: int) -> Sample:
    """One sample with what its page shows. Raises Http404."""
    parts = ("run__job", "domain", "rule_version__rule", "rule_version__target", "anchor")
    return get_object_or_404(Sample.objects.select_related(*parts), pk=pk)


def thresholds(of: Sample) -> dict[str, int]:
    """The least score of each axis that its run asked for."""
    asked = of.run.params.get("recipe", {}).get("judge", {}).get("thresholds", {})
    return {axis: asked.get(axis, THRESHOLDS[axis]) for axis in AXES}


def filtered_samples(filters: Mapping[str, Any]) -> QuerySet[Sample]:
    """Samples that match every filter given (see `forms.SampleFilters`)."""
    found = Sample.objects.filter(**{name: filters[name] for name in EQUAL if filters.get(name)})
    if code := filters.get("rule"):
        found = found.filter(rule_version__rule__code=code)
    if writer := filters.get("writer"):
        found = found.filter(writer__startswith=writer)
    if text := filters.get("q"):
        found = found.filter(query__icontains=text)
    if (tried := attempts_named(filters)) is not None:
        found = found.filter(Exists(Attempt.objects.filter(tried, sample=OuterRef("pk"))))
    return stale_filter(found, filters["stale"]) if filters.get("stale") else found


def attempts_named(filters: Mapping[str, Any]) -> Q | None:
    """The condition on an attempt that the filters make; None when they make none."""
    given = [name for name in TRIED if filters.get(name)]
    if not given:
        return None
    wanted = Q()
    if check := filters.get("check"):
        wanted &= Q(outcome="filtered", filter_failures__contains=[{"check": check}])
    if axis := filters.get("axis"):
        wanted &= Q(outcome="judged_out", judge__failed__contains=[axis])
    if code := filters.get("error"):
        wanted &= Q(outcome="error") if code == "error" else Q(error_code=code)
    if outcome := filters.get("outcome"):
        wanted &= Q(outcome=outcome)
    if tries := filters.get("tries"):
        wanted &= Q(number__gt=1) if tries == "again" else Q(number=1)
    return wanted


def attempts(of: Sample) -> list[Attempt]:
    return list(of.attempts.order_by("number"))


def pool_tools(of: Sample) -> list[Tool]:
    """The pool's tools, answer first, then T(r), then in the order the writers saw."""
    tools = {tool.name: tool for tool in Tool.objects.filter(name__in={*of.pool, *of.answer}).defer("search")}
    own = set(of.rule_version.tool_ids) if of.rule_version else set()
    order = [tools[name] for name in dict.fromkeys([*of.answer, *of.pool]) if name in tools]
    return sorted(order, key=lambda tool: (tool.name not in of.answer, tool.pk not in own))


def rules_with_samples() -> list[str]:
    return list(
        Rule.objects.filter(versions__samples__isnull=False)
        .values_list("code", flat=True)
        .distinct()
        .order_by("code")
    )
