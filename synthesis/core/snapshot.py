"""Composing a frozen dataset: which approved samples go in, and what its folder says.

append(k) = all RRB (at most `rrb`) + k samples per rule; replace(k) = the same with as many RRB samples taken out of
those rules' pools. Choices depend on the seed and the samples' keys alone, never on the order of rows.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trace_site.lib.files import content_hash

FILES = ("tools.jsonl", "neighbours.jsonl", "rules.jsonl", "tokens.jsonl", "samples.jsonl")
CATALOG_FILES = ("tools.jsonl", "neighbours.jsonl", "tokens.jsonl")


@dataclass(frozen=True, slots=True)
class Entry:
    """What choosing needs to know of a sample."""

    id: int
    key: str
    branch: str
    style: str = ""
    rule: str = ""
    answer: tuple[str, ...] = ()
    pool: frozenset[str] = frozenset()


@dataclass(slots=True)
class Composition:
    chosen: list[Entry]
    removed: list[Entry] = field(default_factory=list)


def lot(seed: int, key: str) -> str:
    """A sample's place in the draw: random, but the same for the same seed and sample."""
    return hashlib.sha256(f"{seed}|{key}".encode()).hexdigest()


def compose(
    entries: Iterable[Entry], *, strategy: str, per_rule: int, rrb: int | None, seed: int
) -> Composition:
    by_branch: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: lot(seed, entry.key)):
        by_branch[entry.branch].append(entry)
    rule = per_rule_choice(by_branch["rule"], per_rule)
    kept = by_branch["rrb"] if rrb is None else by_branch["rrb"][:rrb]
    removed: list[Entry] = []
    if strategy == "replace":
        pools: set[str] = set().union(*(entry.pool for entry in rule)) if rule else set()
        removed = [entry for entry in kept if not pools.isdisjoint(entry.answer)][: len(rule)]
        gone = {entry.id for entry in removed}
        kept = [entry for entry in kept if entry.id not in gone]
    chosen = [*kept, *rule, *by_branch["imported"]]
    return Composition(
        sorted(chosen, key=lambda entry: entry.id), sorted(removed, key=lambda entry: entry.id)
    )


def per_rule_choice(entries: Sequence[Entry], per_rule: int) -> list[Entry]:
    """k samples of every rule, its styles taken in turn so that the mix stays equal."""
    groups: defaultdict[str, defaultdict[str, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        groups[entry.rule][entry.style].append(entry)
    chosen: list[Entry] = []
    for _, styles in sorted(groups.items()):
        turns = sorted(
            (place, style, entry.id, entry) for style, of in styles.items() for place, entry in enumerate(of)
        )
        chosen += [turn[3] for turn in turns[:per_rule]]
    return chosen


def snapshot_hash(files: Mapping[str, Mapping[str, Any]]) -> str:
    """The dataset's identity: the digests of its five files, no times, no ids of its own."""
    return content_hash({name: files[name]["sha256"] for name in FILES})


def catalog_hash(files: Mapping[str, Mapping[str, Any]]) -> str:
    """What Stage 1 depends on: tools, neighbours and tokens."""
    return content_hash({name: files[name]["sha256"] for name in CATALOG_FILES})
