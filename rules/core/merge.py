"""Two people changed one draft: theirs was saved first, mine goes on top of it.

In: what both began from, mine, theirs. Out: both people's changes; where both changed the same place, mine, and how
many such places there are. Texts merge word by word, lists item by item.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trace_site.lib.files import content_hash
from trace_site.lib.worddiff import opcodes

WORD = re.compile(r"\s*\S+|\s+$")  # a word with the blanks before it


@dataclass(frozen=True, slots=True)
class Merged:
    content: dict[str, Any]
    overlaps: int  # places that both changed, where mine was kept


@dataclass(frozen=True, slots=True)
class _Hunk:
    """base[start:end] became `items`."""

    start: int
    end: int
    items: list[str]


def merge_contents(base: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any]) -> Merged:
    """Contents {target, confusables, text, clauses, tests}; missing fields count as empty."""
    content: dict[str, Any] = {}
    overlaps = 0
    old, ours, new = (one.get("target", "") for one in (base, mine, theirs))
    content["target"] = new if ours == old else ours
    overlaps += ours != old != new != ours
    for name in ("confusables", "clauses", "tests"):
        merged, over = _merge_lists(*(one.get(name, []) for one in (base, mine, theirs)))
        content[name] = merged
        overlaps += over
    content["confusables"] = list(dict.fromkeys(n for n in content["confusables"] if n != content["target"]))
    texts = [WORD.findall(one.get("text", "")) for one in (base, mine, theirs)]
    words, over = merge_sequences(*texts)
    content["text"] = "".join(words)
    return Merged(content, overlaps + over)


def merge_sequences(base: Sequence[str], mine: Sequence[str], theirs: Sequence[str]) -> tuple[list[str], int]:
    """Both sides' changes of `base`, and how many places both changed differently; there mine is kept.

    What both only added at one place is no such place: it all stays, mine first.
    """
    ours, others = _hunks(base, mine), _hunks(base, theirs)
    merged: list[str] = []
    overlaps = at = 0
    for start, end in _regions(ours + others):
        my_part, their_part = (_applied(base, start, end, hunks) for hunks in (ours, others))
        untouched = list(base[start:end])
        merged += base[at:start]
        merged += their_part if my_part == untouched else my_part
        if untouched != my_part != their_part != untouched:
            merged += [] if untouched else their_part
            overlaps += bool(untouched)
        at = end
    return merged + list(base[at:]), overlaps


def _merge_lists(base: Sequence[Any], mine: Sequence[Any], theirs: Sequence[Any]) -> tuple[list[Any], int]:
    """Items are compared by what they say; an item that either side added is kept, also where both changed."""
    items = {content_hash([item]): item for item in (*base, *mine, *theirs)}
    keys = [[content_hash([item]) for item in side] for side in (base, mine, theirs)]
    merged, overlaps = merge_sequences(*keys)
    lost = [key for key in keys[2] if key not in merged and key not in keys[0]]
    return [items[key] for key in dict.fromkeys([*merged, *lost])], overlaps


def _hunks(base: Sequence[str], side: Sequence[str]) -> list[_Hunk]:
    """Words are compared without their blanks, which are changes of their own."""
    found: list[_Hunk] = []
    for kind, a, b, c, d in opcodes([word.strip() for word in base], [word.strip() for word in side]):
        if kind != "equal":
            found.append(_Hunk(a, b, list(side[c:d])))
        else:
            pairs = zip(range(a, b), range(c, d), strict=True)
            found += [_Hunk(i, i + 1, [side[j]]) for i, j in pairs if base[i] != side[j]]
    return found


def _regions(hunks: Sequence[_Hunk]) -> list[tuple[int, int]]:
    """The places of `base` that change; hunks that touch share one."""
    spans = sorted((hunk.start, hunk.end) for hunk in hunks)
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _applied(base: Sequence[str], start: int, end: int, hunks: Sequence[_Hunk]) -> list[str]:
    """base[start:end] with one side's hunks of that region."""
    result: list[str] = []
    at = start
    for hunk in hunks:
        if start <= hunk.start and hunk.end <= end:
            result += [*base[at : hunk.start], *hunk.items]
            at = hunk.end
    return result + list(base[at:end])
