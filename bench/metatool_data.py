"""The MetaTool benchmark as a snapshot, by the product's own functions but without its database.

In: catalog.jsonl and queries.jsonl. Out: a snapshot directory as `snapshot_build` writes it (imported samples with
the traces that the offline writer, filter V and the offline judge let through) and the items to evaluate. With `dev` a
tenth of the training queries, by hash of the query, is held out and stands in for the test split.
"""

import asyncio
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from catalog.core.ledger import assign_slots
from catalog.core.near_duplicates import DuplicateIndex
from catalog.core.neighbours import top_k
from catalog.core.tool import embedding_text
from synthesis.core.filters import FilterContext
from synthesis.core.keys import sample_seed
from synthesis.core.names import ToolNames
from synthesis.core.plan import shuffled_pool
from synthesis.core.queries import QueryDraft, QueryRequest, ToolText
from synthesis.core.recipe import default_recipe
from synthesis.core.snapshot import FILES, catalog_hash, snapshot_hash
from synthesis.generate.pipeline import Outcome, Pipeline, Unit
from synthesis.offline.writer import offline_writers
from trace_site.lib.files import content_hash, read_jsonl, sha256_file, write_jsonl

NEIGHBOURS = 13
DEV_SHARE = 10  # one in so many training queries is held out
Row = dict[str, Any]


def held_out(query: str) -> bool:
    return int(hashlib.sha256(query.encode()).hexdigest(), 16) % DEV_SHARE == 0


def split_rows(data: Path, dev: bool) -> tuple[list[Row], list[Row]]:
    """(training rows, items to evaluate). Training rows that nearly repeat an item leave, as in `samples_import`."""
    rows = [row | {"query": " ".join(row["query"].split())} for _, row in read_jsonl(data / "queries.jsonl")]
    train = [row for row in rows if row["split"] == "train"]
    train = list({(row["query"], tuple(row["tools"])): row for row in train}.values())
    test = [row for row in rows if row["split"] == "test"]
    if dev:  # the test split is not looked at
        test = [row for row in train if held_out(row["query"])]
        train = [row for row in train if not held_out(row["query"])]
    index = DuplicateIndex(row["query"] for row in test)
    train = [row for row in train if not index.find(row["query"])]
    return train, [{"id": number, **row} for number, row in enumerate(test)]


def tools_of(data: Path) -> list[Row]:
    rows = [row for _, row in read_jsonl(data / "catalog.jsonl")]
    keys = ("name", "description", "domain", "permissions", "deprecated", "version")
    return sorted(({key: row[key] for key in keys} for row in rows), key=lambda row: row["name"])


def encoded(texts: list[str]) -> Any:
    from catalog.ml.encoder import Encoder

    return Encoder().encode(texts)


def build(data: Path, folder: Path, dev: bool = False, traces: bool = True) -> Row:
    """Write the snapshot; returns what was written: rows, traces, attempts, reasons of refusal."""
    folder.mkdir(parents=True, exist_ok=True)
    tools = tools_of(data)
    names = [tool["name"] for tool in tools]
    rows = encoded([embedding_text(tool["name"], tool["description"]) for tool in tools])
    positions, _ = top_k(rows, NEIGHBOURS)
    near = {name: [names[at] for at in positions[place]] for place, name in enumerate(names)}
    train, _ = split_rows(data, dev)
    samples, counts = _samples(train, tools, near, traces)
    write_jsonl(folder / "tools.jsonl", tools)
    write_jsonl(folder / "neighbours.jsonl", [{"name": n, "neighbours": near[n]} for n in names])
    write_jsonl(folder / "rules.jsonl", [])
    keys = ("family", "slot", "string", "state")
    ledger = sorted(assign_slots((), names), key=lambda row: (row.family, row.slot))
    write_jsonl(folder / "tokens.jsonl", [{key: getattr(row, key) for key in keys} for row in ledger])
    write_jsonl(folder / "samples.jsonl", samples)
    files = {name: {"sha256": sha256_file(folder / name)} for name in FILES}
    facts = {"files": files, "hash": snapshot_hash(files), "catalog_hash": catalog_hash(files), **counts}
    (folder / "manifest.json").write_text(json.dumps(facts, indent=1) + "\n")
    return facts


def _samples(
    train: list[Row], tools: list[Row], near: dict[str, list[str]], traces: bool
) -> tuple[list[Row], Row]:
    known = {
        tool["name"]: ToolText(
            tool["name"], tool["description"], tuple(tool["permissions"]), tool["deprecated"]
        )
        for tool in tools
    }
    recipe = default_recipe()
    pipeline = Pipeline(offline_writers(recipe), FilterContext(ToolNames(known)), recipe.retries)
    samples: list[Row] = []
    counts: Counter[str] = Counter()
    with asyncio.Runner() as runner:
        for number, row in enumerate(train, start=1):
            key = content_hash({"branch": "imported", "query": row["query"], "answer": sorted(row["tools"])})
            outcome = None
            if traces:
                unit = _unit(number, row, key, known, near)
                outcome = runner.run(pipeline.make(unit))
                counts["attempts"] += len(outcome.attempts)
                counts["traces"] += outcome.ready
                counts.update(_reasons(outcome))
            samples.append(_sample(number, key, row, outcome))
    return samples, {"samples": len(samples), **counts}


def _unit(number: int, row: Row, key: str, known: dict[str, ToolText], near: dict[str, list[str]]) -> Unit:
    seed = sample_seed(0, key)
    names = shuffled_pool(row["tools"], near, seed)
    request = QueryRequest("imported", "metatool", tuple(known[name] for name in names), seed, 0)
    share = default_recipe().trace.permission_share
    return Unit(number, request, share, QueryDraft(row["query"], tuple(row["tools"]), ""))


def _reasons(outcome: Outcome) -> list[str]:
    if outcome.ready:
        return []
    last = outcome.attempts[-1]
    return [f"refused: {failure.check}" for failure in last.failures] or [
        f"refused: judge {axis}" for axis in last.judge.get("failed", ())
    ]


def _sample(number: int, key: str, row: Row, outcome: Outcome | None) -> Row:
    ready = outcome is not None and outcome.ready
    return {
        "id": number,
        "key": key,
        "branch": "imported",
        "tier": "",
        "style": "",
        "domain": "metatool",
        "query": row["query"],
        "trace": outcome.trace if outcome and ready else "",
        "answer": row["tools"],
        "permissions": list(outcome.permissions) if outcome and ready else [],
        "writer": "offline" if ready else "import",
        "rule": None,
    }
