"""Writing a snapshot's folder again from the database alone, and comparing it with what was frozen.

Members are read from their rows, everything else from the frozen lines. Equal: every file has the digest of the
manifest. Where not, the first row that differs is named: the members' side against the store's copy, if that is whole.
"""

import json
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from synthesis.datasets.build import snapshot_dir, write_manifest
from synthesis.datasets.files import SAMPLE_COLUMNS, joined, sample_lines, write_lines, write_table
from synthesis.models import Snapshot, SnapshotSample
from trace_site.artefacts import store
from trace_site.jobs import JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import sha256_file

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
        _write(snapshot, folder)
        return _compared(snapshot, folder)


def _write(snapshot: Snapshot, folder: Path) -> None:
    for name, digests in snapshot.parts.items():
        write_lines(folder / name, joined(digests))
    write_lines(folder / "samples.jsonl", sample_lines(_members(snapshot)))
    write_table(folder)
    write_manifest(folder, snapshot.manifest)


def _members(snapshot: Snapshot) -> list[int]:
    rows = SnapshotSample.objects.filter(snapshot=snapshot).order_by("position")
    return list(rows.values_list("sample", flat=True))


def _compared(snapshot: Snapshot, folder: Path) -> dict[str, Any]:
    kept, stored = _kept(snapshot)
    manifest = snapshot.manifest["files"]
    files = [_file(name, manifest, folder, kept) for name in sorted(manifest)]
    if kept is not None:
        same = (folder / "manifest.json").read_bytes() == (kept / "manifest.json").read_bytes()
        difference = "" if same else _rows(folder / "manifest.json", kept / "manifest.json")
        files.append({"name": "manifest.json", "equal": same, "difference": difference})
    equal = all(file["equal"] for file in files)
    restored = False
    if equal and stored != "whole":
        restored = store().put_dir(folder, snapshot.store_key) == snapshot.store_digest
    return {"equal": equal, "hash": snapshot.hash, "files": files, "stored": stored, "restored": restored}


def _kept(snapshot: Snapshot) -> tuple[Path | None, str]:
    """The store's copy, and how it was found."""
    try:
        return snapshot_dir(snapshot), "whole"
    except TraceError as error:
        return None, "missing" if error.code == "store_missing" else "damaged"


def _file(name: str, manifest: dict[str, Any], folder: Path, kept: Path | None) -> dict[str, Any]:
    if _same(name, manifest, folder):
        return {"name": name, "equal": True, "difference": ""}
    if name == TABLE_FILE and _same("samples.jsonl", manifest, folder):
        difference = (
            f"the same rows in other bytes: frozen with {manifest[name]['written_with']}, and this is "
            f"pyarrow {pa.__version__}"
        )
    elif name == TABLE_FILE:
        difference = "its rows differ, as those of samples.jsonl do"
    elif kept is None:
        difference = "its digest is another, and the store has no whole copy to compare rows with"
    else:
        difference = _rows(folder / name, kept / name)
    return {"name": name, "equal": False, "difference": difference}


def _same(name: str, manifest: dict[str, Any], folder: Path) -> bool:
    return sha256_file(folder / name) == str(manifest[name]["sha256"])


def _rows(ours: Path, theirs: Path) -> str:
    """The first line that differs; of a sample, the columns that do."""
    with ours.open("rb") as left, theirs.open("rb") as right:
        for number, (now, frozen) in enumerate(zip_longest(left, right), start=1):
            if now != frozen:
                return f"line {number}: {_said(now, frozen)}"
    return "its digest is another than the manifest's"


def _said(now: bytes | None, frozen: bytes | None) -> str:
    if now is None or frozen is None:
        return "it is missing" if now is None else "it is one too many"
    try:
        found, was = json.loads(now), json.loads(frozen)
    except ValueError:
        return "the text differs"
    changed = list(_changed(found, was))
    return "; ".join(changed) or "the text differs"


def _changed(found: dict[str, Any], was: dict[str, Any]) -> Iterator[str]:
    about = f"sample {was['id']}, " if "id" in was else ""
    for name in [*SAMPLE_COLUMNS, *(was.keys() - set(SAMPLE_COLUMNS))]:
        if name in was and found.get(name) != was[name]:
            yield f"{about}{name} was {str(was[name])[:LONGEST]!r}, is {str(found.get(name))[:LONGEST]!r}"
