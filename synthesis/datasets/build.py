"""Freezing a dataset: choose approved samples, keep benchmarks and few-shot queries out, write the folder, record it.

Approved samples may go in that are content-current, the newest of their slot, and repeat neither a benchmark query nor
a few-shot query. Outdated samples are still right and stay. What is left out is counted with the reason.

The folder is what `python -m training.ml` reads; nothing else crosses. Equal content gives the equal hash, and then
the snapshot made first is returned. What the folder says is of one moment; when a sample changed before its snapshot
held it, the folder is written again.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.models import Count, F

from catalog.models import LabelledQuery
from catalog.queries.registry import GUARDED, teaching_firewall
from rules.models import RuleVersion
from synthesis.core.budgets import Budget
from synthesis.core.snapshot import Composition, Entry, compose, shortfall, snapshot_hash
from synthesis.datasets.card import dataset_card, facts
from synthesis.datasets.files import (
    Files,
    Parts,
    catalog_of,
    clause_counts,
    lines_of,
    sample_lines,
    write_files,
    write_lines,
    write_manifest,
    write_table,
)
from synthesis.generate.services import BRANCHES, MOST_PLANNED, in_range, known_domain, one_of
from synthesis.models import Sample, Snapshot, SnapshotSample
from synthesis.samples.inputs import CHUNK, SampleKeys, content_inputs, rows_of
from synthesis.samples.sources import catalog_around, published_rules
from trace_site import jobs
from trace_site.artefacts import store
from trace_site.audit import models as audit_models
from trace_site.jobs import Job, JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.provenance import licence_of
from trace_site.webhooks.services import emit

STRATEGIES = ("append", "replace")
SHOWN = 20  # contaminated samples that a preview names
STEPS, TRIES, BATCH = 4, 3, 2000
OPTIONS = ("strategy", "per_rule", "seed", "branches", "rrb")


def _domain_budgets(given: Mapping[str, Mapping[str, Any]] | None) -> dict[str, dict[str, int]]:
    """{domain: {"rule", "rrb", "share"}} without what is not limited. Raises TraceError naming the domain's limit."""
    found: dict[str, dict[str, int]] = {}
    for domain, limits in (given or {}).items():
        for name, number in limits.items():
            if number is None:
                continue
            most = 100 if name == "share" else MOST_PLANNED
            whole = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= most
            if name not in ("rule", "rrb", "share") or not whole:
                raise TraceError(
                    f"{number!r} is no budget.",
                    code="bad_option",
                    where=f"budgets.{domain}.{name}",
                    hint=f"Use rule, rrb (0 to {MOST_PLANNED:,} samples) or share (0 to 100 percent).",
                )
            found.setdefault(str(known_domain(domain)), {})[name] = number
    return dict(sorted(found.items()))


def snapshot_start(*, wake: bool = True, actor: Any = None, **options: Any) -> Job:
    """Queue the building of a snapshot; options of `snapshot_params`."""
    params = snapshot_params(**options, actor=actor)
    title = f"snapshot {params['strategy']}({params['per_rule']})"
    return jobs.enqueue("snapshot", params, title=title, created_by=actor, wake=wake)


def snapshot_params(
    *,
    strategy: str,
    per_rule: int,
    branches: list[str] | None = None,
    rrb: int | None = None,
    domain: str | None = "",
    seed: int = 0,
    strict: bool = False,
    budgets: Mapping[str, Mapping[str, Any]] | None = None,
    licence: str = "",
    actor: Any = None,
) -> dict[str, Any]:
    """The checked options, as a job that builds a snapshot reads them. Raises TraceError naming the option.

    budgets: {domain: {"rule", "rrb": at most so many, "share": percent}}. `licence` is of the dataset itself; it is
    no part of what the dataset is.
    """
    one_of("strategy", strategy, STRATEGIES)
    chosen = branches or ["rrb", "rule"]
    for branch in chosen:
        one_of("branches", branch, BRANCHES)
    in_range("per-rule", per_rule, least=0)
    in_range("rrb", rrb or 0, least=0)
    return {
        "strategy": strategy,
        "per_rule": per_rule,
        "branches": [branch for branch in BRANCHES if branch in chosen],
        "rrb": rrb,
        "domain": known_domain(domain),
        "seed": seed,
        "strict": strict,
        "budgets": _domain_budgets(budgets),
        "licence": licence_of(licence, "--licence"),
        "actor": actor.pk if actor else None,
    }


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
    shortfall: dict[str, int] = field(default_factory=dict)

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
    found.shortfall = shortfall(found.composition.chosen, found.rules, found.per_rule)
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
    """A plan as pages show it: counts, rules that fall short, what is left out; `plain`: its samples of no rule."""
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
        "plain": [entry.id for entry in chosen if entry.branch != "rule"],
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


class Moved(Exception):
    """A chosen sample was changed between choosing and freezing."""


def run_snapshot(ctx: JobContext) -> dict[str, Any]:
    """The job's handler body. Started again after a kill it builds the same content and finds the same hash."""
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="snapshot-") as name:
            try:
                snapshot = _frozen(ctx, Path(name))
            except Moved:
                continue
        counts = snapshot.counts
        told = {name: counts[name] for name in ("contaminated", "removed")}
        return {"id": snapshot.pk, "hash": snapshot.hash, "counts": counts, **told}
    raise TraceError(
        f"samples were changed while they were frozen, {TRIES} times.",
        code="conflict",
        hint="Build it again when fewer people review.",
    )


