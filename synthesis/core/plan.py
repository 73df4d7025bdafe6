"""The slot plan: what of a target is there, what must be written again in place, what is missing; and a slot's pool.

A slot is a place in the plan: (rule, style, index) or (anchor, tier, index). What stands in it is current, outdated
(made by another prompt, model or recipe, still right) or stale (its rule or tools say something else now). A rejected
or dropped sample blocks its slot only under the key that would be tried again.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count, islice


class State(IntEnum):
    """Smaller is better."""

    CURRENT = 0
    OUTDATED = 1
    STALE = 2


@dataclass(frozen=True, slots=True)
class Held:
    """A sample in a slot. `gone`: rejected or dropped."""

    kind: str
    index: int
    key: str
    state: State
    gone: bool = False


@dataclass(slots=True)
class Group:
    """What is known of the slots of one rule, or of one anchor, by kind and index."""

    best: defaultdict[str, dict[int, State]] = field(default_factory=lambda: defaultdict(dict))  # not gone
    refused: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))  # under today's key
    # keys of gone samples, by kind and index
    dead: defaultdict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, held: Held) -> None:
        if held.gone:
            self.dead[held.kind, held.index].add(held.key)
            if held.state == State.CURRENT:
                self.refused[held.kind].add(held.index)
            return
        states = self.best[held.kind]
        if held.state < states.get(held.index, 3):
            states[held.index] = held.state

    def free(self, kind: str) -> Iterator[int]:
        """Indexes nothing stands in and nothing was refused in, from 0."""
        states, refused = self.best[kind], self.refused[kind]
        return (index for index in count() if index not in states and index not in refused)

    def is_dead(self, of: str, kind: str, index: int, key_of: "KeyOf") -> bool:
        """Whether a gone sample of the slot has the key that would be tried again. A key is of one slot."""
        return (kind, index) in self.dead and key_of(of, kind, index) in self.dead[kind, index]

    def slots(self) -> set[tuple[str, int]]:
        """Every slot that has been asked for."""
        return {(kind, index) for part in (self.best, self.refused) for kind in part for index in part[kind]}

    def beyond(self) -> int:
        """An index that no sample of any kind has had."""
        return max((index for _, index in self.slots()), default=-1) + 1


@dataclass(frozen=True, slots=True)
class Slot:
    """`of`: rule or anchor; `kind`: style or tier; `state` of what stands in it, None for nothing."""

    of: str
    kind: str
    index: int
    state: State | None = None


@dataclass(slots=True)
class Planned:
    """What to write, and how many slots are left as they are, by (of, kind).

    Slots to write are `listed`, then come the first `new` of `fresh`: a million of them are a number until they are
    drawn.
    """

    listed: list[Slot] = field(default_factory=list)
    kept: Counter[tuple[str, str]] = field(default_factory=Counter)
    new: int = 0
    fresh: Callable[[], Iterator[Slot]] = lambda: iter(())

    def slots(self) -> Iterator[Slot]:
        yield from self.listed
        yield from islice(self.fresh(), self.new)

    def missing(self, goal: int) -> int:
        return max(0, goal - self.kept.total() - len(self.listed))

    def counts(self) -> dict[str, int]:
        """{"new", "content_stale", "outdated", "kept"}"""
        states = Counter(slot.state for slot in self.listed)
        found = {"new": states[None] + self.new, "content_stale": states[State.STALE]}
        return {**found, "outdated": states[State.OUTDATED], "kept": self.kept.total()}


KeyOf = Callable[[str, str, int], str]  # the key of (of, kind, index) as this run would write it


def plan_style(of: str, kind: str, group: Group, goal: int, *, rewrite: bool, key_of: KeyOf) -> Planned:
    """One rule and style: keep, write again in place, then fill up to `goal` from the lowest free index."""
    found = Planned()
    again = []
    for index, state in sorted(group.best[kind].items()):
        if kept(state, rewrite):
            found.kept[of, kind] += 1
        elif not group.is_dead(of, kind, index, key_of):
            again.append(Slot(of, kind, index, state))
    found.listed += again[: found.missing(goal)]
    found.new = found.missing(goal)
    found.fresh = lambda: (
        Slot(of, kind, index) for index in group.free(kind) if not group.is_dead(of, kind, index, key_of)
    )
    return found


def kept(state: State, rewrite: bool) -> bool:
    return state == State.CURRENT or (state == State.OUTDATED and not rewrite)


# Pools of look-alike tools (paper, appendix B): P(r) = T(r) + union of H_K(t) over t in T(r); P(t) = {t} + H_K(t).


def pool_members(tools: Iterable[str], neighbours: Mapping[str, Sequence[str]]) -> set[str]:
    found = set(tools)
    return found.union(*(neighbours.get(tool, ()) for tool in found))


def shuffled(names: Iterable[str], seed: int) -> list[str]:
    """An order that depends on the set and the seed alone, so that it does not give the gold tool away."""
    ordered = sorted(names)
    random.Random(seed).shuffle(ordered)
    return ordered


def shuffled_pool(tools: Iterable[str], neighbours: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """P(r) of T(r), or P(t) of a single tool."""
    return shuffled(pool_members(tools, neighbours), seed)
