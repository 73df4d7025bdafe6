"""A snapshot directory small enough to train on in a test."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catalog.core.ledger import LedgerRow, assign_slots
from trace_site.lib.files import content_hash, sha256_file, write_jsonl
from training.core.records import FILES

NAMES = ["PayV1/GetSlip", "PayV1/ListRuns", "PayV2/GetSlip", "PayV2/MakeRun", "Time/Book Leave"]
TEXTS = ["Reads a pay slip", "Lists pay runs", "Reads a newer pay slip", "Starts a pay run", "Books leave"]


def tool(name: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "domain": "hr",
        "permissions": [],
        "deprecated": False,
        "version": "",
        "hash": "",
    }


def sample(number: int, **override: Any) -> dict[str, Any]:
    name = NAMES[number % len(NAMES)]
    trace = f"The request is about case {number}. PayV1/GetSlip is older. I choose {name}."
    row = {
        "id": number,
        "key": str(number),
        "branch": "rrb" if number % 2 else "rule",
        "tier": "easy",
        "style": "",
        "domain": "hr",
        "rule": None,
        "query": f"please show case {number}",
        "trace": trace,
        "answer": [name],
        "permissions": [],
        "writer": "offline",
    }
    return row | override


def write_snapshot(
    folder: Path,
    samples: list[dict[str, Any]] | None = None,
    history: Sequence[Sequence[str]] = (["Old/Gone", *NAMES], NAMES),
) -> Path:
    """Five tools, ten samples, the even ones rule samples. `history`: the catalogs so far, today's last."""
    folder.mkdir(parents=True, exist_ok=True)
    names, ledger = history[-1], list[LedgerRow]()
    for catalog in history:
        ledger = assign_slots(ledger, catalog)
    texts = dict(zip(NAMES, TEXTS, strict=True))
    tools = [tool(name, texts.get(name, f"Does {name.replace('/', ' ')}")) for name in names]
    neighbours = [{"name": n, "neighbours": [m for m in names if m != n]} for n in names]
    tokens = [{"family": r.family, "slot": r.slot, "string": r.string, "state": r.state} for r in ledger]
    rows: list[list[dict[str, Any]]] = [
        tools,
        neighbours,
        [],
        tokens,
        [sample(number) for number in range(10)] if samples is None else samples,
    ]
    for name, content in zip(FILES, rows, strict=True):
        write_jsonl(folder / name, content)
    files = {name: {"sha256": sha256_file(folder / name)} for name in FILES}
    digests = {"hash": content_hash(files), "catalog_hash": content_hash([tools, neighbours, tokens])}
    manifest = {"schema": 1, **digests, "files": files}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
