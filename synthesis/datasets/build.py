"""Freezing a dataset: choose approved samples, keep benchmarks and few-shot queries out, write the folder, record it;
and writing that folder again from the database alone, compared with what was frozen.

The folder is what `python -m training.ml` reads; nothing else crosses. Equal content gives the equal hash, and then
the snapshot made first is returned. What the folder says is of one moment; when a sample changed before its snapshot
held it, the folder is written again.
"""

import json
import tempfile
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
from django.contrib.auth import get_user_model
from django.db.models import F

from rules.models import RuleVersion
from synthesis.core.snapshot import catalog_hash, snapshot_hash
from synthesis.datasets.card import dataset_card, facts
from synthesis.datasets.files import (
    SAMPLE_COLUMNS,
    Files,
    Parts,
    joined,
    lines_of,
    sample_lines,
    write_files,
    write_lines,
    write_table,
)
from synthesis.datasets.plans import SnapshotPlan, guarded, one_moment, plan, reasons
from synthesis.models import Sample, Snapshot, SnapshotSample
from trace_site.artefacts import store
from trace_site.audit import models as audit_models
from trace_site.jobs import JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import sha256_file, write_atomic
from trace_site.webhooks.services import emit

STEPS, TRIES, BATCH = 4, 3, 2000
OPTIONS = ("strategy", "per_rule", "seed", "branches", "rrb")


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


def snapshot_dir(snapshot: Snapshot) -> Path:
    """The snapshot's folder on this machine, every file verified."""
    return store().get_dir(snapshot.store_key, snapshot.store_digest)


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
        manifest = _manifest(ctx.params, found, files)
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


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Last of all files: where it stands, the folder is whole. Sorted, so that the database's copy gives the same."""
    text = json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True)
    write_atomic(folder / "manifest.json", text + "\n")


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


def _manifest(params: dict[str, Any], found: SnapshotPlan, files: Files) -> dict[str, Any]:
    chosen, removed = found.composition.chosen, found.composition.removed
    branches = Counter(entry.branch for entry in chosen)
    rules = RuleVersion.objects.filter(rule__published_id=F("pk")).order_by("rule__domain_id", "rule__code")
    columns = {"domain": F("rule__domain_id"), "code": F("rule__code"), "version": F("number")}
    return {
        "schema": 2,
        "hash": snapshot_hash(files),
        "catalog_hash": catalog_hash(files),
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


# The rebuild. Members are read from their rows, everything else from the frozen lines. Equal: every file has the digest
# of the manifest. Where not, the first row that differs is named, against the store's copy if that is whole.

LONGEST = 200
TABLE_FILE = "samples.parquet"


def run_rebuild(ctx: JobContext) -> dict[str, Any]:
    """The job's handler body."""
    snapshot = Snapshot.objects.get(pk=ctx.params["snapshot"])
    ctx.progress(0, 1, "writing the folder again")
    result = rebuild(snapshot)
    ctx.progress(1, 1, "compared")
    return result


def rebuild(snapshot: Snapshot, into: Path | None = None) -> dict[str, Any]:
    """{"equal", "hash", "files": [{name, equal, difference}], "stored", "restored"}; writes to `into` when given.

    stored: how the store's copy was found: whole, missing or damaged. A copy that is not whole is put back from an
    equal rebuild.
    """
    if not snapshot.parts:
        raise TraceError(
            "it was frozen before the database kept what a rebuild needs.",
            code="no_parts",
            where=str(snapshot),
            hint="Its folder in the store is the only copy; build a new snapshot with the same options.",
        )
    if into is not None and into.exists() and any(into.iterdir()):
        raise TraceError("the folder is not empty.", code="bad_option", where=str(into))
    with tempfile.TemporaryDirectory(prefix="rebuild-") as name:
        folder = into or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for file, digests in snapshot.parts.items():
            write_lines(folder / file, joined(digests))
        members = SnapshotSample.objects.filter(snapshot=snapshot).order_by("position")
        write_lines(folder / "samples.jsonl", sample_lines(list(members.values_list("sample", flat=True))))
        write_table(folder)
        write_manifest(folder, snapshot.manifest)
        return _compared(snapshot, folder)


def _compared(snapshot: Snapshot, folder: Path) -> dict[str, Any]:
    kept: Path | None = None
    try:
        kept, stored = snapshot_dir(snapshot), "whole"
    except TraceError as error:
        stored = "missing" if error.code == "store_missing" else "damaged"
    frozen = snapshot.manifest["files"]
    same = {name: sha256_file(folder / name) == frozen[name]["sha256"] for name in sorted(frozen)}
    if kept is not None:
        manifests = [(of / "manifest.json").read_bytes() for of in (folder, kept)]
        same["manifest.json"] = manifests[0] == manifests[1]

    def difference(name: str) -> str:
        if name == TABLE_FILE and same["samples.jsonl"]:
            versions = f"frozen with {frozen[name]['written_with']}, and this is pyarrow {pa.__version__}"
            return f"the same rows in other bytes: {versions}"
        if name == TABLE_FILE:
            return "its rows differ, as those of samples.jsonl do"
        if kept is None:
            return "its digest is another, and the store has no whole copy to compare rows with"
        return _first_difference(folder / name, kept / name)

    files = [
        {"name": name, "equal": equal, "difference": "" if equal else difference(name)}
        for name, equal in same.items()
    ]
    equal, restored = all(same.values()), False
    if equal and stored != "whole":
        restored = store().put_dir(folder, snapshot.store_key) == snapshot.store_digest
    return {"equal": equal, "hash": snapshot.hash, "files": files, "stored": stored, "restored": restored}


def _first_difference(ours: Path, theirs: Path) -> str:
    """The first line that differs; of a sample, the columns that do."""
    with ours.open("rb") as left, theirs.open("rb") as right:
        for number, (now, frozen) in enumerate(zip_longest(left, right), start=1):
            if now != frozen:
                return f"line {number}: {_line_difference(now, frozen)}"
    return "its digest is another than the manifest's"


def _line_difference(now: bytes | None, frozen: bytes | None) -> str:
    if now is None or frozen is None:
        return "it is missing" if now is None else "it is one too many"
    try:
        found, was = json.loads(now), json.loads(frozen)
    except ValueError:
        return "the text differs"
    about = f"sample {was['id']}, " if "id" in was else ""
    names = [name for name in (*SAMPLE_COLUMNS, *(was.keys() - set(SAMPLE_COLUMNS))) if name in was]
    changed = [
        f"{about}{name} was {str(was[name])[:LONGEST]!r}, is {str(found.get(name))[:LONGEST]!r}"
        for name in names
        if found.get(name) != was[name]
    ]
    return "; ".join(changed) or "the text differs"
