"""The files of a snapshot's folder: tools, neighbours, rules, tokens and the chosen samples, in orders of their own.

Written line by line. What is not made from the members goes into the database too, in parts that snapshots share, so
that the folder can be written again from the database alone when tools and rules have changed, and compared.
"""

import hashlib
import json
import os
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.db import transaction
from django.db.models import F, QuerySet

from catalog.models import NeighbourList, TokenUnit, Tool
from rules.selectors import version_clauses
from synthesis.core.snapshot import catalog_hash, decisive_clauses, statements_of
from synthesis.generate.services import ACTIVE, hold_starts
from synthesis.models import FrozenLines, Sample, Snapshot, SnapshotSample
from synthesis.samples.inputs import CHUNK
from synthesis.samples.sources import published_rules
from trace_site import jobs
from trace_site.artefacts import store
from trace_site.jobs import Job, JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_jsonl, sha256_file, write_atomic

BATCH = 16  # parts in memory at once
AVERAGE = 512  # a part ends after a line whose checksum is a multiple of this
LONGEST = 4096
NOWHERE = Path(os.devnull)


def cut(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Parts of about AVERAGE lines; joined they are the file, byte for byte. Never holds more than one part.

    Parts end where the content says so: one changed line changes one part, wherever lines come and go, and equal parts
    of many files can be kept once.
    """
    part: list[bytes] = []
    for line in lines:
        part.append(line)
        if len(part) == LONGEST or zlib.crc32(line) % AVERAGE == 0:
            yield part
            part = []
    if part:
        yield part


@dataclass(slots=True)
class Parts:
    """The frozen lines of a snapshot for the database, kept once by their digest. `digests`: {file: its parts}."""

    digests: dict[str, list[str]] = field(default_factory=dict)
    _new: dict[str, FrozenLines] = field(default_factory=dict)

    def kept(self, name: str, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines unchanged; on the way their parts are noted."""
        found = self.digests.setdefault(name, [])
        for part in cut(lines):
            data = b"".join(part)
            digest = hashlib.sha256(data).hexdigest()
            found.append(digest)
            if digest not in self._new:
                self._new[digest] = FrozenLines(digest=digest, rows=len(part), data=zlib.compress(data, 6))
            yield from part

    def save(self) -> None:
        """Store what is not there yet."""
        known = set(FrozenLines.objects.filter(pk__in=self._new).values_list("pk", flat=True))
        fresh = [row for digest, row in self._new.items() if digest not in known]
        FrozenLines.objects.bulk_create(fresh, ignore_conflicts=True, batch_size=BATCH)


def joined(digests: Sequence[str]) -> Iterator[bytes]:
    """The lines of these parts, in order, a few parts at a time."""
    for start in range(0, len(digests), BATCH):
        wanted = digests[start : start + BATCH]
        rows = dict(FrozenLines.objects.filter(pk__in=wanted).values_list("pk", "data"))
        for digest in wanted:
            yield from lines_of(zlib.decompress(rows[digest]))


def lines_of(data: bytes) -> Iterator[bytes]:
    """Lines by newline alone, each with its newline."""
    yield from (line + b"\n" for line in data[:-1].split(b"\n")) if data else ()


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
    files: Files = {}
    frozen = {"tools": _tools, "neighbours": _neighbours, "rules": _rules, "tokens": _tokens}
    for name, rows in frozen.items():
        ctx.check()
        file = f"{name}.jsonl"
        files[file] = write_lines(folder / file, parts.kept(file, jsonl(rows())))
    ctx.check()
    files["samples.jsonl"] = write_lines(folder / "samples.jsonl", sample_lines(chosen))
    return files


def catalog_of(files: Files) -> str:
    """The catalog hash of a snapshot with these files. Tokens of clauses do not count: Stage 1 outlasts rules."""
    return catalog_hash({**files, "tokens.jsonl": write_lines(NOWHERE, jsonl(_tokens(TOOL_TOKENS)))})


def catalog_now() -> str:
    """The catalog hash that a snapshot frozen now would carry; writes nothing. Raises TraceError `no_tokens`."""
    found = {"tools.jsonl": _tools(), "neighbours.jsonl": _neighbours()}
    return catalog_of({name: write_lines(NOWHERE, jsonl(rows)) for name, rows in found.items()})


def clause_counts(folder: Path) -> dict[str, int]:
    """How many clauses the rules have, and how many rule samples have one that leads to their answer, or none."""
    statements = statements_of(row for _, row in read_jsonl(folder / "rules.jsonl"))
    samples = (row for _, row in read_jsonl(folder / "samples.jsonl") if row["branch"] == "rule")
    led = Counter(bool(decisive_clauses(row, statements)) for row in samples)
    clauses = sum(map(len, statements.values()))
    return {"clauses": clauses, "with_clause": led[True], "without_clause": led[False]}


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
    path, rows = folder / "samples.parquet", 0
    with (
        (folder / "samples.jsonl").open("rb") as lines,
        pq.ParquetWriter(path, TABLE, compression="zstd") as writer,
    ):
        while block := [json.loads(line) for line in islice(lines, ROWS_A_GROUP)]:
            writer.write_table(pa.Table.from_pylist(block, schema=TABLE))
            rows += len(block)
    about = {"sha256": sha256_file(path), "bytes": path.stat().st_size, "rows": rows}
    return {**about, "written_with": f"pyarrow {pa.__version__}"}


def sample_lines(chosen: list[int]) -> Iterator[bytes]:
    """The samples as the folder has them, one line each, in the order of `chosen`, which is by id."""
    for start in range(0, len(chosen), CHUNK):
        rows = Sample.objects.filter(pk__in=chosen[start : start + CHUNK]).order_by("id")
        named = rows.values(*SAMPLE_COLUMNS, rule=F("rule_version__rule__code"))
        yield from jsonl(named.iterator(CHUNK))


ACTIVE_TOOLS = Tool.objects.filter(status=Tool.Status.ACTIVE)


def _tools() -> Iterator[dict[str, Any]]:
    columns = ("name", "description", "domain_id", "permissions", "deprecated", "version", "content_hash")
    keys = ("name", "description", "domain", "permissions", "deprecated", "version", "hash")
    for row in sorted(ACTIVE_TOOLS.values_list(*columns)):
        yield dict(zip(keys, row, strict=True))


def _neighbours() -> Iterator[dict[str, Any]]:
    names = dict(ACTIVE_TOOLS.values_list("pk", "name"))
    lists = dict(NeighbourList.objects.values_list("tool_id", "neighbour_ids"))
    for pk, name in sorted(names.items(), key=lambda item: item[1]):  # by code point, not by collation
        yield {"name": name, "neighbours": [names[other] for other in lists.get(pk, []) if other in names]}


def _rules() -> Iterator[dict[str, Any]]:
    """`statements`: the clauses of the text, `clauses`: those that the expert wrote beside it."""
    rules = published_rules()
    read = version_clauses([version for version, _ in rules])
    for version, rule in rules:
        yield {
            "code": rule.code,
            "version": rule.version,
            "domain": rule.domain,
            "target": rule.target,
            "confusables": list(rule.confusables),
            "text": rule.text,
            "clauses": version.clauses,
            "statements": [row.as_dict() for row in read[version.pk] if row.in_force],
        }


TOKENS = TokenUnit.objects.order_by("family", "slot")
TOOL_TOKENS = TOKENS.exclude(family=TokenUnit.Family.CLAUSE)


def _tokens(units: QuerySet[TokenUnit] = TOKENS) -> Iterator[dict[str, Any]]:
    rows = units.values("family", "slot", "string", "state")
    if not rows.exists():
        hint = "Import the catalog: manage.py catalog_import."
        raise TraceError("the token ledger is empty.", code="no_tokens", hint=hint)
    yield from map(dict[str, Any], rows)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Last of all files: where it stands, the folder is whole. Sorted, so that the database's copy gives the same."""
    text = json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True)
    write_atomic(folder / "manifest.json", text + "\n")


