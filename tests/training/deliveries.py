"""Run directories as a trainer elsewhere leaves them, on a snapshot of ours; the weights are a few bytes."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings

from catalog.core.tokens import tool_units
from catalog.models import TokenUnit
from synthesis.models import Snapshot
from tests.training.small_snapshot import write_snapshot
from trace_site.artefacts import store
from trace_site.lib.files import content_hash, read_json, sha256_file
from training.core.recipe import Recipe
from training.core.records import load_snapshot
from training.core.rundir import RunDir, publish_dir

FIRST = 100  # id of the first tool token
BASE = "org/base-1B"


def small_snapshot() -> Snapshot:
    """Five tools in the store, and their tokens in the ledger."""
    folder = write_snapshot(settings.TRACE_HOME / "small-snapshot")
    rows = load_snapshot(folder)
    TokenUnit.objects.bulk_create(
        [TokenUnit(family=t["family"], slot=t["slot"], string=t["string"]) for t in rows.tokens]
    )
    return Snapshot.objects.create(
        hash=rows.hash,
        strategy="append",
        per_rule=2,
        store_key="snapshots/small",
        store_digest=store().put_dir(folder, "snapshots/small"),
        catalog_hash=rows.catalog_hash,
        manifest=read_json(folder / "manifest.json"),
    )


def deliver(folder: Path, snapshot: Snapshot, stage: str, init: Path | None = None, **cell: Any) -> Path:
    """The run directory of one finished stage; cell: fields of the recipe."""
    recipe = Recipe(**{"format": "a", "retrieval": "n" if stage == "plain" else "r", "base": BASE, **cell})
    retrieval = "none" if stage == "stage1" else recipe.retrieval
    rows = load_snapshot(settings.TRACE_HOME / "small-snapshot")
    ids = {string: FIRST + place for place, string in enumerate(rows.family_strings(recipe.format))}
    tools = [
        {"name": t["name"], "ids": [ids[unit] for unit in tool_units(t["name"], recipe.format)]}
        for t in rows.tools
    ]
    spec = {
        **{"format": recipe.format, "memo": recipe.memo, "retrieval": retrieval, "base": recipe.base},
        **{"seed": recipe.seed, "snapshot_hash": snapshot.hash, "recipe_hash": recipe.hash(), "tools": tools},
    }

    def write(export: Path) -> None:
        header = json.dumps({"w": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}}).encode()
        weights = len(header).to_bytes(8, "little") + header + bytes(48)
        (export / "model.safetensors").write_bytes(weights)
        (export / "trace.json").write_text(json.dumps(spec))
        added = [{"id": found, "content": string} for string, found in ids.items()]
        (export / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
        (export / "README.md").write_text(f"# {stage}\n")

    with RunDir(folder).locked() as run:
        run.keep("recipe.yaml", recipe.to_yaml())
        run.add_metrics({"stage": stage, "step": 1, "steps": 2, "loss": 3.0, "tokens": 10})
        run.add_metrics({"stage": stage, "step": 2, "steps": 2, "loss": 2.0, "tokens": 20})
        run.log(f"{stage}: two steps")
        publish_dir(run.root / ".export-tmp", run.export, write, {"schema": 1})
        start = {"init": sha256_file(init / "export" / "manifest.json")} if init else {}
        run.finish({"stage": stage, **start, "training": {"Steps": 2}})
    return folder


def chain(folder: Path, snapshot: Snapshot, **cell: Any) -> Path:
    """A folder with Stage 1 and the reasoning pass of one cell."""
    stage1 = deliver(folder / "stage1", snapshot, "stage1", **cell)
    deliver(folder / "stage2", snapshot, "stage2", stage1, **cell)
    return folder


def resealed(export: Path) -> None:
    """Make the manifest fit what was changed, as somebody would who wants it to pass."""
    manifest = read_json(export / "manifest.json")
    for name in manifest["files"]:
        path = export / name
        manifest["files"][name] = {"sha256": sha256_file(path), "bytes": path.stat().st_size}
    manifest.pop("digest", None)
    manifest["digest"] = content_hash(manifest)
    (export / "manifest.json").write_text(json.dumps(manifest))


def changed(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file of an export and seal it again."""
    path.write_text(json.dumps({**read_json(path), **fields}))
    resealed(path.parent)
