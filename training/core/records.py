"""From a frozen snapshot to training records.

In: a snapshot directory. Out: `Record`s, each a prompt, an optional thinking part and an answer, made of
parts. A `str` part is plain text that must never turn into tool or control tokens; a `Units` part is real tool tokens.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog.core.tokens import FAMILIES, NameIndex, part_token, split_name
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_json, read_jsonl, sha256_file
from training.core.recipe import Recipe

FILES = ("tools.jsonl", "neighbours.jsonl", "rules.jsonl", "tokens.jsonl", "samples.jsonl")
CATALOG_FILES = ("tools.jsonl", "neighbours.jsonl", "tokens.jsonl")


@dataclass(frozen=True, slots=True)
class Units:
    """Real tool tokens, in order."""

    strings: tuple[str, ...]


Part = str | Units
Parts = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One supervised exchange. `kind` names the instruction; without thinking the thinking part is empty."""

    kind: str
    prompt: Parts
    answer: Parts
    thinking: Parts = ()
    id: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The rows a training run reads, and the digests it reports."""

    tools: list[dict[str, Any]]
    neighbours: dict[str, list[str]]
    rules: list[dict[str, Any]]
    tokens: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    hash: str
    catalog_hash: str

    def family_strings(self, fmt: str) -> list[str]:
        """The token strings of a format in ledger order: position = offset in the vocabulary."""
        strings: list[str] = []
        for family in FAMILIES[fmt]:
            rows = sorted((r for r in self.tokens if r["family"] == family), key=lambda r: r["slot"])
            if [row["slot"] for row in rows] != list(range(len(rows))):
                raise TraceError(
                    f"the slots of family '{family}' have gaps or repeats.",
                    code="bad_ledger",
                    where="tokens.jsonl",
                    hint="Build the snapshot again from the catalog's ledger.",
                )
            strings += [row["string"] for row in rows]
        return strings

    def texts(self) -> Iterator[str]:
        """All text of the snapshot, for training the pocket tokenizer."""
        for tool in self.tools:
            yield f"{tool['name']} {tool['description']} {' '.join(tool.get('permissions', ()))}"
        for rule in self.rules:
            yield f"{rule['code']} {rule['text']}"
        for sample in self.samples:
            yield sample["query"]
            if sample.get("trace"):
                yield sample["trace"]


def load_snapshot(directory: Path) -> Snapshot:
    """Read a snapshot directory; refuses one that is unfinished or does not match its manifest."""
    if not (directory / "manifest.json").is_file():
        raise TraceError(
            "there is no manifest.json, so the snapshot is unfinished or this is not one.",
            code="no_snapshot",
            where=str(directory),
            hint="Build it with `manage.py snapshot_build`.",
        )
    manifest = read_json(directory / "manifest.json")
    digests = {name: sha256_file(directory / name) for name in FILES}
    for name, digest in digests.items():
        if manifest["files"][name]["sha256"] != digest:
            raise TraceError(
                "the file is not the one the manifest describes.",
                code="bad_digest",
                where=str(directory / name),
                hint="Fetch the snapshot again.",
            )
    rows = {name: [row for _, row in read_jsonl(directory / name)] for name in FILES}
    return Snapshot(
        tools=rows["tools.jsonl"],
        neighbours={row["name"]: row["neighbours"] for row in rows["neighbours.jsonl"]},
        rules=rows["rules.jsonl"],
        tokens=rows["tokens.jsonl"],
        samples=rows["samples.jsonl"],
        hash=manifest["hash"],
        catalog_hash=content_hash({name: digests[name] for name in CATALOG_FILES}),
    )


def query_parts(query: str, permissions: Sequence[str] = ()) -> Parts:
    """What a retrieval prompt says: the request, and the permission targets if it carries any."""
    return (query, f"\nPermissions: {', '.join(permissions)}") if permissions else (query,)


def list_parts(names: Sequence[str], index: NameIndex) -> Parts:
    """The JSON list of tool tokens that ends every retrieval answer."""
    parts: list[Part] = []
    for number, name in enumerate(names):
        parts += ['", "' if number else '["', Units(tuple(index.units[name]))]
    return (*parts, '"]')


def text_parts(text: str, index: NameIndex) -> Parts:
    """Prose over tool names, with every name turned into its tokens."""
    pieces = index.split(text)
    return tuple(Units(tuple(index.units[name])) if name else piece for piece, name in pieces)


def stage1_records(snapshot: Snapshot, recipe: Recipe) -> list[Record]:
    """The memorization formats of every tool."""
    recipe.require_trainable()
    index = NameIndex((tool["name"] for tool in snapshot.tools), recipe.format)
    records: list[Record] = []
    for tool in snapshot.tools:
        records += _tool_records(tool, snapshot, index, recipe)
    return records


def _tool_records(
    tool: dict[str, Any], snapshot: Snapshot, index: NameIndex, recipe: Recipe
) -> Iterator[Record]:
    name, text = tool["name"], tool["description"]
    gold = Units(tuple(index.units[name]))
    yield Record("desc2token", (text,), (gold,), id=name)
    yield Record("token2desc", (gold,), (text,), id=name)
    yield _choice_record(tool, snapshot, index, recipe)
    if recipe.format in ("b", "c"):
        api, endpoint = (Units((part_token(part),)) for part in split_name(name))
        yield Record("desc2api", (text,), (api,), id=name)
        yield Record("api2endpoint", (f"{text}\n", api), (endpoint,), id=name)


def _choice_record(tool: dict[str, Any], snapshot: Snapshot, index: NameIndex, recipe: Recipe) -> Record:
    """Multi-choice tool selection: the gold tool among its nearest neighbours."""
    name = tool["name"]
    near = [other for other in snapshot.neighbours.get(name, ()) if other in index.units and other != name]
    names = [name, *near[: recipe.mcts_negatives]]
    random.Random(f"{recipe.seed}:{name}").shuffle(names)
    parts: list[Part] = [tool["description"]]
    for candidate in names:
        parts += ["\n", Units(tuple(index.units[candidate]))]
    return Record("mcts", tuple(parts), (Units(tuple(index.units[name])),), id=name)


def stage2_records(snapshot: Snapshot, recipe: Recipe) -> list[Record]:
    """The retrieval records of a cell: n without traces, r with them, r+R with the rule samples too."""
    recipe.require_trainable()
    if recipe.retrieval == "none":
        return []
    index = NameIndex((tool["name"] for tool in snapshot.tools), recipe.format)
    chosen = [s for s in snapshot.samples if recipe.retrieval == "r+R" or s["branch"] != "rule"]
    if not chosen:
        raise TraceError(
            f"the snapshot has no sample that '{recipe.retrieval}' trains on.",
            code="no_samples",
            where="samples.jsonl",
            hint="Build a snapshot with rrb or imported samples, or choose r+R.",
        )
    records: list[Record] = []
    for sample in chosen:
        records += _sample_records(sample, index, recipe)
    return records


def _sample_records(sample: dict[str, Any], index: NameIndex, recipe: Recipe) -> Iterator[Record]:
    unknown = [name for name in sample["answer"] if name not in index.units]
    if unknown or not sample["answer"]:
        raise TraceError(
            f"sample {sample['id']} answers with {unknown[0] if unknown else 'no tool'}.",
            code="bad_sample",
            where="samples.jsonl",
            hint="Its answer must name active tools of the snapshot.",
        )
    prompt = query_parts(sample["query"], sample.get("permissions") or ())
    answer = list_parts(sample["answer"], index)
    key = str(sample["id"])
    trace = (sample.get("trace") or "") if recipe.reasoning else ""
    if trace:
        yield Record("retrieve", prompt, answer, text_parts(trace, index), id=key)
    if not trace or random.Random(f"{recipe.seed}:{key}").random() < recipe.empty_thinking_share:
        yield Record("retrieve", prompt, answer, id=key)