def snapshot_dir(snapshot: Snapshot) -> Path:
    """The snapshot's folder on this machine, every file verified."""
    return store().get_dir(snapshot.store_key, snapshot.store_digest)


# The rebuild. Members are read from their rows, everything else from the frozen lines. Equal: every file has the digest
# of the manifest. Where not, the first row that differs is named, against the store's copy if that is whole.

MOST_SAID = 200  # of a value that differs


@transaction.atomic
def rebuild_start(*, snapshot: Snapshot, actor: Any = None, wake: bool = True) -> Job:
    """Queue the rebuilding of a snapshot's folder from the database, or return the one that is under way."""
    hold_starts()
    kind, params = "snapshot_rebuild", {"snapshot": snapshot.pk}
    under_way = Job.objects.filter(kind=kind, params=params, state__in=ACTIVE).first()
    return under_way or jobs.enqueue(
        kind, params, title=f"rebuild of {snapshot}", created_by=actor, wake=wake
    )


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
        if name == "samples.parquet" and same["samples.jsonl"]:
            versions = f"frozen with {frozen[name]['written_with']}, and this is pyarrow {pa.__version__}"
            return f"the same rows in other bytes: {versions}"
        if name == "samples.parquet":
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
        f"{about}{name} was {str(was[name])[:MOST_SAID]!r}, is {str(found.get(name))[:MOST_SAID]!r}"
        for name in names
        if found.get(name) != was[name]
    ]
    return "; ".join(changed) or "the text differs"
