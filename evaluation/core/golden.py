"""A rule's tests (golden queries) against what a model ranks.

In: the tools a test expects, and a model's ranked list. Out: whether it passes, where each expected tool stands, and
what came instead. A test passes when the first tools of the list, as many as are expected, are exactly those expected;
their order among themselves does not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

PASS_MEANING = "passes when the first tools of the ranked list are exactly the expected ones, in any order"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expected tool stands in the list, from 1; None: not in it."""

    name: str
    rank: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    query: str
    passed: bool
    expected: tuple[Place, ...]
    instead: tuple[str, ...]  # tools that stand in the first places without being expected
    listed: int  # length of the model's list


def judge(query: str, expected: Sequence[str], found: Sequence[str]) -> Verdict:
    """An expected tool named twice counts once; a test that expects nothing cannot pass."""
    wanted = tuple(dict.fromkeys(expected))
    first = found[: len(wanted)]
    ranks = {name: place for place, name in reversed(list(enumerate(found, start=1)))}
    return Verdict(
        query=query,
        passed=bool(wanted) and set(first) == set(wanted),
        expected=tuple(Place(name, ranks.get(name)) for name in wanted),
        instead=tuple(name for name in first if name not in wanted),
        listed=len(found),
    )
