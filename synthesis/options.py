"""The checks of what people choose for a run or a snapshot; each refusal names the option."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from catalog.models import Domain
from rules.models import Rule
from synthesis.budgets import read_budget
from synthesis.core.recipe import Recipe, default_recipe
from trace_site.lib.errors import TraceError

BRANCHES = ("rrb", "rule", "imported")
WRITERS = ("offline", "recorded", "llm")
OUTDATED = ("rewrite", "keep")
PER_RULE, ANCHORS = 1_000, 100_000  # the most one may ask for
MOST_PLANNED = 1_000_000  # rules times samples per rule
MAX_SAMPLES = 1_000_000  # of a snapshot's limits


def run_params(
    *,
    branch: str,
    per_rule: int = 12,
    anchors: int = 100,
    domain: str | None = "",
    rule: str = "",
    writer: str = "offline",
    underspecified: bool = False,
    recipe: Recipe | None = None,
    budget: Mapping[str, Any] | None = None,
    outdated: str = "rewrite",
) -> dict[str, Any]:
    """What a run puts down about how it was started, but for its endpoints. Raises TraceError naming the option."""
    one_of("branch", branch, BRANCHES)
    one_of("writer", writer, WRITERS)
    one_of("outdated", outdated, OUTDATED)
    count("per-rule", per_rule, most=PER_RULE)
    count("anchors", anchors, most=ANCHORS)
    domain = known_domain(domain)
    published(domain, rule)
    if branch == "rule":
        refuse_too_many(domain, rule, per_rule)
    return {
        "per_rule": per_rule,
        "anchors": anchors,
        "domain": domain,
        "rule": rule,
        "underspecified": underspecified,
        "recipe": (recipe or default_recipe()).as_dict(),
        "budget": read_budget(budget),
        "outdated": outdated,
        "endpoints": [],
    }


def published(domain: str, code: str) -> None:
    if code and not _rules(domain, code).exists():
        raise TraceError(
            f"there is no published rule '{code}'{f' in {domain}' if domain else ''}.",
            code="no_such_rule",
            where="--rule",
        )


def refuse_too_many(domain: str, code: str, per_rule: int) -> None:
    """Counted before anything is planned."""
    rules = _rules(domain, code).count()
    if rules * per_rule > MOST_PLANNED:
        raise TraceError(
            f"{rules:,} rules of {per_rule:,} samples are more than {MOST_PLANNED:,}.",
            code="too_large",
            where="--per-rule",
            hint="Ask for fewer samples per rule, or for one domain at a time.",
        )


def _rules(domain: str, code: str) -> QuerySet[Rule]:
    rules = Rule.objects.filter(published__isnull=False)
    rules = rules.filter(domain=domain) if domain else rules
    return rules.filter(code=code) if code else rules


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise TraceError(
            f"'{value}' is not known.",
            code="bad_option",
            where=f"--{name}",
            hint=f"Use one of: {', '.join(allowed)}.",
        )


def count(name: str, value: int, least: int = 1, most: int = MAX_SAMPLES) -> None:
    if not least <= value <= most:
        raise TraceError(
            f"{value} is out of range.",
            code="bad_option",
            where=f"--{name}",
            hint=f"Use {least} to {most:,}.",
        )


def known_domain(slug: str | None) -> str:
    if slug and not Domain.objects.filter(pk=slug).exists():
        known = ", ".join(Domain.objects.values_list("pk", flat=True)) or "none yet"
        raise TraceError(
            f"there is no domain '{slug}'.",
            code="no_such_domain",
            where="--domain",
            hint=f"Known domains: {known}.",
        )
    return slug or ""


def domain_budgets(given: Mapping[str, Mapping[str, Any]] | None) -> dict[str, dict[str, int]]:
    """{domain: {"rule", "rrb", "share"}} without what is not limited. Raises TraceError naming the domain's limit."""
    found: dict[str, dict[str, int]] = {}
    for domain, limits in (given or {}).items():
        for name, number in limits.items():
            if number is None:
                continue
            most = 100 if name == "share" else MAX_SAMPLES
            whole = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= most
            if name not in ("rule", "rrb", "share") or not whole:
                raise TraceError(
                    f"{number!r} is no budget.",
                    code="bad_option",
                    where=f"budgets.{domain}.{name}",
                    hint=f"Use rule, rrb (0 to {MAX_SAMPLES:,} samples) or share (0 to 100 percent).",
                )
            found.setdefault(str(known_domain(domain)), {})[name] = number
    return dict(sorted(found.items()))
