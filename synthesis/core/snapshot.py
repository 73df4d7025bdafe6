"""Composing a frozen dataset: which approved samples go in, and what its folder says.

append(k) = all RRB (at most `rrb`) + k samples per rule; replace(k) = the same with as many RRB samples taken out of
those rules' pools. Domains may have budgets. Choices depend on the seed and the samples' keys alone, never on the
order of rows.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rules.core.text_clauses import LEADING
from synthesis.core.budgets import Budgets, within
from trace_site.lib.files import content_hash

FILES = ("tools.jsonl", "neighbours.jsonl", "rules.jsonl", "tokens.jsonl", "samples.jsonl")
CATALOG_FILES = ("tools.jsonl", "neighbours.jsonl", "tokens.jsonl")
# samples as a table and the dataset card: made from the five, so they are no part of what the dataset is
DERIVED_FILES = ("samples.parquet", "README.md")
# why an approved sample that might have gone in did not, as `Composition.left_out` counts it
BEYOND_K, OVER_RRB, OVER_BUDGET, TAKEN_OUT = "beyond_k", "over_rrb", "over_budget", "taken_out"
WHY_LEFT_OUT = {
    "stale": "stale: rule, tools or pool changed since",
    "replaced": "a newer sample stands in the same place",
    "benchmark": "repeats a benchmark query",
    "few_shot": "repeats a few-shot query",
    "beyond_k": "more than k of its rule",
    "over_rrb": "more than the RRB samples asked for",
    "over_budget": "over its domain's budget",
    "taken_out": "RRB sample taken out by replace",
}


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
    domain: str = ""


@dataclass(slots=True)
class Composition:
    """`left_out`: {(reason, domain, branch): how many}."""

    chosen: list[Entry]
    removed: list[Entry] = field(default_factory=list)
    left_out: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def leave(self, reason: str, entries: Iterable[Entry]) -> None:
        self.left_out.update((reason, entry.domain, entry.branch) for entry in entries)


def lot(seed: int, key: str) -> str:
    """A sample's place in the draw: random, but the same for the same seed and sample."""
    return hashlib.sha256(f"{seed}|{key}".encode()).hexdigest()


def compose(
    entries: Iterable[Entry],
    *,
    strategy: str,
    per_rule: int,
    rrb: int | None,
    seed: int,
    budgets: Budgets | None = None,
) -> Composition:
    limits = budgets or {}
    by_branch: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: lot(seed, entry.key)):
        by_branch[entry.branch].append(entry)
    made = Composition([])
    wanted, beyond = per_rule_choice(by_branch["rule"], per_rule, seed)
    rule, over_rule, _ = within(wanted, limits, "rule")
    kept, over_budget, over_most = within(by_branch["rrb"], limits, "rrb", rrb)
    imported, over_share, _ = within(by_branch["imported"], limits, "imported")
    made.leave(BEYOND_K, beyond)
    made.leave(OVER_BUDGET, [*over_rule, *over_budget, *over_share])
    made.leave(OVER_RRB, over_most)
    if strategy == "replace":
        kept = _replaced(kept, rule, made)
    made.chosen = sorted([*kept, *rule, *imported], key=lambda entry: entry.id)
    return made


def _replaced(kept: list[Entry], rule: Sequence[Entry], made: Composition) -> list[Entry]:
    """Without as many RRB samples, whose tools are in those rules' pools, as there are rule samples."""
    pools: set[str] = set().union(*(entry.pool for entry in rule)) if rule else set()
    removed = [entry for entry in kept if not pools.isdisjoint(entry.answer)][: len(rule)]
    gone = {entry.id for entry in removed}
    made.removed = sorted(removed, key=lambda entry: entry.id)
    made.leave(TAKEN_OUT, removed)
    return [entry for entry in kept if entry.id not in gone]


def per_rule_choice(
    entries: Sequence[Entry], per_rule: int, seed: int = 0
) -> tuple[list[Entry], list[Entry]]:
    """(k samples of every rule, the rest), a rule's styles taken in turn so that the mix stays equal.

    In the order of turns over all rules: a budget that ends early leaves every rule about as many. Which style comes
    first is drawn for each rule, so that no style is the one that always falls away.
    """
    groups: defaultdict[str, defaultdict[str, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        groups[entry.rule][entry.style].append(entry)
    chosen: list[tuple[int, str, Entry]] = []
    beyond: list[Entry] = []
    for rule, styles in groups.items():
        turns = sorted(
            (place, lot(seed, f"{rule}|{style}"), entry.id, entry)
            for style, of in styles.items()
            for place, entry in enumerate(of)
        )
        chosen += [(turn, rule, one[3]) for turn, one in enumerate(turns[:per_rule])]
        beyond += [one[3] for one in turns[per_rule:]]
    return [entry for _, _, entry in sorted(chosen, key=lambda one: one[:2])], beyond


def shortfall(chosen: Iterable[Entry], rules: Iterable[str], per_rule: int) -> dict[str, int]:
    """{rule: how many it has} of the rules that have fewer than k, the emptiest first."""
    found = Counter(entry.rule for entry in chosen if entry.branch == "rule")
    short = {rule: found[rule] for rule in rules if found[rule] < per_rule}
    return dict(sorted(short.items(), key=lambda item: (item[1], item[0])))


Row = Mapping[str, Any]  # a line of a snapshot's file
Statements = Mapping[tuple[str, str], Sequence[Row]]  # those of each rule, by domain and code


def statements_of(rules: Iterable[Row]) -> Statements:
    """From the lines of rules.jsonl; those of snapshots that were frozen before clauses had tokens have none."""
    return {(rule["domain"], rule["code"]): rule.get("statements", ()) for rule in rules}


def decisive_clauses(sample: Row, statements: Statements) -> tuple[str, ...]:
    """The tokens of the clauses that speak in a sample: those of its rule that lead to a tool of its answer.

    In the order of the text. None where no clause does, and in samples of the catalog, which no rule decides.
    """
    if sample["branch"] != "rule":
        return ()
    answer = set(sample["answer"])
    return tuple(
        one["token"]
        for one in statements.get((sample["domain"], sample["rule"]), ())
        if one["stance"] in LEADING and not answer.isdisjoint(one["tools"])
    )


def snapshot_hash(files: Mapping[str, Mapping[str, Any]]) -> str:
    """The dataset's identity: the digests of its five files, no times, no ids of its own."""
    return content_hash({name: files[name]["sha256"] for name in FILES})


def catalog_hash(files: Mapping[str, Mapping[str, Any]]) -> str:
    """What Stage 1 depends on: tools, neighbours and the tokens of tools."""
    return content_hash({name: files[name]["sha256"] for name in CATALOG_FILES})
