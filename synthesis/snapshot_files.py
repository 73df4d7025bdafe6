"""The files of a snapshot's folder: tools, neighbours, rules, tokens and the chosen samples, in orders of their own.

Written line by line. What is not made from the members goes into the database too, in parts that snapshots share, so
that the folder can be written again when tools and rules have changed.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.db.models import F, QuerySet

from catalog.models import NeighbourList, TokenUnit, Tool
from synthesis.core.snapshot import catalog_hash
from synthesis.models import Sample
from synthesis.sample_rows import CHUNK
from synthesis.snapshot_parts import Parts
from synthesis.sources import published_rules
from trace_site.jobs import JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import sha256_file

Files = dict[str, dict[str, Any]]
SAMPLE_COLUMNS = (
    "id", "key", "branch", "tier", "style", "domain", "query", "trace", "answer", "permissions", "writer",
)  # fmt: skip
TEXTS = pa.list_(pa.string())
TABLE = pa.schema(
    [
        ("id", pa.int64()),
        *((name, pa.string()) for name in SAMPLE_COLUMNS[1:8]),
        ("answer", TEXTS),
        ("permissions", TEXTS),
        ("writer", pa.string()),
        ("rule", pa.string()),
    ]
)
ROWS_A_GROUP = 2000


def write_files(folder: Path, chosen: list[int], parts: Parts, ctx: JobContext) -> Files:
    """The five files that are the dataset; `chosen`: ids of samples in their order."""
    rows = {
        "tools.jsonl": _tools(),
        "neighbours.jsonl": _neighbours(),
        "rules.jsonl": _rules(),
        "tokens.jsonl": _tokens(),
    }
    files: Files = {}
    for name, found in rows.items():
        ctx.check()
        files[name] = write_lines(folder / name, parts.kept(name, jsonl(found)))
    ctx.check()
    files["samples.jsonl"] = write_lines(folder / "samples.jsonl", sample_lines(chosen))
    return files


def catalog_now() -> str:
    """The catalog hash that a snapshot frozen now would carry; writes nothing. Raises TraceError `no_tokens`."""
    found = {"tools.jsonl": _tools(), "neighbours.jsonl": _neighbours(), "tokens.jsonl": _tokens()}
    return catalog_hash({name: {"sha256": _digest(jsonl(rows))} for name, rows in found.items()})


def _digest(lines: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()


def jsonl(rows: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Every text as it is: only what JSON itself demands is escaped."""
    return ((json.dumps(row, ensure_ascii=False) + "\n").encode() for row in rows)


def write_lines(path: Path, lines: Iterable[bytes]) -> dict[str, Any]:
    """Write lines as they come; returns {"sha256", "bytes", "rows"}."""
    digest, size, count = hashlib.sha256(), 0, 0
    with path.open("wb") as handle:
        for line in lines:
            handle.write(line)
            digest.update(line)
            size += len(line)
            count += 1
    return {"sha256": digest.hexdigest(), "bytes": size, "rows": count}


def write_table(folder: Path) -> dict[str, Any]:
    """samples.parquet from samples.jsonl, with typed columns."""
    path = folder / "samples.parquet"
    rows = 0
    with pq.ParquetWriter(path, TABLE, compression="zstd") as writer:
        for block in _blocks_of(folder / "samples.jsonl"):
            writer.write_table(pa.Table.from_pylist(block, schema=TABLE))
            rows += len(block)
    return {
        "sha256": sha256_file(path),
        "bytes": path.stat().st_size,
        "rows": rows,
        "written_with": f"pyarrow {pa.__version__}",
    }


def _blocks_of(path: Path) -> Iterator[list[dict[str, Any]]]:
    block: list[dict[str, Any]] = []
    with path.open("rb") as handle:
        for line in handle:
            block.append(json.loads(line))
            if len(block) == ROWS_A_GROUP:
                yield block
                block = []
    if block:
        yield block


def sample_lines(chosen: list[int]) -> Iterator[bytes]:
    """The samples as the folder has them, one line each, in the order of `chosen`, which is by id."""
    for start in range(0, len(chosen), CHUNK):
        rows = Sample.objects.filter(pk__in=chosen[start : start + CHUNK]).order_by("id")
        named = rows.values(*SAMPLE_COLUMNS, rule=F("rule_version__rule__code"))
        yield from jsonl(named.iterator(CHUNK))


def _active() -> QuerySet[Tool]:
    return Tool.objects.filter(status=Tool.Status.ACTIVE).order_by("name")


def _tools() -> Iterator[dict[str, Any]]:
    columns = ("name", "description", "domain_id", "permissions", "deprecated", "version", "content_hash")
    keys = ("name", "description", "domain", "permissions", "deprecated", "version", "hash")
    for row in sorted(_active().values_list(*columns)):
        yield dict(zip(keys, row, strict=True))


def _neighbours() -> Iterator[dict[str, Any]]:
    names = dict(_active().values_list("pk", "name"))
    lists = dict(NeighbourList.objects.values_list("tool_id", "neighbour_ids"))
    for pk, name in sorted(names.items(), key=lambda item: item[1]):
        yield {"name": name, "neighbours": [names[other] for other in lists.get(pk, []) if other in names]}


def _rules() -> Iterator[dict[str, Any]]:
    for version, rule in published_rules():
        yield {
            "code": rule.code,
            "version": rule.version,
            "domain": rule.domain,
            "target": rule.target,
            "confusables": list(rule.confusables),
            "text": rule.text,
            "clauses": version.clauses,
        }


def _tokens() -> Iterator[dict[str, Any]]:
    keys = ("family", "slot", "string", "state")
    rows = TokenUnit.objects.order_by("family", "slot").values_list(*keys)
    if not rows.exists():
        raise TraceError(
            "the token ledger is empty.",
            code="no_tokens",
            hint="Import the catalog: manage.py catalog_import.",
        )
    for row in rows:
        yield dict(zip(keys, row, strict=True))
