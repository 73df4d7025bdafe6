"""Freezing a dataset: choose approved samples, keep benchmarks out, write the folder, record it once.

The folder is what `python -m training.ml` reads; nothing else crosses. Equal content gives the equal hash, and then
the snapshot made first is returned.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Count, F, Q, QuerySet

from catalog.models import NeighbourList, TokenUnit, Tool
from catalog.queries import benchmark_firewall
from rules.models import RuleVersion
from synthesis.core.snapshot import Composition, Entry, catalog_hash, compose, snapshot_hash
from synthesis.models import Sample, Snapshot, SnapshotSample
from synthesis.sources import published_rules
from trace_site import audit
from trace_site.artefacts import store
from trace_site.jobs import JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import sha256_file, write_atomic, write_jsonl
from trace_site.webhooks import emit

STEPS = 4


def run_snapshot(ctx: JobContext) -> dict[str, Any]:
    """The job's handler body. Started again after a kill it builds the same content and finds the same hash."""
    params = ctx.params
    ctx.progress(0, STEPS, "choosing samples")
    current = {version.pk: version.content_hash for version, _ in published_rules()}
    stale, entries = _eligible(params, current)
    contaminated = _contaminated(entries)
    ctx.progress(1, STEPS, "checked against the benchmarks")
    if contaminated and params["strict"]:
        raise _contamination_error(contaminated)
    banned = {row["sample"] for row in contaminated}
    composition = compose(
        (entry for entry in entries if entry.id not in banned),
        strategy=params["strategy"],
        per_rule=params["per_rule"],
        rrb=params["rrb"],
        seed=params["seed"],
    )
    if not composition.chosen:
        raise TraceError(
            "no approved sample fits.",
            code="empty_snapshot",
            hint="Approve samples first (the review queue, or manage.py review_policy --auto-approve all).",
        )
    with tempfile.TemporaryDirectory(prefix="snapshot-") as name:
        folder = Path(name)
        files = _write_files(folder, composition, ctx)
        manifest = _manifest(params, composition, contaminated, stale, files)
        write_atomic(folder / "manifest.json", json.dumps(manifest, ensure_ascii=False, indent=1))
        snapshot = _publish(ctx, folder, manifest, composition)
    return {
        "id": snapshot.pk,
        "hash": snapshot.hash,
        "counts": snapshot.counts,
        "contaminated": len(contaminated),
        "removed": len(composition.removed),
    }


def preview(
    *,
    strategy: str,
    per_rule: int,
    branches: list[str],
    rrb: int | None = None,
    domain: str | None = "",
    seed: int = 0,
    strict: bool = False,
) -> dict[str, Any]:
    """What these options would freeze now: counts by branch, what is left out and why. Writes nothing."""
    current = {version.pk: version.content_hash for version, _ in published_rules()}
    stale, entries = _eligible({"branches": branches, "domain": domain or ""}, current)
    contaminated = _contaminated(entries)
    banned = {row["sample"] for row in contaminated}
    free = (entry for entry in entries if entry.id not in banned)
    composition = compose(free, strategy=strategy, per_rule=per_rule, rrb=rrb, seed=seed)
    found = Counter(entry.branch for entry in composition.chosen)
    return {
        "samples": len(composition.chosen),
        **{branch: found[branch] for branch in ("rrb", "rule", "imported")},
        "removed": len(composition.removed),
        "contaminated": len(contaminated),
        "stale": sum(stale.values()),
        "refused": strict and bool(contaminated),
    }


def snapshot_dir(snapshot: Snapshot) -> Path:
    """The snapshot's folder on this machine, every file verified."""
    return store().get_dir(snapshot.store_key, snapshot.store_digest)


def _approved(params: dict[str, Any]) -> QuerySet[Sample]:
    rows = Sample.objects.filter(
        machine=Sample.Machine.READY, human=Sample.Human.APPROVED, branch__in=params["branches"]
    )
    return rows.filter(domain_id=params["domain"]) if params["domain"] else rows


