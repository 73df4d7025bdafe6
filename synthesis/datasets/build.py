"""Freezing a dataset: choose approved samples, keep benchmarks and few-shot queries out, write the folder, record it.

The folder is what `python -m training.ml` reads; nothing else crosses. Equal content gives the equal hash, and then
the snapshot made first is returned. What the folder says is of one moment; when a sample changed before its snapshot
held it, the folder is written again.
"""

import json
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import F

from rules.models import RuleVersion
from synthesis.core.snapshot import catalog_hash, snapshot_hash
from synthesis.datasets.card import dataset_card
from synthesis.datasets.facts import facts, members
from synthesis.datasets.files import (
    Files,
    Parts,
    lines_of,
    sample_lines,
    write_files,
    write_lines,
    write_table,
)
from synthesis.datasets.plans import Plan, guarded, one_moment, plan, reasons
from synthesis.models import Sample, Snapshot, SnapshotSample
from trace_site.artefacts import store
from trace_site.audit import models as audit_models
from trace_site.jobs import JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_atomic
from trace_site.webhooks.services import emit

STEPS, TRIES, BATCH = 4, 3, 2000
OPTIONS = ("strategy", "per_rule", "seed", "branches", "rrb")


class Moved(Exception):
    """A chosen sample was changed between choosing and freezing."""


@dataclass(slots=True)
class Draft:
    """A folder that is written but not published."""

    folder: Path
    manifest: dict[str, Any]
    chosen: list[tuple[int, str]]  # (id, key) in their order
    parts: Parts


def run_snapshot(ctx: JobContext) -> dict[str, Any]:
    """The job's handler body. Started again after a kill it builds the same content and finds the same hash."""
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="snapshot-") as name:
            draft = _draft(Path(name), ctx)
            try:
                snapshot = _publish(ctx, draft)
            except Moved:
                continue
        return {
            "id": snapshot.pk,
            "hash": snapshot.hash,
            "counts": snapshot.counts,
            "contaminated": snapshot.counts["contaminated"],
            "removed": snapshot.counts["removed"],
        }
    raise TraceError(
        f"samples were changed while they were frozen, {TRIES} times.",
        code="conflict",
        hint="Build it again when fewer people review.",
    )


def snapshot_dir(snapshot: Snapshot) -> Path:
    """The snapshot's folder on this machine, every file verified."""
    return store().get_dir(snapshot.store_key, snapshot.store_digest)


def _draft(folder: Path, ctx: JobContext) -> Draft:
    ctx.progress(0, STEPS, "choosing samples")
    parts = Parts()
    with one_moment():
        found = plan(ctx.params)
        _refuse(found, ctx.params)
        ctx.check()
        chosen = [entry.id for entry in found.composition.chosen]
        files = write_files(folder, chosen, parts, ctx)
        manifest = _manifest(ctx.params, found, files)
    ctx.progress(2, STEPS, "files written")
    card = dataset_card(manifest).encode()
    files["README.md"] = write_lines(folder / "README.md", parts.kept("README.md", lines_of(card)))
    files["samples.parquet"] = write_table(folder)
    write_manifest(folder, {**manifest, "files": files})
    ctx.progress(3, STEPS, "storing")
    pairs = [(entry.id, entry.key) for entry in found.composition.chosen]
    return Draft(folder, {**manifest, "files": files}, pairs, parts)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Last of all files: where it stands, the folder is whole. Sorted, so that the database's copy gives the same."""
    text = json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True)
    write_atomic(folder / "manifest.json", text + "\n")


def _refuse(found: Plan, params: dict[str, Any]) -> None:
    if (repeats := found.eligible.contaminated) and params["strict"]:
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


