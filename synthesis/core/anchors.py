"""Slots of the rule-free branch (RRB): which anchors are asked for, and in which tier.

In: the live anchors, stratified by domain, and what stands in their slots. Out: a plan, as `plan_style` makes one for
a rule.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from synthesis.core.plan import Group, KeyOf, Planned, Slot, kept


def stratified(groups: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """All names, ordered so that every beginning of the list is spread over the groups by their size.

    Sainte-Laguë: the k-th name of a group of n stands at (2k + 1) / n; every group's first comes before all seconds.
    """
    turns = [
        (place > 0, (2 * place + 1) / len(names), group, name)
        for group, names in groups.items()
        for place, name in enumerate(random.Random(f"{seed}|{group}").sample(sorted(names), len(names)))
    ]
    return [turn[3] for turn in sorted(turns)]


def plan_anchors(
    order: Sequence[str],
    groups: Mapping[str, Group],
    goal: int,
    *,
    rewrite: bool,
    key_of: KeyOf,
    tiers_of: Callable[[str], Sequence[str]],
) -> Planned:
    """`order`: the live anchors, stratified. Anchors asked least come first, each tier as often as the others.

    An anchor without a tier is never asked for, so that fewer than `goal` may be planned. Which tier a slot has is
    known only once those before it are, so all are listed: `goal` must be small enough for that.
    """
    found = Planned()
    tiers: Counter[str] = Counter()
    again: list[Slot] = []
    for anchor in order:
        states = groups[anchor].best if anchor in groups else {}
        standing = sorted((kind, index, states[kind][index]) for kind in states for index in states[kind])
        for tier, index, state in standing:
            if kept(state, rewrite):
                found.kept[anchor, tier] += 1
                tiers[tier] += 1
            elif tier in tiers_of(anchor) and not groups[anchor].is_dead(anchor, tier, index, key_of):
                again.append(Slot(anchor, tier, index, state))
    found.listed += again[: found.missing(goal)]
    tiers.update(slot.kind for slot in found.listed)
    for anchor, index, fit in islice(_least_asked(order, groups, tiers_of), found.missing(goal)):
        tier = min(fit, key=lambda tier: tiers[tier])
        tiers[tier] += 1
        found.listed.append(Slot(anchor, tier, index))
    return found


def _least_asked(
    order: Sequence[str], groups: Mapping[str, Group], tiers_of: Callable[[str], Sequence[str]]
) -> Iterator[tuple[str, int, Sequence[str]]]:
    """(anchor, a fresh index, its tiers), the least asked first, by the stratified order among equals."""
    empty = Group()
    turns = [
        (len(groups.get(name, empty).slots()), place, groups.get(name, empty).beyond())
        for place, name in enumerate(order)
    ]
    heapq.heapify(turns)
    while turns:
        asked, place, index = heapq.heappop(turns)
        if fit := tiers_of(order[place]):
            yield order[place], index, fit
            heapq.heappush(turns, (asked + 1, place, index + 1))