def _eligible(params: dict[str, Any], current: dict[int, str]) -> tuple[Counter[str], list[Entry]]:
    """Approved samples that are not stale, and how many are, by reason."""
    tools = dict(Tool.objects.filter(status=Tool.Status.ACTIVE).values_list("name", "content_hash"))
    stale: Counter[str] = Counter()
    entries: list[Entry] = []
    columns = (
        "pk",
        "key",
        "branch",
        "style",
        "rule_version_id",
        "rule_version__rule__code",
        "domain_id",
        "answer",
    )
    rows = _approved(params).values_list(*columns, "pool", "made_from__tools")
    for pk, key, branch, style, version, code, domain, answer, pool, made in rows.order_by("pk"):
        if version is not None and version not in current:
            stale["rule changed"] += 1
        elif any(name not in tools for name in answer):
            stale["tool retired"] += 1
        elif any(made and name in made and made[name] != tools[name][: len(made[name])] for name in answer):
            stale["tool changed"] += 1
        else:
            rule = f"{domain}/{code}" if version else ""
            entries.append(Entry(pk, key, branch, style, rule, tuple(answer), frozenset(pool)))
    return stale, entries


def _contaminated(entries: list[Entry]) -> list[dict[str, Any]]:
    """Samples whose query repeats a benchmark query, exactly or nearly."""
    firewall = benchmark_firewall()
    queries = dict(Sample.objects.filter(pk__in=[entry.id for entry in entries]).values_list("pk", "query"))
    found = []
    for entry in entries:
        if hit := firewall.check(queries[entry.id]):
            found.append({"sample": entry.id, **asdict(hit)})
    return found


def _contamination_error(contaminated: list[dict[str, Any]]) -> TraceError:
    first = contaminated[0]
    return TraceError(
        f"{len(contaminated):,} samples repeat benchmark queries, first sample {first['sample']} "
        f"('{first['query'][:60]}' of {first['benchmark']}).",
        code="contaminated",
        hint="Reject them, or build without --strict: then they are left out and listed.",
        extra={"contaminated": contaminated[:100]},
    )


def _write_files(folder: Path, composition: Composition, ctx: JobContext) -> dict[str, dict[str, Any]]:
    writers = {
        "tools.jsonl": _tools(),
        "neighbours.jsonl": _neighbours(),
        "rules.jsonl": _rules(),
        "tokens.jsonl": _tokens(),
        "samples.jsonl": _samples(composition),
    }
    files: dict[str, dict[str, Any]] = {}
    for name, rows in writers.items():
        ctx.check()
        path = folder / name
        count = write_jsonl(path, rows)
        files[name] = {"sha256": sha256_file(path), "bytes": path.stat().st_size, "rows": count}
    ctx.progress(3, STEPS, "files written")
    return files


def _active() -> QuerySet[Tool]:
    return Tool.objects.filter(status=Tool.Status.ACTIVE).order_by("name")


def _tools() -> Iterator[dict[str, Any]]:
    columns = ("name", "description", "domain_id", "permissions", "deprecated", "version", "content_hash")
    keys = ("name", "description", "domain", "permissions", "deprecated", "version", "hash")
    for row in sorted(_active().values_list(*columns)):
        yield dict(zip(keys, row, strict=True))


def _neighbours() -> Iterator[dict[str, Any]]:
    names = dict(_active().values_list("pk", "name"))
    lists = dict(NeighbourList.objects.values_list("tool_id", "neighbour_ids"))
    for pk, name in sorted(names.items(), key=lambda item: item[1]):
        yield {"name": name, "neighbours": [names[other] for other in lists.get(pk, []) if other in names]}


def _rules() -> Iterator[dict[str, Any]]:
    for version, rule in published_rules():
        yield {
            "code": rule.code,
            "version": rule.version,
            "domain": rule.domain,
            "target": rule.target,
            "confusables": list(rule.confusables),
            "text": rule.text,
            "clauses": version.clauses,
        }


def _tokens() -> Iterator[dict[str, Any]]:
    keys = ("family", "slot", "string", "state")
    rows = TokenUnit.objects.order_by("family", "slot").values_list(*keys)
    if not rows.exists():
        raise TraceError(
            "the token ledger is empty.",
            code="no_tokens",
            hint="Import the catalog: manage.py catalog_import.",
        )
    for row in rows:
        yield dict(zip(keys, row, strict=True))


def _samples(composition: Composition) -> Iterator[dict[str, Any]]:
    columns = (
        "id",
        "key",
        "branch",
        "tier",
        "style",
        "domain",
        "query",
        "trace",
        "answer",
        "permissions",
        "writer",
    )
    rows = Sample.objects.filter(pk__in=[entry.id for entry in composition.chosen]).order_by("id")
    for row in rows.annotate(code=F("rule_version__rule__code")).values(*columns, "code"):
        rule = row.pop("code")
        yield {**row, "rule": rule}