def _manifest(params: dict[str, Any], found: Plan, files: Files) -> dict[str, Any]:
    rules = RuleVersion.objects.filter(rule__published_id=F("pk")).order_by("rule__domain_id", "rule__code")
    columns = {"domain": F("rule__domain_id"), "code": F("rule__code"), "version": F("number")}
    return {
        "schema": 2,
        "hash": snapshot_hash(files),
        "catalog_hash": catalog_hash(files),
        **{name: params[name] for name in OPTIONS},
        "budgets": params.get("budgets", {}),
        "licence": params.get("licence", ""),
        "counts": _counts(found, files),
        **facts(members(found.composition.chosen)),
        "rules": list(rules.values(**columns, hash=F("content_hash"))),
        "shortfall": found.shortfall,
        "left_out": reasons(found.left_out),
        "guarded": guarded(),
        "removed": [entry.id for entry in found.composition.removed],
        "contaminated": found.eligible.contaminated,
    }


def _counts(found: Plan, files: Files) -> dict[str, Any]:
    chosen = found.composition.chosen
    branches = Counter(entry.branch for entry in chosen)
    return {
        "samples": len(chosen),
        **{branch: branches[branch] for branch in ("rrb", "rule", "imported")},
        "styles": dict(sorted(Counter(e.style for e in chosen if e.style).items())),
        "rules_with_samples": len({entry.rule for entry in chosen if entry.rule}),
        "tools": files["tools.jsonl"]["rows"],
        "rules": files["rules.jsonl"]["rows"],
        "removed": len(found.composition.removed),
        "contaminated": len(found.eligible.contaminated),
        "stale": dict(found.eligible.stale),
        "replaced": found.eligible.replaced,
        "short": len(found.shortfall),
        "left_out": sum(found.left_out.values()),
    }


def _publish(ctx: JobContext, draft: Draft) -> Snapshot:
    """Store the folder, then write the rows; a snapshot with the same hash is returned as it is."""
    manifest = draft.manifest
    if existing := Snapshot.objects.filter(hash=manifest["hash"]).first():
        return existing
    key = f"snapshots/{manifest['hash'][:24]}"
    digest = store().put_dir(draft.folder, key)
    actor = get_user_model().objects.filter(pk=ctx.params.get("actor") or 0).first()
    with ctx.guard():
        draft.parts.save()
        snapshot, made = Snapshot.objects.get_or_create(
            hash=manifest["hash"],
            defaults={
                "strategy": manifest["strategy"],
                "per_rule": manifest["per_rule"],
                "params": ctx.params,
                "counts": manifest["counts"],
                "manifest": manifest,
                "parts": draft.parts.digests,
                "store_key": key,
                "store_digest": digest,
                "catalog_hash": manifest["catalog_hash"],
                "created_by": actor,
            },
        )
        if not made:  # another worker froze the same content meanwhile
            return snapshot
        _hold(snapshot, draft)
        audit_models.record(actor=actor, action="snapshot.frozen", obj=snapshot, detail=manifest["counts"])
        told = {"snapshot": snapshot.pk, "hash": snapshot.hash, "counts": manifest["counts"]}
        emit("snapshot.frozen", told)
    return snapshot


def _hold(snapshot: Snapshot, draft: Draft) -> None:
    """Add the members, which locks their samples; then make sure that they say what the folder says."""
    SnapshotSample.objects.bulk_create(
        (
            SnapshotSample(snapshot=snapshot, sample_id=pk, position=place, sample_key=key)
            for place, (pk, key) in enumerate(draft.chosen)
        ),
        batch_size=BATCH,
    )
    held = Sample.objects.filter(memberships__snapshot=snapshot)
    still = held.filter(human=Sample.Human.APPROVED, machine=Sample.Machine.READY)
    if held.count() != len(draft.chosen) or still.count() != len(draft.chosen):
        raise Moved
    written = draft.manifest["files"]["samples.jsonl"]["sha256"]
    again = write_lines(draft.folder / "again.jsonl", sample_lines([pk for pk, _ in draft.chosen]))
    if again["sha256"] != written:
        raise Moved
