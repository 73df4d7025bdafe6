"""Names of clusters: what their tools have in common, then what tells them apart.

In: the tools of each cluster of a domain. Out: one label a cluster, no two alike: `capture payment: AcmeCheckout V72 ·
AcmePayment V68`. A word stands before the colon only when every tool's endpoint has it; `v1` and `v2`, or the words
that only some of the endpoints have, stand behind it; where nothing but the spelling differs, the endpoints do.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from catalog.core.operations import ACTIONS, VERSION
from catalog.core.tokens import split_name
from catalog.core.twins import api_family
from catalog.core.words import join_words, name_words, stem

SHOWN = 3  # of what tells them apart
LONGEST = 200
METHOD = frozenset({"get", "post", "put", "patch", "delete"})


def cluster_labels(clusters: Sequence[Sequence[str]]) -> list[str]:
    """In the order given. Labels that would be equal name their APIs too, then a tool that only one of them holds."""
    found = [_label(tools, False) for tools in clusters]
    for widen in (lambda tools: _label(tools, True), _with_a_tool):
        often = Counter(found)
        found = [
            label if often[label] == 1 else widen(tools) for label, tools in zip(found, clusters, strict=True)
        ]
    return found


def _with_a_tool(tools: Sequence[str]) -> str:
    own = f", with {min(tools)}"[:LONGEST]
    return _label(tools, True)[: LONGEST - len(own)] + own


def _label(tools: Sequence[str], with_apis: bool) -> str:
    rows = [_stems(split_name(name)[1]) for name in tools]
    shared = set(rows[0]).intersection(*rows[1:])
    first = min(range(len(rows)), key=lambda place: (len(rows[place]), tools[place]))
    common = [word for key, word in rows[first].items() if key in shared]
    if common and common[0] in METHOD and len(common) > 1 and common[1] in METHOD:
        common = common[1:]
    apis, rests = _apis(tools), _rests(rows, shared)
    several = len({split_name(name)[0] for name in tools}) > 1
    apart = _listed(apis) if several or with_apis else ""
    rest = _listed(rests) if len(apis) == 1 or not common or with_apis else ""
    only_verbs = set(common) <= METHOD or (len(apis) > 1 and all(stem(word) in ACTIONS for word in common))
    if only_verbs and rests:
        common = [*common, _listed(rests, " or ")]
        rest = ""
    behind = "; ".join(part for part in (rest, apart) if part)
    if not behind and not rests:
        behind = _listed(sorted({split_name(name)[1] for name in tools}))
    return f"{join_words(common)}: {behind}"[:LONGEST] if behind else join_words(common)[:LONGEST]


def _stems(endpoint: str) -> dict[str, str]:
    """{stem: word as it is written}, in order; a number of a version counts as a word."""
    words = name_words(re.sub(r"(?<=[vV][0-9])\.(?=[0-9])", "_", endpoint))
    return {word if VERSION.fullmatch(word) else stem(word): word for word in words}


def _rests(rows: Sequence[dict[str, str]], shared: set[str]) -> list[str]:
    """What each endpoint says beyond the shared words, the commonest first; nothing is left out as "the rest"."""
    said = Counter(join_words(word for key, word in row.items() if key not in shared) for row in rows)
    return sorted((rest for rest in said if rest), key=lambda rest: (-said[rest], rest))


def _apis(tools: Sequence[str]) -> list[str]:
    """`AcmePay V1 and V2`: every API family with its versions."""
    families: dict[str, list[str]] = {}
    for api in sorted(
        {split_name(name)[0] for name in tools}, key=lambda api: (api_family(api)[0], api_family(api)[1] or 0)
    ):
        family = api_family(api)[0]
        families.setdefault(family, []).append(api[len(family) :].lstrip("-_. "))
    return [_versions(family, versions) for family, versions in families.items()]


def _versions(family: str, versions: Sequence[str]) -> str:
    if len(versions) > 1 and not versions[0]:
        return f"{family} and {_versions(family, versions[1:])}"
    if len(versions) > 2:
        return f"{family} {versions[0]} to {versions[-1]}"
    return f"{family} {' and '.join(versions)}".rstrip()


def _listed(parts: Iterable[str], mark: str = " · ") -> str:
    """All of them where only one would be left out."""
    parts = list(parts)
    if len(parts) <= SHOWN + 1:
        return mark.join(parts)
    return f"{mark.join(parts[:SHOWN])} and {len(parts) - SHOWN} more"
