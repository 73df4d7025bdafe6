"""What options would freeze now: the composition, and everything that is left out with the reason. Writes nothing."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import Count

from catalog.models import LabelledQuery
from catalog.queries import GUARDED
from synthesis.core.shares import Budget
from synthesis.core.snapshot import Composition, compose, shortfall
from synthesis.eligible import Eligible, eligible_samples

SHOWN = 20  # contaminated samples that a preview names


@dataclass(slots=True)
class Plan:
    eligible: Eligible
    composition: Composition
    per_rule: int

    @property
    def left_out(self) -> Counter[tuple[str, str, str]]:
        """{(reason, domain, branch): how many}"""
        return self.eligible.left_out + self.composition.left_out

    @property
    def shortfall(self) -> dict[str, int]:
        """{"domain/code": how many it has} of the rules that get fewer than k."""
        return shortfall(self.composition.chosen, self.eligible.rules, self.per_rule)


def plan(params: dict[str, Any]) -> Plan:
    """params: as `snapshot_start` puts them down."""
    eligible = eligible_samples(params)
    budgets = {domain: Budget(**limits) for domain, limits in params.get("budgets", {}).items()}
    composition = compose(
        eligible.entries,
        strategy=params["strategy"],
        per_rule=params["per_rule"],
        rrb=params["rrb"],
        seed=params["seed"],
        budgets=budgets,
    )
    return Plan(eligible, composition, params["per_rule"])


@contextmanager
def one_moment() -> Iterator[None]:
    """Everything read inside is of one moment, whoever writes meanwhile."""
    with transaction.atomic():
        if len(connection.savepoint_ids) == 0:  # the outermost: its isolation can be chosen
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def preview(
    *,
    strategy: str,
    per_rule: int,
    branches: list[str],
    rrb: int | None = None,
    domain: str | None = "",
    seed: int = 0,
    strict: bool = False,
    budgets: dict[str, dict[str, int]] | None = None,
) -> dict[str, Any]:
    """Counts by domain, branch and style, rules that fall short, and what is left out and why."""
    params = {
        **{"strategy": strategy, "per_rule": per_rule, "branches": branches, "rrb": rrb},
        **{"domain": domain or "", "seed": seed, "budgets": budgets or {}},
    }
    with one_moment():
        found = plan(params)
    return {**told(found), "refused": strict and bool(found.eligible.contaminated)}


def told(found: Plan) -> dict[str, Any]:
    """A plan as pages show it: counts, rules that fall short, what is left out."""
    chosen, contaminated = found.composition.chosen, found.eligible.contaminated
    branch = Counter(entry.branch for entry in chosen)
    left = found.left_out
    return {
        "samples": len(chosen),
        **{name: branch[name] for name in ("rrb", "rule", "imported")},
        "table": _table(found),
        "left_out": reasons(left),
        "left": sum(left.values()),
        "removed": len(found.composition.removed),
        "short": _short(found),
        "per_rule": found.per_rule,
        "rules": len(found.eligible.rules),
        "contaminated": len(contaminated),
        "repeats": contaminated[:SHOWN],
        "stale": found.eligible.stale.total(),
        "replaced": found.eligible.replaced,
    }


def reasons(left_out: Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """As rows, in the order of their keys."""
    return [
        {"reason": reason, "domain": domain, "branch": branch, "count": count}
        for (reason, domain, branch), count in sorted(left_out.items())
    ]


def guarded() -> dict[str, int]:
    """How many registered queries the firewall holds, by use."""
    rows = LabelledQuery.objects.filter(use__in=GUARDED).order_by().values_list("use")
    return dict(rows.annotate(Count("pk")))


def _table(found: Plan) -> list[dict[str, Any]]:
    """One row per domain: what goes in by branch and style, what stays out, rules that fall short."""
    chosen = found.composition.chosen
    counts = Counter((entry.domain, entry.branch, entry.style) for entry in chosen)
    out = Counter[str]()
    for (_, domain, _), count in found.left_out.items():
        out[domain] += count
    short = Counter(rule.partition("/")[0] for rule in found.shortfall)
    rules = Counter(rule.partition("/")[0] for rule in found.eligible.rules)
    return [
        {
            "domain": domain,
            "cells": {
                f"{branch} {style}".strip(): n for (of, branch, style), n in counts.items() if of == domain
            },
            "samples": sum(n for (of, _, _), n in counts.items() if of == domain),
            "left": out[domain],
            "short": short[domain],
            "rules": rules[domain],
        }
        for domain in sorted({domain for domain, _, _ in counts} | out.keys() | rules.keys())
    ]


def _short(found: Plan) -> list[dict[str, Any]]:
    return [
        {"domain": rule.partition("/")[0], "code": rule.partition("/")[2], "has": count}
        for rule, count in found.shortfall.items()
    ]
