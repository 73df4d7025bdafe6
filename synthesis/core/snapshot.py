"""Composing a frozen dataset: which approved samples go in, and what its folder says.

append(k) = all RRB (at most `rrb`) + k samples per rule; replace(k) = the same with as many RRB samples taken out of
those rules' pools. Domains may have budgets. Choices depend on the seed and the samples' keys alone, never on the
order of rows.
"""

import hashlib
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from trace_site.lib.files import content_hash

# How much of a snapshot a domain may be: at most so many samples of a branch, or a share of it.
#
# In: entries in the order in which they are wanted. Out: those that fit. A share is of what is taken in the end, so the
# largest number is sought at which no domain is above its own.


class Placed(Protocol):
    @property
    def domain(self) -> str: ...


E = TypeVar("E", bound=Placed)


@dataclass(frozen=True, slots=True)
class Budget:
    """Of one domain; None does not limit. `share`: percent, of each branch."""

    rule: int | None = None
    rrb: int | None = None
    share: int | None = None

    def most(self, branch: str) -> int | None:
        return {"rule": self.rule, "rrb": self.rrb}.get(branch)


Budgets = Mapping[str, Budget]


def within(
    entries: Sequence[E], budgets: Budgets, branch: str, most: int | None = None
) -> tuple[list[E], list[E], list[E]]:
    """(kept, over their domain's budget, over `most`), each in the order given."""
    total, room = _room(Counter(entry.domain for entry in entries), budgets, branch, most)
    kept: list[E] = []
    over_budget: list[E] = []
    over_most: list[E] = []
    for entry in entries:
        if not room[entry.domain]:
            over_budget.append(entry)
        elif len(kept) == total:
            over_most.append(entry)
        else:
            room[entry.domain] -= 1
            kept.append(entry)
    return kept, over_budget, over_most


def _room(found: Counter[str], budgets: Budgets, branch: str, most: int | None) -> tuple[int, dict[str, int]]:
    """How many are taken, and how many of each domain at most."""
    none = Budget()
    own = {domain: budgets.get(domain, none) for domain in found}
    room = {domain: _least(count, own[domain].most(branch)) for domain, count in found.items()}
    total = _least(sum(room.values()), most)
    while True:
        shared = {domain: _least(count, _part(total, own[domain].share)) for domain, count in room.items()}
        if (fits := min(total, sum(shared.values()))) == total:
            return total, shared
        total = fits


def _part(total: int, percent: int | None) -> int | None:
    return None if percent is None else total * percent // 100


def _least(count: int, most: int | None) -> int:
    return count if most is None else min(count, most)


def read_budgets(texts: Iterable[str]) -> dict[str, dict[str, int]]:
    """`hr:rule=100,rrb=50` or `hr:share=40` as {"hr": {"rule": 100, "rrb": 50}}. Raises ValueError naming the text."""
    found: dict[str, dict[str, int]] = {}
    for text in texts:
        domain, _, limits = text.partition(":")
        for limit in limits.split(","):
            name, _, number = limit.partition("=")
            if not (domain and name in ("rule", "rrb", "share") and number.isascii() and number.isdecimal()):
                raise ValueError(text)
            found.setdefault(domain, {})[name] = int(number)
    return found


FILES = ("tools.jsonl", "neighbours.jsonl", "rules.jsonl", "tokens.jsonl", "samples.jsonl")
CATALOG_FILES = ("tools.jsonl", "neighbours.jsonl", "tokens.jsonl")
# samples as a table and the dataset card: made from the five, so they are no part of what the dataset is
DERIVED_FILES = ("samples.parquet", "README.md")
# why an approved sample that might have gone in did not, as `Composition.left_out` counts it
BEYOND_K, OVER_RRB, OVER_BUDGET, TAKEN_OUT = "beyond_k", "over_rrb", "over_budget", "taken_out"


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


def snapshot_hash(files: Mapping[str, Mapping[str, Any]]) -> str:
    """The dataset's identity: the digests of its five files, no times, no ids of its own."""
    return content_hash({name: files[name]["sha256"] for name in FILES})


def catalog_hash(files: Mapping[str, Mapping[str, Any]]) -> str:
    """What Stage 1 depends on: tools, neighbours and tokens."""
    return content_hash({name: files[name]["sha256"] for name in CATALOG_FILES})


# What pages and cards call the ways of approval, and the reasons why an approved sample is not in a snapshot.


HOW = {
    "read": "read by one person",
    "edited": "read and edited by one person",
    "second": "read by two people",
    "adjudicated": "read by three people",
    "bulk": "read in bulk",
    "batch": "accepted with its batch, not read",
    "policy": "by policy, not read",
    "import": "imported as approved, not read",
}
UNREAD = ("batch", "policy", "import")
REASONS = {
    "stale": "stale: rule, tools or pool changed since",
    "replaced": "a newer sample stands in the same place",
    "benchmark": "repeats a benchmark query",
    "few_shot": "repeats a few-shot query",
    "beyond_k": "more than k of its rule",
    "over_rrb": "more than the RRB samples asked for",
    "over_budget": "over its domain's budget",
    "taken_out": "RRB sample taken out by replace",
}


# Cuts a file of lines where the content says so: one changed line changes one part, wherever lines come and go.
#
# In: lines. Out: parts of about AVERAGE lines, each with its digest; joined they are the file, byte for byte. Equal
# parts of many files can be kept once.


AVERAGE = 512  # a part ends after a line whose checksum is a multiple of this
LONGEST = 4096


@dataclass(frozen=True, slots=True)
class LinePart:
    digest: str  # sha256 of the bytes
    rows: int
    data: bytes


def cut(lines: Iterable[bytes]) -> Iterator[LinePart]:
    """Never holds more than one part."""
    part: list[bytes] = []
    for line in lines:
        part.append(line)
        if len(part) == LONGEST or zlib.crc32(line) % AVERAGE == 0:
            yield _joined(part)
            part = []
    if part:
        yield _joined(part)


def _joined(lines: list[bytes]) -> LinePart:
    data = b"".join(lines)
    return LinePart(hashlib.sha256(data).hexdigest(), len(lines), data)