def _manifest(
    params: dict[str, Any],
    composition: Composition,
    contaminated: list[dict[str, Any]],
    stale: Counter[str],
    files: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    ids = [entry.id for entry in composition.chosen]
    made = Sample.objects.filter(pk__in=ids)
    rules = RuleVersion.objects.filter(rule__published_id=F("pk")).order_by("rule__code")
    return {
        "schema": 1,
        "hash": snapshot_hash(files),
        "catalog_hash": catalog_hash(files),
        **{name: params[name] for name in ("strategy", "per_rule", "seed", "branches", "rrb")},
        "domains": sorted(set(made.values_list("domain_id", flat=True))),
        "counts": _counts(composition, files, contaminated, stale),
        "yields": _yields(),
        "rules": [
            {"code": code, "version": number, "hash": digest}
            for code, number, digest in rules.values_list("rule__code", "number", "content_hash")
        ],
        "prompts": sorted(
            {f"{part} {version}" for part, version in _writer_versions(made)},
        ),
        "models": sorted(set(made.values_list("writer", flat=True))),
        "removed": [entry.id for entry in composition.removed],
        "contaminated": contaminated,
        "files": files,
    }


def _writer_versions(made: QuerySet[Sample]) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for part in ("query", "trace", "judge"):
        versions = made.values_list(f"made_from__writers__{part}", flat=True).distinct()
        found |= {(part, version) for version in versions if version}
    return found


def _counts(
    composition: Composition,
    files: dict[str, dict[str, Any]],
    contaminated: list[dict[str, Any]],
    stale: Counter[str],
) -> dict[str, Any]:
    branches = Counter(entry.branch for entry in composition.chosen)
    return {
        "samples": len(composition.chosen),
        **{branch: branches[branch] for branch in ("rrb", "rule", "imported")},
        "styles": dict(sorted(Counter(e.style for e in composition.chosen if e.style).items())),
        "rules_with_samples": len({entry.rule for entry in composition.chosen if entry.rule}),
        "tools": files["tools.jsonl"]["rows"],
        "rules": files["rules.jsonl"]["rows"],
        "removed": len(composition.removed),
        "contaminated": len(contaminated),
        "stale": dict(stale),
    }


def _yields() -> dict[str, dict[str, int]]:
    """Per branch: samples written, ready, dropped, approved, rejected."""
    found: dict[str, dict[str, Any]] = {}
    rows = Sample.objects.values("branch").annotate(
        written=Count("pk"),
        ready=Count("pk", filter=Q(machine=Sample.Machine.READY)),
        dropped=Count("pk", filter=Q(machine=Sample.Machine.DROPPED)),
        approved=Count("pk", filter=Q(human=Sample.Human.APPROVED)),
        rejected=Count("pk", filter=Q(human=Sample.Human.REJECTED)),
    )
    for row in rows.order_by("branch"):
        found[row["branch"]] = {name: count for name, count in row.items() if name != "branch"}
    return found


def _publish(ctx: JobContext, folder: Path, manifest: dict[str, Any], composition: Composition) -> Snapshot:
    """Store the folder, then write the rows; a snapshot with the same hash is returned as it is."""
    ctx.progress(STEPS, STEPS, "storing")
    if existing := Snapshot.objects.filter(hash=manifest["hash"]).first():
        return existing
    key = f"snapshots/{manifest['hash'][:24]}"
    digest = store().put_dir(folder, key)
    actor = get_user_model().objects.filter(pk=ctx.params.get("actor") or 0).first()
    with ctx.guard():
        snapshot, made = Snapshot.objects.get_or_create(
            hash=manifest["hash"],
            defaults={
                "strategy": manifest["strategy"],
                "per_rule": manifest["per_rule"],
                "params": ctx.params,
                "counts": manifest["counts"],
                "manifest": manifest,
                "store_key": key,
                "store_digest": digest,
                "catalog_hash": manifest["catalog_hash"],
                "created_by": actor,
            },
        )
        if not made:  # another worker froze the same content meanwhile
            return snapshot
        SnapshotSample.objects.bulk_create(
            (
                SnapshotSample(snapshot=snapshot, sample_id=entry.id, position=place, sample_key=entry.key)
                for place, entry in enumerate(composition.chosen)
            ),
            batch_size=2000,
        )
        audit.record(actor=actor, action="snapshot.frozen", obj=snapshot, detail=manifest["counts"])
        told = {"snapshot": snapshot.pk, "hash": snapshot.hash, "counts": manifest["counts"]}
        emit("snapshot.frozen", told)
    return snapshot
