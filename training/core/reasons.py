"""The reasoning of a reasoning memo (`mr`): a few sentences before each Stage-1 answer, made from tool facts alone.

In: a tool, its look-alikes, what a record asks. Out: parts, look-alikes named by their tokens. The paper names `mr`
and prints no wording, so the three steps are ours: what is asked, which look-alikes stand near and what tells them
apart, commit. The name of the gold tool is never spelled out: that would teach name -> token instead of
description -> token.
"""

from collections.abc import Sequence
from typing import Any

from synthesis.core.words import STOP, content_stems, stem, words
from training.core.parts import Part, Parts, Units

LOOK_ALIKES = 3
DIFFERENT_WORDS = 4
ASKED_LETTERS = 120
Near = Sequence[tuple[Units, dict[str, Any]]]  # a look-alike's tokens and its facts


def choosing(tool: dict[str, Any], gold: Units, near: Near) -> Parts:
    """From a description to a token: the tool's, its API's or its endpoint's."""
    asked: Parts = (f"The description asks for: {asked_for(tool['description'])}. ",)
    return (*asked, *_compared(tool, near), "So it is ", gold, ".")


def describing(tool: dict[str, Any], near: Near) -> Parts:
    """From a token to its description."""
    parts = _compared(tool, near)
    return (*parts[:-1], str(parts[-1]).rstrip()) if parts else ("Nothing in the catalog stands near it.",)


def without_a_rule(asked: str, gold: Units, near: Sequence[Units]) -> Parts:
    """From a request, `asked` of it in words, to a tool of which no rule speaks; `near`: its look-alikes, nearest
    first."""
    others = [
        part for number, units in enumerate(near) for part in (" and " if number else ", before ", units)
    ]
    return (
        f"'{asked}' is asked. Nearest is ",
        gold,
        *others,
        ". No rule speaks of them. So it is ",
        gold,
        ".",
    )


def asked_for(description: str) -> str:
    """The first sentence, cut at a word when it is long."""
    first = description.strip().split(". ")[0].split("\n")[0].rstrip(". ")
    if len(first) <= ASKED_LETTERS:
        return first
    return first[:ASKED_LETTERS].rsplit(" ", 1)[0]


def own_words(text: str, others: Sequence[str]) -> list[str]:
    """The first words of a text, in its order, that none of the others holds in any form."""
    known = frozenset[str]().union(*map(content_stems, others))
    found: dict[str, str] = {}
    for word in words(text):
        if word not in STOP and stem(word) not in known:
            found.setdefault(stem(word), word)
    return list(found.values())[:DIFFERENT_WORDS]


def _compared(tool: dict[str, Any], near: Near) -> Parts:
    """Each look-alike with what only it says, then what only this tool says."""
    parts: list[Part] = []
    chosen = near[:LOOK_ALIKES]
    for number, (units, other) in enumerate(chosen):
        parts += ["; " if number else "Near it stands ", units, f", {_told_apart(other, tool)}"]
    if chosen:
        parts.append(". ")
    if mine := own_words(tool["description"], [other["description"] for _, other in chosen]):
        parts.append(f"Only here: {', '.join(mine)}. ")
    return _joined(parts)


def _told_apart(other: dict[str, Any], tool: dict[str, Any]) -> str:
    different = own_words(other["description"], [tool["description"]])
    says = f"which is about {', '.join(different)}" if different else "which says no more"
    return f"{says} and is deprecated" if other["deprecated"] and not tool["deprecated"] else says


def _joined(parts: Sequence[Part]) -> Parts:
    """Neighbouring texts as one part, so that they are tokenized as one."""
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)
