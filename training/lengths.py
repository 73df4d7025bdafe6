"""How long a snapshot's rows are, read from a bounded part of its files; and how large a named base is."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from synthesis.models import Snapshot
from trace_site.artefacts import store
from training.core import estimate as sums
from training.core.bases import Base, base_of, base_of_config
from training.core.estimate import Lengths
from training.core.recipe import POCKET

BLOCKS, BLOCK_BYTES = 12, 48_000  # how much of a file is read: enough for a mean, little enough for a page


@lru_cache(maxsize=64)
def base_facts(name: str) -> Base | None:
    """Of a local folder from its config.json, else from the name."""
    path = Path(name) / "config.json"
    if name != POCKET and name.startswith(("/", ".")) and path.is_file():
        try:
            return base_of_config(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError):
            return None
    return base_of(name)


def lengths_of(snapshot: Snapshot) -> Lengths:
    """Of a frozen snapshot's rows; usual lengths where its files are out of reach."""
    try:
        return _lengths(snapshot.hash, snapshot.store_key)
    except (OSError, ValueError, KeyError):
        return _from_counts(snapshot)


@lru_cache(maxsize=64)
def _lengths(snapshot_hash: str, store_key: str) -> Lengths:
    place = store()
    folder = f"{place.root}/{store_key}"
    read = place.filesystem.cat_file
    manifest = json.loads(read(f"{folder}/manifest.json"))
    ledger = read(f"{folder}/tokens.jsonl")
    families = {name: ledger.count(f'"family": "{name}"'.encode()) for name in ("flat", "part", "wrap")}
    near = _rows(place, f"{folder}/neighbours.jsonl", 1)
    return sums.lengths_of(
        _rows(place, f"{folder}/tools.jsonl"),
        _rows(place, f"{folder}/samples.jsonl"),
        counts={"tools": manifest["files"]["tools.jsonl"]["rows"], **manifest["counts"]},
        families=families,
        look_alikes=sum(len(row["neighbours"]) for row in near) / max(1, len(near)),
    )


def _from_counts(snapshot: Snapshot) -> Lengths:
    """When the files cannot be read: usual lengths, and the counts that the database keeps."""
    counts = {name: snapshot.counts.get(name, 0) for name in ("tools", "rrb", "rule", "imported")}
    rows = [{"branch": name, "query": "x" * 90, "trace": "x" * 600, "answer": ["x"]} for name in counts]
    tools = [{"description": "x" * 160}]
    families = {"flat": counts["tools"], "part": 2 * counts["tools"], "wrap": 2}
    return sums.lengths_of(tools, rows, counts=counts, families=families, look_alikes=13)


def _rows(place: Any, path: str, blocks: int = BLOCKS) -> list[dict[str, Any]]:
    """Whole rows of some blocks spread evenly over a file of JSON lines; all of them when it is small."""
    size = place.filesystem.size(path)
    with place.filesystem.open(path, "rb") as handle:
        if size <= blocks * BLOCK_BYTES:
            return [json.loads(line) for line in handle.read().splitlines() if line.strip()]
        rows = []
        for number in range(blocks):
            start = number * (size - BLOCK_BYTES) // max(1, blocks - 1)
            handle.seek(start)
            lines = handle.read(BLOCK_BYTES).split(b"\n")
            rows += [json.loads(line) for line in lines[1 if start else 0 : -1]]
    return rows
