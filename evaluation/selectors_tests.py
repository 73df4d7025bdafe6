"""Reads of stored rule tests: one rule with every model, many rules in short."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F, Sum

from evaluation.core.golden import Verdict, judge
from evaluation.models import RuleTestResult
from rules.models import RuleVersion
from training.models import Model
from training.registry import current_aliases
from training.selectors import alias_names

NAMED = ("champion", "challenger", "previous")


@dataclass(frozen=True, slots=True)
class StoredResult:
    """What one model made of a version's tests; `result` is None while it has not been asked."""

    model: Model
    names: str  # its aliases, or empty
    result: RuleTestResult | None
    verdicts: list[Verdict] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ShortResult:
    """`3 of 5 pass with champion` of one rule."""

    rule: int
    passed: int
    total: int
    model: str


def stored_results(version: RuleVersion) -> list[StoredResult]:
    """Models with an alias first (asked or not), then every other model that was asked, the newest first."""
    current = current_aliases()
    names = {pk: " and ".join(sorted(found, key=NAMED.index)) for pk, found in alias_names(current).items()}
    rows = RuleTestResult.objects.filter(version=version).select_related("model__run").order_by("-model_id")
    by_model = {row.model_id: row for row in rows}
    models = {current[alias].pk: current[alias] for alias in NAMED if alias in current}
    models |= {row.model_id: row.model for row in by_model.values() if row.model_id not in models}
    return [
        StoredResult(model, names.get(pk, ""), row, _verdicts(row.results) if row else [])
        for pk, model in models.items()
        for row in [by_model.get(pk)]
    ]


def _verdicts(results: Sequence[dict[str, Any]]) -> list[Verdict]:
    return [judge(row["query"], row["tools"], row["found"]) for row in results]


def short_results(rules: Iterable[int]) -> list[ShortResult]:
    """Of the published versions, with the champion; rules it has not been asked are left out. Two queries."""
    champion = current_aliases().get("champion")
    found = RuleTestResult.objects.filter(
        model=champion, version__rule__in=list(rules), version__rule__published=F("version")
    )
    rows = found.values_list("version__rule", "passed", "total") if champion else ()
    return [ShortResult(rule, passed, total, "champion") for rule, passed, total in rows]


def totals(model: Model) -> dict[str, int]:
    """Over the published versions that the model was asked: rules, rules that pass whole, tests, tests passed."""
    found = RuleTestResult.objects.filter(model=model, version__rule__published=F("version"))
    sums = found.aggregate(tests=Sum("total"), passed=Sum("passed"))
    return {
        "rules": found.count(),
        "rules_passed": found.filter(passed=F("total")).count(),
        "tests": sums["tests"] or 0,
        "tests_passed": sums["passed"] or 0,
    }


def failing(model: Model) -> list[RuleTestResult]:
    """Published versions with a failed test, by code."""
    found = RuleTestResult.objects.filter(
        model=model, version__rule__published=F("version"), passed__lt=F("total")
    )
    return list(found.select_related("version__rule").order_by("version__rule__code", "pk"))
