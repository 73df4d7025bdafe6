"""Predictions into a file, line by line, resumable.

In: items.jsonl. Out: predictions.jsonl, a batch at a time, in the engine's order. Started again, ids that already
stand in the file are skipped; a last line cut by a kill is dropped first.
"""

import fcntl
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog.ml.child import Progress, emit
from evaluation.ml.engine import LETTERS, open_engine
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_jsonl


def read_items(path: Path, decode: str) -> list[dict[str, Any]]:
    needed = ("id", "question", "choices") if decode == LETTERS else ("id", "query")
    items: list[dict[str, Any]] = []
    seen: set[str] = set()
    for number, row in read_jsonl(path):
        missing = [name for name in needed if not row.get(name)]
        if missing:
            raise TraceError(
                f"has no '{missing[0]}'.", code="bad_item", where=f"{path}:{number}", permanent=True
            )
        if str(row["id"]) in seen:
            raise TraceError(f"id {row['id']!r} appears twice.", code="bad_item", where=f"{path}:{number}")
        seen.add(str(row["id"]))
        items.append(row)
    return items


def finished_ids(path: Path) -> frozenset[str]:
    """Ids already predicted; cuts the file after its last whole line."""
    if not path.is_file():
        return frozenset()
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        with path.open("r+b") as handle:
            handle.truncate(len(whole))
    return frozenset(str(row["id"]) for _, row in read_jsonl(path))


@dataclass(frozen=True)
class Work:
    """One file of items to decode in one way."""

    source: Path
    out: Path
    decode: str


def predict(model: Path, works: Sequence[Work], k: int, threads: int) -> None:
    """Several files with one load of the model; `answered` is told as each is complete."""
    items = [read_items(work.source, work.decode) for work in works]
    progress = Progress(sum(map(len, items)), f"loading {model.name}")
    engine = open_engine(model, threads)
    before = 0
    for work, rows in zip(works, items, strict=True):
        work.out.parent.mkdir(parents=True, exist_ok=True)
        with work.out.open("a", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)  # whoever is at the same file goes first; its answers are ours
            known = finished_ids(work.out) & {str(row["id"]) for row in rows}
            count = before + len(known)
            for answers in engine.predict(rows, work.decode, k, known):
                handle.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in answers))
                handle.flush()
                count += len(answers)
                progress(count, f"{work.decode} predictions")
        before += len(rows)
        emit("answered", out=str(work.out), decode=work.decode, predictions=len(rows))
    progress(progress.total, "all predictions")
    emit("done", predictions=before, model=str(model), digest=engine.export.digest)
