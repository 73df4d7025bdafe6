"""Stage 2: from a line of a frozen snapshot to what the model is trained on.

In: a snapshot directory and a recipe. Out: one `Record` a sample: a prompt, an optional thinking part and an answer,
each a tuple of parts. A `str` part is plain text that must never turn into tool or control tokens; a `Units` part is
real tool tokens. The loss looks at thinking part and answer. Paper: section "Stage 2"; Stage 1 is in memorization.py.
"""

import random
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from catalog.core.tokens import CLAUSES, FAMILIES, NameIndex
from synthesis.core.snapshot import FILES, Statements, decisive_clauses, statements_of
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, read_jsonl, sha256_file
from training.core.recipe import Recipe


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


def query_parts(query: str, permissions: Sequence[str] = ()) -> Parts:
    """What a retrieval prompt says: the request, and the permission targets if it carries any."""
    return (query, f"\nPermissions: {', '.join(permissions)}") if permissions else (query,)


def choice_parts(question: str, choices: Sequence[str], units: Sequence[str] = ()) -> Parts:
    """What a multiple-choice prompt says. `units` are the token of the tool it is about."""
    about: Parts = ("Tool: ", Units(tuple(units)), "\n") if units else ()
    lettered = zip(string.ascii_uppercase, choices, strict=False)
    return (*about, f"{question}\n", "".join(f"{letter}: {choice}\n" for letter, choice in lettered))


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
        return [string for family in FAMILIES[fmt] for string in self._strings(family)]

    def clause_strings(self) -> list[str]:
        """The tokens of clauses in ledger order, those of retired ones too."""
        return self._strings(CLAUSES)

    def _strings(self, family: str) -> list[str]:
        rows = sorted((r for r in self.tokens if r["family"] == family), key=lambda r: r["slot"])
        if [row["slot"] for row in rows] != list(range(len(rows))):
            raise TraceError(
                f"the slots of family '{family}' have gaps or repeats.",
                code="bad_ledger",
                where="tokens.jsonl",
                hint="Build the snapshot again from the catalog's ledger.",
            )
        return [row["string"] for row in rows]

    def decisive_clauses(self, sample: dict[str, Any]) -> tuple[str, ...]:
        """The tokens of the clauses that speak in one of the samples; none: no rule decides it."""
        return decisive_clauses(sample, self._statements)

    @cached_property
    def _statements(self) -> Statements:
        return statements_of(self.rules)


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
    for name in FILES:
        if sha256_file(directory / name) != manifest["files"][name]["sha256"]:
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
        catalog_hash=manifest["catalog_hash"],
    )


def with_empty_thinking(records: Iterable[Record], recipe: Recipe) -> Iterator[Record]:
    """Each record, and of a share of the reasoned ones a copy with the empty thinking part of fast decoding."""
    for record in records:
        yield record
        draw = random.Random(f"{recipe.seed}:{record.kind}:{record.id}").random()
        if record.thinking and draw < recipe.empty_thinking_share:
            yield replace(record, thinking=())


def stage2_records(snapshot: Snapshot, recipe: Recipe) -> list[Record]:
    """The retrieval records of one pass: n without traces, r with them, r+R with the rule samples too.

    `n>r` is two passes over the samples of r: first with_cell(retrieval="n"), then itself, which gives what r does.
    """
    if recipe.retrieval == "none":
        return []
    index = NameIndex((tool["name"] for tool in snapshot.tools), recipe.format)
    records = (_sample_record(sample, index, recipe.reasoning) for sample in chosen_samples(snapshot, recipe))
    return list(with_empty_thinking(records, recipe))


def chosen_samples(snapshot: Snapshot, recipe: Recipe) -> list[dict[str, Any]]:
    """Those that a pass trains on. Raises TraceError `no_samples`, `bad_sample`."""
    chosen = [s for s in snapshot.samples if recipe.with_rules or s["branch"] != "rule"]
    if not chosen:
        raise TraceError(
            f"the snapshot has no sample that '{recipe.retrieval}' trains on.",
            code="no_samples",
            where="samples.jsonl",
            hint="Build a snapshot with rrb or imported samples, or choose r+R.",
        )
    known = {tool["name"] for tool in snapshot.tools}
    for sample in chosen:
        unknown = [name for name in sample["answer"] if name not in known]
        if unknown or not sample["answer"]:
            raise TraceError(
                f"sample {sample['id']} answers with {unknown[0] if unknown else 'no tool'}.",
                code="bad_sample",
                where="samples.jsonl",
                hint="Its answer must name active tools of the snapshot.",
            )
    return chosen


def _sample_record(sample: dict[str, Any], index: NameIndex, reasoning: bool) -> Record:
    prompt = query_parts(sample["query"], sample.get("permissions") or ())
    trace = (sample.get("trace") or "") if reasoning else ""
    answer = list_parts(sample["answer"], index)
    return Record("retrieve", prompt, answer, text_parts(trace, index), id=str(sample["id"]))