def _frozen(ctx: JobContext, folder: Path) -> Snapshot:
    """Write the folder, store it, then write the rows; a snapshot with the same hash is returned as it is."""
    ctx.progress(0, STEPS, "choosing samples")
    parts = Parts()
    with one_moment():
        found = plan(ctx.params)
        _refuse(found, ctx.params)
        ctx.check()
        chosen = [entry.id for entry in found.composition.chosen]
        files = write_files(folder, chosen, parts, ctx)
        manifest = _manifest(ctx.params, found, files, clause_counts(folder))
    ctx.progress(2, STEPS, "files written")
    card = dataset_card(manifest).encode()
    files["README.md"] = write_lines(folder / "README.md", parts.kept("README.md", lines_of(card)))
    files["samples.parquet"] = write_table(folder)
    manifest["files"] = files
    write_manifest(folder, manifest)
    ctx.progress(3, STEPS, "storing")
    if existing := Snapshot.objects.filter(hash=manifest["hash"]).first():
        return existing
    key = f"snapshots/{manifest['hash'][:24]}"
    digest = store().put_dir(folder, key)
    actor = get_user_model().objects.filter(pk=ctx.params.get("actor") or 0).first()
    with ctx.guard():
        parts.save()
        snapshot, made = Snapshot.objects.get_or_create(
            hash=manifest["hash"],
            defaults={
                **{name: manifest[name] for name in ("strategy", "per_rule", "counts", "catalog_hash")},
                "params": ctx.params,
                "manifest": manifest,
                "parts": parts.digests,
                "store_key": key,
                "store_digest": digest,
                "created_by": actor,
            },
        )
        if not made:  # another worker froze the same content meanwhile
            return snapshot
        members = [(entry.id, entry.key) for entry in found.composition.chosen]
        SnapshotSample.objects.bulk_create(
            (
                SnapshotSample(snapshot=snapshot, sample_id=pk, position=place, sample_key=key)
                for place, (pk, key) in enumerate(members)
            ),
            batch_size=BATCH,
        )
        # the members lock their samples; do these still say what the folder says?
        held = Sample.objects.filter(memberships__snapshot=snapshot)
        held = held.filter(human=Sample.Human.APPROVED, machine=Sample.Machine.READY)
        again = write_lines(folder / "again.jsonl", sample_lines(chosen))
        if held.count() != len(chosen) or again["sha256"] != files["samples.jsonl"]["sha256"]:
            raise Moved
        audit_models.record(actor=actor, action="snapshot.frozen", obj=snapshot, detail=manifest["counts"])
        told = {"snapshot": snapshot.pk, "hash": snapshot.hash, "counts": manifest["counts"]}
        emit("snapshot.frozen", told)
    return snapshot


def _refuse(found: SnapshotPlan, params: dict[str, Any]) -> None:
    if (repeats := found.contaminated) and params["strict"]:
        first = repeats[0]
        raise TraceError(
            f"{len(repeats):,} samples repeat benchmark or few-shot queries, first sample {first['sample']} "
            f"('{first['query'][:60]}' of {first['collection']}).",
            code="contaminated",
            hint="Reject them, or build without --strict: then they are left out and listed.",
            extra={"contaminated": repeats[:100]},
        )
    if not found.composition.chosen:
        raise TraceError(
            "no approved sample fits.",
            code="empty_snapshot",
            hint="Approve samples first (the review queue, or manage.py review_policy --auto-approve all).",
        )


def _manifest(
    params: dict[str, Any], found: SnapshotPlan, files: Files, clauses: dict[str, int]
) -> dict[str, Any]:
    chosen, removed = found.composition.chosen, found.composition.removed
    branches = Counter(entry.branch for entry in chosen)
    rules = RuleVersion.objects.filter(rule__published_id=F("pk")).order_by("rule__domain_id", "rule__code")
    columns = {"domain": F("rule__domain_id"), "code": F("rule__code"), "version": F("number")}
    return {
        "schema": 2,
        "hash": snapshot_hash(files),
        "catalog_hash": catalog_of(files),
        **{name: params[name] for name in OPTIONS},
        "budgets": params.get("budgets", {}),
        "licence": params.get("licence", ""),
        "counts": {
            "samples": len(chosen),
            **{branch: branches[branch] for branch in ("rrb", "rule", "imported")},
            "styles": dict(sorted(Counter(e.style for e in chosen if e.style).items())),
            "rules_with_samples": len({entry.rule for entry in chosen if entry.rule}),
            "tools": files["tools.jsonl"]["rows"],
            "rules": files["rules.jsonl"]["rows"],
            **clauses,
            "removed": len(removed),
            "contaminated": len(found.contaminated),
            "stale": dict(found.stale),
            "replaced": found.replaced,
            "short": len(found.shortfall),
            "left_out": found.left_out.total(),
        },
        **facts([entry.id for entry in chosen]),
        "rules": list(rules.values(**columns, hash=F("content_hash"))),
        "shortfall": found.shortfall,
        "left_out": reasons(found.left_out),
        "guarded": guarded(),
        "removed": [entry.id for entry in removed],
        "contaminated": found.contaminated,
    }
