"""Freezing a dataset: choose approved samples, keep benchmarks out, write the folder, record it once.

The folder is what `python -m training.ml` reads; nothing else crosses. Equal content gives the equal hash, and then
the snapshot made first is returned.
"""

import json
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Count, F, Q, QuerySet

from catalog.queries import benchmark_firewall
from rules.models import RuleVersion
from synthesis.core.keys import STAGES
from synthesis.core.snapshot import Composition, Entry, catalog_hash, compose, snapshot_hash
from synthesis.eligible import Eligible, eligible_samples
from synthesis.models import Sample, Snapshot, SnapshotSample
from synthesis.snapshot_files import STEPS, write_files
from trace_site import audit
from trace_site.artefacts import store
from trace_site.jobs import JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_atomic
from trace_site.webhooks import emit

SHOWN = 20  # contaminated samples that a preview names


def run_snapshot(ctx: JobContext) -> dict[str, Any]:
    """The job's handler body. Started again after a kill it builds the same content and finds the same hash."""
    params = ctx.params
    ctx.progress(0, STEPS, "choosing samples")
    eligible = eligible_samples(params)
    entries = eligible.entries
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
        files = write_files(folder, composition, ctx)
        manifest = _manifest(params, composition, contaminated, eligible, files)
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
    eligible = eligible_samples({"branches": branches, "domain": domain or ""})
    entries = eligible.entries
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
        "repeats": contaminated[:SHOWN],
        "stale": eligible.stale.total(),
        "replaced": eligible.replaced,
        "refused": strict and bool(contaminated),
    }


def snapshot_dir(snapshot: Snapshot) -> Path:
    """The snapshot's folder on this machine, every file verified."""
    return store().get_dir(snapshot.store_key, snapshot.store_digest)


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


def _manifest(
    params: dict[str, Any],
    composition: Composition,
    contaminated: list[dict[str, Any]],
    eligible: Eligible,
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
        "counts": _counts(composition, files, contaminated, eligible),
        "yields": _yields(),
        "rules": [
            {"code": code, "version": number, "hash": digest}
            for code, number, digest in rules.values_list("rule__code", "number", "content_hash")
        ],
        "prompts": sorted(_writer_versions(made)),
        "models": sorted(set(made.values_list("writer", flat=True))),
        "removed": [entry.id for entry in composition.removed],
        "contaminated": contaminated,
        "files": files,
    }


def _writer_versions(made: QuerySet[Sample]) -> set[str]:
    """`query_rule.jinja 0123456789abcdef`, or the name of an offline grammar, for each stage of what was chosen."""
    found: set[str] = set()
    for stage in STAGES:
        parts = [f"made_from__stages__{stage}__{name}" for name in ("prompt", "prompt_hash", "writer")]
        for prompt, digest, writer in made.order_by().values_list(*parts).distinct():
            found |= {f"{prompt}.jinja {digest}" if prompt else writer} - {None}
    return found


def _counts(
    composition: Composition,
    files: dict[str, dict[str, Any]],
    contaminated: list[dict[str, Any]],
    eligible: Eligible,
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
        "stale": dict(eligible.stale),
        "replaced": eligible.replaced,
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
