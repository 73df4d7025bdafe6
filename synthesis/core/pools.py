"""Pools of look-alike tools (paper, appendix B).

P(r) = T(r) + union of H_K(t) over t in T(r); P(t) = {t} + H_K(t). Order would give the gold tool away, so every pool
is shuffled with a stored seed before a writer sees it.
"""

import random
from collections.abc import Iterable, Mapping, Sequence


def members(tools: Iterable[str], neighbours: Mapping[str, Sequence[str]]) -> set[str]:
    """P of the tools, as a set."""
    found = set(tools)
    for tool in list(found):
        found.update(neighbours.get(tool, ()))
    return found


def shuffled(names: Iterable[str], seed: int) -> list[str]:
    """An order that depends on the set and the seed alone, not on who is whose nearest."""
    ordered = sorted(names)
    random.Random(seed).shuffle(ordered)
    return ordered


def rule_pool(tools: Sequence[str], neighbours: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """P(r), shuffled. `tools` is T(r)."""
    return shuffled(members(tools, neighbours), seed)


def anchor_pool(anchor: str, neighbours: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """P(t), shuffled."""
    return rule_pool([anchor], neighbours, seed)
