"""What options would freeze now: the samples that go in, and everything that is left out with the reason. Only reads.

Approved samples may go in that are content-current, the newest of their slot, and repeat neither a benchmark query nor
a few-shot query. Outdated samples are still right and stay.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import connection, transaction
from django.db.models import Count

from catalog.models import LabelledQuery
from catalog.queries.registry import GUARDED, teaching_firewall
from synthesis.core.budgets import Budget
from synthesis.core.snapshot import Composition, Entry, compose, shortfall
from synthesis.generate.services import snapshot_params
from synthesis.models import Sample
from synthesis.samples.inputs import CHUNK, SampleKeys, content_inputs, rows_of
from synthesis.samples.sources import catalog_around, published_rules

SHOWN = 20  # contaminated samples that a preview names


@dataclass(slots=True)
class SnapshotPlan:
    """`left_out`: {(reason, domain, branch): how many}; `stale`: {why: how many}.

    `contaminated`: [{sample, text, kind, similarity, use, collection, query}]. `rules`: "domain/code" of every
    published rule the options reach; `shortfall`: {one of them: how many it has} of those that get fewer than k.
    """

    per_rule: int
    composition: Composition
    rules: list[str]
    left_out: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    stale: Counter[str] = field(default_factory=Counter)
    contaminated: list[dict[str, Any]] = field(default_factory=list)

    @property
    def shortfall(self) -> dict[str, int]:
        return shortfall(self.composition.chosen, self.rules, self.per_rule)

    @property
    def replaced(self) -> int:
        return sum(count for (reason, _, _), count in self.left_out.items() if reason == "replaced")


def plan(params: dict[str, Any]) -> SnapshotPlan:
    """params: as `snapshot_params` puts them down."""
    domain, rules = params["domain"], {version.pk: text for version, text in published_rules()}
    codes = {pk: f"{rule.domain}/{rule.code}" for pk, rule in rules.items()}
    reached = [codes[pk] for pk, rule in rules.items() if domain in ("", rule.domain)]
    found = SnapshotPlan(params["per_rule"], Composition([]), reached if "rule" in params["branches"] else [])

    approved = Sample.objects.filter(machine=Sample.Machine.READY, human=Sample.Human.APPROVED)
    approved = approved.filter(branch__in=params["branches"], **({"domain": domain} if domain else {}))
    newest: dict[tuple[Any, ...], SampleKeys] = {}
    for row, why in content_inputs(catalog_around(None), rules).stale(rows_of(approved)):
        if why:
            found.stale[why] += 1
            found.left_out["stale", row.domain, row.branch] += 1
            continue
        number = -row.pk if row.number is None else row.number  # without one it has a place of its own
        slot = row.branch, row.version or row.anchor or "", row.kind, number
        if (older := newest.get(slot)) is not None:
            found.left_out["replaced", older.domain, older.branch] += 1
        newest[slot] = row

    firewall, entries, rows = teaching_firewall(), [], sorted(newest.values())
    for start in range(0, len(rows), CHUNK):
        block = rows[start : start + CHUNK]
        texts = Sample.objects.filter(pk__in=[row.pk for row in block]).order_by("pk")
        said = texts.values_list("query", "answer", "pool")
        for row, (query, answer, pool) in zip(block, said, strict=True):
            if hit := firewall.check(query):
                found.contaminated.append({"sample": row.pk, "text": query, **asdict(hit)})
                found.left_out[hit.use, row.domain, row.branch] += 1
                continue
            rule = codes.get(row.version or 0, "")
            entry = Entry(
                row.pk, row.key, row.branch, row.style, rule, tuple(answer), frozenset(pool), row.domain
            )
            entries.append(entry)

    found.composition = compose(
        entries,
        **{name: params[name] for name in ("strategy", "per_rule", "rrb", "seed")},
        budgets={name: Budget(**limits) for name, limits in params.get("budgets", {}).items()},
    )
    found.left_out += found.composition.left_out
    return found


@contextmanager
def one_moment() -> Iterator[None]:
    """Everything read inside is of one moment, whoever writes meanwhile."""
    with transaction.atomic():
        if len(connection.savepoint_ids) == 0:  # the outermost: its isolation can be chosen
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def preview(**options: Any) -> dict[str, Any]:
    """What `snapshot_start` with these options would freeze, as pages show it, and whether it would refuse."""
    params = snapshot_params(**options)
    with one_moment():
        found = plan(params)
    return {**told(found), "refused": params["strict"] and bool(found.contaminated)}


def told(found: SnapshotPlan) -> dict[str, Any]:
    """A plan as pages show it: counts, rules that fall short, what is left out."""
    chosen, short = found.composition.chosen, found.shortfall
    branches = Counter(entry.branch for entry in chosen)
    return {
        "samples": len(chosen),
        **{name: branches[name] for name in ("rrb", "rule", "imported")},
        "table": _by_domain(found),
        "left_out": reasons(found.left_out),
        "left": found.left_out.total(),
        "removed": len(found.composition.removed),
        "short": [
            dict(zip(("domain", "code", "has"), (*rule.split("/", 1), has), strict=True))
            for rule, has in short.items()
        ],
        "per_rule": found.per_rule,
        "rules": len(found.rules),
        "contaminated": len(found.contaminated),
        "repeats": found.contaminated[:SHOWN],
        "stale": found.stale.total(),
        "replaced": found.replaced,
    }


def _by_domain(found: SnapshotPlan) -> list[dict[str, Any]]:
    """One row per domain: what goes in by branch and style, what stays out, rules that fall short."""
    counts = Counter((entry.domain, entry.branch, entry.style) for entry in found.composition.chosen)
    samples = Counter(entry.domain for entry in found.composition.chosen)
    out = Counter[str]()
    for (_, domain, _), count in found.left_out.items():
        out[domain] += count
    short, rules = (Counter(rule.split("/")[0] for rule in of) for of in (found.shortfall, found.rules))
    return [
        {
            "domain": domain,
            "cells": {
                f"{branch} {style}".strip(): n for (of, branch, style), n in counts.items() if of == domain
            },
            "samples": samples[domain],
            "left": out[domain],
            "short": short[domain],
            "rules": rules[domain],
        }
        for domain in sorted(samples.keys() | out.keys() | rules.keys())
    ]


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
