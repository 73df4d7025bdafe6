"""Versions of one API: `AdyenPayoutV51` and `AdyenPayoutV68` are one family, and their equal endpoints are twins.

In: API names and tool names. Out: family and version of an API, and which tools are twins of which, newest first.
A number belongs to a version only behind a V (`V68`, `-v1.2`, `V1beta1`) or as a date (`2024-01-01`): the numbers
in `OAuth2`, `Office365` and `IPv6` are part of the name.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from catalog.core.tokens import split_name

DATE = r"(?:19|20)[0-9]{2}([-_.]?)(?:0[1-9]|1[0-2])\%d(?:0[1-9]|[12][0-9]|3[01])(?![0-9])"
STAGE = r"(?i:[-_.]?(?:alpha|beta|rc|preview)[-_.]?[0-9]*)"
MARK = r"(?:V|(?<![a-z])v)(?<![iI][pP]v)(?<!I[pP]V)[-_.]?"  # a v inside a word (`Dev2`) starts no version
NUMBER = r"[0-9]{1,18}(?:[._-][0-9]+)*"
SUFFIX = re.compile(rf"[-_. ]*(?:{MARK}(?:{DATE % 1}|{NUMBER})|(?<![0-9]){DATE % 2})(?:{STAGE})?$")


def api_family(api: str) -> tuple[str, int | None]:
    """`AdyenPayoutV68` -> ("AdyenPayout", 68); a date gives yyyymmdd, `V1_2` its major number, no version None."""
    found = SUFFIX.search(api)
    if not found or not found.start():
        return api, None
    date = re.search(rf"(?<![0-9]){DATE % 1}", found[0])
    if date:
        return api[: found.start()], int(re.sub(r"[-_.]", "", date[0]))
    number = re.search(r"[0-9]+", found[0])
    return api[: found.start()], int(number[0]) if number else None


def twin_key(name: str) -> tuple[str, str]:
    """What the twins among tools share: family, and endpoint without the number of its own API's version."""
    api, endpoint = split_name(name)
    family, version = api_family(api)
    if version is not None:
        endpoint = re.sub(rf"(?<![iI][pP])[vV]{version}(?![0-9a-z])", "V", endpoint)
    return family, endpoint


def newest_first(names: Iterable[str]) -> list[str]:
    """Sorted by version, highest first; a final version before its previews, no version at all last."""
    return sorted(sorted(names), key=_age, reverse=True)


def _age(name: str) -> tuple[int, list[int], bool]:
    api = name.partition("/")[0]
    family, version = api_family(api)
    suffix = api[len(family) :]
    final, _, stage = re.sub(STAGE, " \\g<0>", suffix, flags=re.IGNORECASE).partition(" ")
    numbers = [int(number) for number in re.findall("[0-9]+", final)]
    return -1 if version is None else version, numbers, not stage


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
        new = f"{len(self.new)} {'is' if len(self.new) == 1 else 'are'}"
        gone = f"{len(self.gone)} {'is' if len(self.gone) == 1 else 'are'}"
        age = "a newer" if self.newer else "an older"
        rest = f"{new} new, {gone} gone" if self.newer else f"{new} only here, {len(self.gone)} only there"
        return f"{self.api} is {age} version of {self.other}: {twins}, {rest}."


def version_steps(apis: Iterable[str], names: Iterable[str]) -> list[VersionStep]:
    """What a new version of an API brings: a step for each of `apis` that `names`, the tools of their families, hold in
    another version too.

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
            mine, theirs = endpoints[api], endpoints[other]
            both = mine.keys() & theirs.keys()
            new = tuple(sorted(mine[key] for key in mine.keys() - both))
            gone = tuple(sorted(theirs[key] for key in theirs.keys() - both))
            steps.append(VersionStep(api, other, bool(older), len(both), new, gone))
    return steps
