"""Pools of look-alike tools (paper, appendix B).

P(r) = T(r) + union of H_K(t) over t in T(r); P(t) = {t} + H_K(t). Order would give the gold tool away, so every pool
is shuffled with a stored seed before a writer sees it.
"""

import random
from collections.abc import Mapping, Sequence


def rule_pool(tools: Sequence[str], neighbours: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """P(r), shuffled. `tools` is T(r)."""
    names = dict.fromkeys(tools)
    for tool in tools:
        names |= dict.fromkeys(neighbours.get(tool, ()))
    return _shuffled(list(names), seed)


def anchor_pool(anchor: str, neighbours: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """P(t), shuffled."""
    return rule_pool([anchor], neighbours, seed)


def stratified(groups: Mapping[str, Sequence[str]], count: int, seed: int) -> list[str]:
    """`count` names spread over the groups by their size, at least one from each while `count` allows."""
    rng = random.Random(seed)
    queues = {
        group: rng.sample(sorted(names), len(names)) for group, names in sorted(groups.items()) if names
    }
    total = sum(map(len, queues.values()))
    picked: list[str] = []
    # largest remainder by taking, each time, from the group that is furthest behind its share
    taken = dict.fromkeys(queues, 0)
    while queues and len(picked) < min(count, total):
        group = max(
            (g for g in queues if taken[g] < len(queues[g])),
            key=lambda g: (taken[g] == 0, len(queues[g]) / total * (len(picked) + 1) - taken[g], g),
        )
        picked.append(queues[group][taken[group]])
        taken[group] += 1
    return picked


def _shuffled(names: list[str], seed: int) -> list[str]:
    random.Random(seed).shuffle(names)
    return names
