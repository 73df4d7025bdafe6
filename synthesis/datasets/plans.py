"""What options would freeze now: the composition, and everything that is left out with the reason. Writes nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, QuerySet

from catalog.models import LabelledQuery
from catalog.queries.registry import GUARDED, teaching_firewall
from synthesis.core.budgets import Budget
from synthesis.core.snapshot import Composition, Entry, compose, shortfall
from synthesis.models import Sample
from synthesis.samples.inputs import CHUNK, Row, content_inputs, rows_of
from synthesis.samples.sources import catalog_around, published_rules

# Which approved samples may enter a snapshot: content-current ones, of every slot the newest, that repeat no query of
# a benchmark and none of the few-shot queries.


Slot = tuple[str, int | str, str, int]
REPLACED, STALE = "replaced", "stale"


@dataclass(slots=True)
class Eligible:
    """Approved samples that may go in, and of those that may not how many and why.

    `contaminated`: [{sample, text, kind, similarity, use, collection, query}]. `left_out`: {(reason, domain, branch):
    how many}. `rules`: "domain/code" of every published rule the options reach.
    """

    entries: list[Entry] = field(default_factory=list)
    contaminated: list[dict[str, Any]] = field(default_factory=list)
    stale: Counter[str] = field(default_factory=Counter)
    left_out: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    rules: list[str] = field(default_factory=list)

    @property
    def replaced(self) -> int:
        return sum(count for (reason, _, _), count in self.left_out.items() if reason == REPLACED)


def eligible_samples(params: dict[str, Any]) -> Eligible:
    """What is content-current. Outdated samples are still right and stay; of one slot the newest approved counts."""
    found = Eligible()
    rules = {version.pk: text for version, text in published_rules()}
    codes = {pk: f"{rule.domain}/{rule.code}" for pk, rule in rules.items()}
    domain = params["domain"]
    if "rule" in params["branches"]:
        found.rules = [codes[pk] for pk, rule in rules.items() if not domain or rule.domain == domain]
    newest: dict[Slot, Row] = {}
    for row, reason in content_inputs(catalog_around(None), rules).stale(rows_of(_approved(params))):
        if reason:
            found.stale[reason] += 1
            found.left_out[STALE, row.domain, row.branch] += 1
            continue
        if (older := newest.get(slot := _slot(row))) is not None:
            found.left_out[REPLACED, older.domain, older.branch] += 1
        newest[slot] = row
    _admit(sorted(newest.values()), codes, found)
    return found


def _approved(params: dict[str, Any]) -> QuerySet[Sample]:
    rows = Sample.objects.filter(
        machine=Sample.Machine.READY, human=Sample.Human.APPROVED, branch__in=params["branches"]
    )
    return rows.filter(domain_id=params["domain"]) if params["domain"] else rows


def _slot(row: Row) -> Slot:
    """A sample's place in the plan; one without a number has a place of its own."""
    number = -row.pk if row.number is None else row.number
    return row.branch, row.version or row.anchor or "", row.kind, number


def _admit(rows: list[Row], codes: dict[int, str], found: Eligible) -> None:
    """Through the firewall: what repeats a query that must not be taught is listed with both texts."""
    firewall = teaching_firewall()
    for row, (query, answer, pool) in zip(rows, _texts([row.pk for row in rows]), strict=True):
        if hit := firewall.check(query):
            found.contaminated.append({"sample": row.pk, "text": query, **asdict(hit)})
            found.left_out[hit.use, row.domain, row.branch] += 1
            continue
        rule = codes.get(row.version or 0, "")
        found.entries.append(
            Entry(row.pk, row.key, row.branch, row.style, rule, tuple(answer), frozenset(pool), row.domain)
        )


def _texts(ids: list[int]) -> Iterable[tuple[str, list[str], list[str]]]:
    """(query, answer, pool) of samples, in the order of their ids."""
    for start in range(0, len(ids), CHUNK):
        rows = Sample.objects.filter(pk__in=ids[start : start + CHUNK]).order_by("pk")
        yield from rows.values_list("query", "answer", "pool")


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
