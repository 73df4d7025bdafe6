"""The valid answers as a trie over token ids, for the three token formats alike.

In: tools in name order, each with its token ids. Out: nodes that know their children and how many tools lie below.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Node:
    children: dict[int, "Node"] = field(default_factory=dict)  # in the order of the first tool below
    tool: int = -1  # position of the tool this node completes, -1 inside
    size: int = 0  # tools at or below this node
    ids: Ids = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    # of the children, -1 where inside
    tools: Ids = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def leaf(self) -> bool:
        return self.tool >= 0

    @property
    def above_leaves(self) -> bool:
        return bool(len(self.tools)) and bool(self.tools[0] >= 0)


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Tools that must not be answered, and how many of them lie at or below each node, by the node's id."""

    tools: frozenset[int] = frozenset()
    below: Mapping[int, int] = field(default_factory=dict)
    flags: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))  # of every tool

    def hides(self, node: Node) -> bool:
        return self.below.get(id(node), 0) >= node.size


def mask(root: Node, sequences: Mapping[int, Sequence[int]]) -> Mask:
    """Of the tools by their positions, each with its token ids."""
    below: Counter[int] = Counter()
    for sequence in sequences.values():
        node = root
        below[id(node)] += 1
        for token in sequence:
            node = node.children[token]
            below[id(node)] += 1
    flags = np.zeros(root.size, dtype=bool)
    flags[list(sequences)] = True
    return Mask(frozenset(sequences), dict(below), flags)


def build(sequences: Sequence[Sequence[int]]) -> Node:
    """The tools of one token format: sequence i becomes leaf i, all are equally long."""
    root = build_any(sequences)
    _freeze(root)
    return root


def build_any(sequences: Sequence[Sequence[int]]) -> Node:
    """Sequence i becomes leaf i. No sequence may be the start of another."""
    root = Node()
    for number, sequence in enumerate(sequences):
        node = root
        node.size += 1
        for token in sequence:
            assert not node.leaf, "one sequence starts with another"
            node = node.children.setdefault(token, Node())
            node.size += 1
        assert not node.children and not node.leaf, "two sequences are equal or one starts with another"
        node.tool = number
    return root


def common_start(root: Node) -> tuple[list[int], Node]:
    """The tokens every sequence starts with, and the node behind them, which is never a leaf."""
    path: list[int] = []
    node = root
    while len(node.children) == 1 and not node.above_leaves:
        token, node = next(iter(node.children.items()))
        path.append(token)
    return path, node


def _freeze(node: Node) -> None:
    node.ids = np.fromiter(node.children, dtype=np.int64, count=len(node.children))
    node.tools = np.array([child.tool for child in node.children.values()], dtype=np.int64)
    assert len({child.leaf for child in node.children.values()}) < 2, (
        "sequences of one format are equally long"
    )
    for child in node.children.values():
        _freeze(child)


def leaves(node: Node) -> list[int]:
    """The sequences that end at or below a node."""
    if node.leaf:
        return [node.tool]
    return [number for child in node.children.values() for number in leaves(child)]
