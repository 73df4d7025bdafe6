"""A snapshot directory small enough to train on in a test."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catalog.core.ledger import LedgerRow, assign_slots
from catalog.core.tokens import CLAUSES
from trace_site.lib.files import content_hash, sha256_file, write_jsonl
from training.core.records import FILES

NAMES = ["PayV1/GetSlip", "PayV1/ListRuns", "PayV2/GetSlip", "PayV2/MakeRun", "Time/Book Leave"]
TEXTS = ["Reads a pay slip", "Lists pay runs", "Reads a newer pay slip", "Starts a pay run", "Books leave"]


GONE = "<<hr/OLD#1>>"  # the clause of a withdrawn rule
RULE: dict[str, Any] = {
    "code": "SLIP",
    "version": 1,
    "domain": "hr",
    "target": "PayV2/GetSlip",
    "confusables": ["PayV1/GetSlip"],
    "text": "Slips since 2024 are read with PayV2/GetSlip. Older ones are in PayV1/GetSlip, never in PayV2/GetSlip.",
    "statements": [
        {
            "token": "<<hr/SLIP#1>>",
            "text": "Slips since 2024 are read with PayV2/GetSlip",
            "stance": "use",
            "tools": ["PayV2/GetSlip"],
        },
        {
            "token": "<<hr/SLIP#2>>",
            "text": "Older ones are in PayV1/GetSlip",
            "stance": "use",
            "tools": ["PayV1/GetSlip"],
        },
        {
            "token": "<<hr/SLIP#3>>",
            "text": "never in PayV2/GetSlip",
            "stance": "not",
            "tools": ["PayV2/GetSlip"],
        },
    ],
}


def silent(done: int, total: int, note: str) -> None:
    """A progress that nobody reads."""


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
        "rule": None if number % 2 else "SLIP",
        "query": f"please show case {number}",
        "trace": trace,
        "answer": [name],
        "permissions": [],
        "writer": "llm:small",
    }
    return row | override


def write_snapshot(
    folder: Path,
    samples: list[dict[str, Any]] | None = None,
    history: Sequence[Sequence[str]] = (["Old/Gone", *NAMES], NAMES),
    rules: Sequence[dict[str, Any]] = (RULE,),
) -> Path:
    """Five tools, ten samples, the even ones samples of a rule. `history`: the catalogs so far, today's last."""
    folder.mkdir(parents=True, exist_ok=True)
    names, ledger = history[-1], list[LedgerRow]()
    for catalog in history:
        ledger = assign_slots(ledger, catalog)
    texts = dict(zip(NAMES, TEXTS, strict=True))
    tools = [tool(name, texts.get(name, f"Does {name.replace('/', ' ')}")) for name in names]
    neighbours = [{"name": n, "neighbours": [m for m in names if m != n]} for n in names]
    tokens = [{"family": r.family, "slot": r.slot, "string": r.string, "state": r.state} for r in ledger]
    own = [one["token"] for rule in rules for one in rule["statements"]]
    tokens += [
        {"family": CLAUSES, "slot": slot, "string": text, "state": "active" if slot else "retired"}
        for slot, text in enumerate([GONE, *own])
    ]
    rows: list[list[dict[str, Any]]] = [
        tools,
        neighbours,
        list(rules),
        tokens,
        [sample(number) for number in range(10)] if samples is None else samples,
    ]
    for name, content in zip(FILES, rows, strict=True):
        write_jsonl(folder / name, content)
    files = {name: {"sha256": sha256_file(folder / name)} for name in FILES}
    of_tools = [row for row in tokens if row["family"] != CLAUSES]
    digests = {"hash": content_hash(files), "catalog_hash": content_hash([tools, neighbours, of_tools])}
    manifest = {"schema": 1, **digests, "files": files}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
