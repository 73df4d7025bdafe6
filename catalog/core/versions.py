"""What a new version of an API brings: which endpoints have a twin in its neighbour version, are new, or are gone.

In: tool names. Out: one step for every API that was asked about and has another version.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from catalog.core.tokens import split_name
from catalog.core.twins import api_family, newest_first, twin_key


@dataclass(frozen=True, slots=True)
class VersionStep:
    """`api` beside the version before it, or after it when there is none before. The lists hold tool names."""

    api: str
    other: str
    newer: bool
    twins: int
    new: tuple[str, ...]
    gone: tuple[str, ...]

    def __str__(self) -> str:
        twins = f"{self.twins} endpoint{' has' if self.twins == 1 else 's have'} a twin"
        here, there = len(self.new), len(self.gone)
        if self.newer:
            rest = f"{here} {_be(here)} new, {there} {_be(there)} gone"
        else:
            rest = f"{here} {_be(here)} only here, {there} only there"
        return f"{self.api} is {'a newer' if self.newer else 'an older'} version of {self.other}: {twins}, {rest}."


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def version_steps(apis: Iterable[str], names: Iterable[str]) -> list[VersionStep]:
    """A step for each of `apis` that `names`, the tools of their families, hold in another version too.

    The oldest version is told beside the next one only when that one was not asked about: one sentence a pair.
    """
    endpoints: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    families: dict[str, set[str]] = defaultdict(set)
    for name in names:
        api = split_name(name)[0]
        endpoints[api][twin_key(name)] = name
        families[api_family(api)[0]].add(api)
    steps = []
    asked = set(apis)
    for api in sorted(asked & endpoints.keys()):
        ordered = newest_first(families[api_family(api)[0]])
        place = ordered.index(api)
        older = ordered[place + 1 : place + 2]
        later = [other for other in ordered[:place][-1:] if other not in asked]
        for other in older or later:
            steps.append(_step(api, other, bool(older), endpoints[api], endpoints[other]))
    return steps


def _step(
    api: str, other: str, newer: bool, mine: dict[tuple[str, str], str], theirs: dict[tuple[str, str], str]
) -> VersionStep:
    new, gone = mine.keys() - theirs.keys(), theirs.keys() - mine.keys()
    return VersionStep(
        api,
        other,
        newer,
        len(mine.keys() & theirs.keys()),
        tuple(sorted(mine[key] for key in new)),
        tuple(sorted(theirs[key] for key in gone)),
    )
