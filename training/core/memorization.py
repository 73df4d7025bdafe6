"""Stage 1: what a model is taught of every tool, from a frozen snapshot to records.

In: a snapshot and a recipe. Out: three `Record`s a tool, five in the formats b and c. Paper: appendix "Multi-Format
Tool Memorization".

The reasoning of a reasoning memo (`mr`) is a few sentences before each answer, made from tool facts alone. The paper
names `mr` and prints no wording, so the three steps are ours: what is asked, which look-alikes stand near and what
tells them apart, commit. The name of the gold tool is never spelled out: that would teach name -> token instead of
description -> token.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from catalog.core.tokens import NameIndex, part_token, split_name
from catalog.core.words import stem, text_key
from synthesis.core.words import STOP, content_stems, words
from trace_site.lib.letters import sentence_end
from training.core.recipe import Recipe
from training.core.records import Part, Parts, Record, Snapshot, Units, with_empty_thinking

SENTENCE_END = sentence_end(r"\. |\n")
LOOK_ALIKES = 3
DIFFERENT_WORDS = 4
ASKED_LETTERS = 120
Near = Sequence[tuple[Units, dict[str, Any]]]  # a look-alike's tokens and its facts


def choosing(tool: dict[str, Any], gold: Units, near: Near) -> Parts:
    """From a description to a token: the tool's, its API's or its endpoint's."""
    asked: Parts = (f"The description asks for: {asked_for(tool['description'])}. ",)
    return (*asked, *_compared(tool, near), "So it is ", gold, ".")


def asked_for(description: str) -> str:
    """The first sentence, cut at a word when it is long."""
    first = SENTENCE_END.split(description.strip(), 1)[0].rstrip(". ")
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
    text, chosen = "", near[:LOOK_ALIKES]
    for units, other in chosen:
        different = own_words(other["description"], [tool["description"]])
        says = f"which is about {', '.join(different)}" if different else "which says no more"
        gone = " and is deprecated" if other["deprecated"] and not tool["deprecated"] else ""
        parts += [f"{text}; " if parts else "Near it stands ", units]
        text = f", {says}{gone}"
    if chosen:
        text += ". "
    if mine := own_words(tool["description"], [other["description"] for _, other in chosen]):
        text += f"Only here: {', '.join(mine)}. "
    return (*parts, text) if text else ()


SHORT_WORDS = 10


def stage1_records(snapshot: Snapshot, recipe: Recipe) -> list[Record]:
    """The memorization formats of every tool; `mr` puts a short reasoning before each answer."""
    catalog = Catalog(snapshot, recipe)
    records = [record for tool in snapshot.tools for record in catalog.records(tool)]
    if recipe.memo != "mr":
        return records
    reasoned = (replace(record, thinking=catalog.reason(record)) for record in records)
    return list(with_empty_thinking(reasoned, recipe))


class Catalog:
    """The tools of a snapshot and what stands near each of them."""

    def __init__(self, snapshot: Snapshot, recipe: Recipe) -> None:
        self.recipe = recipe
        self.tools = {tool["name"]: tool for tool in snapshot.tools}
        self.neighbours = snapshot.neighbours
        self.index = NameIndex(self.tools, recipe.format)
        self.texts = {name: text_key(tool["description"]) for name, tool in self.tools.items()}

    def units(self, name: str) -> Units:
        return Units(tuple(self.index.units[name]))

    def look_alikes(self, name: str) -> list[str]:
        """The nearest other active tools, nearest first. One that is described in the same words is left out: its
        token would be as right an answer as the tool's own."""
        near = (other for other in self.neighbours.get(name, ()) if other in self.tools)
        return [other for other in near if other != name and self.texts[other] != self.texts[name]]

    def records(self, tool: dict[str, Any]) -> Iterator[Record]:
        name, text = tool["name"], tool["description"]
        gold = self.units(name)
        yield Record("desc2token", (text,), (gold,), id=name)
        yield Record("token2desc", (gold,), (text,), id=name)
        yield Record("mcts", (text, *self._choices(name)), (gold,), id=name)
        if self.recipe.format in ("b", "c"):
            api, endpoint = (Units((part_token(part),)) for part in split_name(name))
            yield Record("desc2api", (text,), (api,), id=name)
            yield Record("api2endpoint", (text, "\n", api), (endpoint,), id=name)

    def _choices(self, name: str) -> Iterator[Part]:
        """The gold tool among its hard negatives, at a place drawn from the seed and its name alone."""
        names = [name, *self.look_alikes(name)[: self.recipe.mcts_negatives]]
        random.Random(f"{self.recipe.seed}:{name}").shuffle(names)
        for candidate in names:
            yield "\n"
            yield self.units(candidate)

    def reason(self, record: Record) -> Parts:
        """The thinking part of a Stage-1 record."""
        tool = self.tools[record.id]
        near: dict[Units, dict[str, Any]] = {}
        # the look-alikes a record is about, nearest first, each by its API's token, its endpoint's or all of them
        own_api, others = split_name(record.id)[0], self.look_alikes(record.id)
        for other in others[: self.recipe.mcts_negatives] if record.kind == "mcts" else others:
            api, endpoint = split_name(other)
            part = {"desc2api": api, "api2endpoint": endpoint}.get(record.kind)
            if part is None:
                near.setdefault(self.units(other), self.tools[other])
            elif (api == own_api) == (record.kind == "api2endpoint"):
                near.setdefault(Units((part_token(part),)), self.tools[other])
        if record.kind == "token2desc":
            parts = _compared(tool, list(near.items()))
            if not parts:
                return ("Nothing in the catalog stands near it.",)
            return (*parts[:-1], str(parts[-1]).rstrip())
        (gold,) = (part for part in record.answer if isinstance(part, Units))
        return choosing(tool, gold, list(near.items()))


def in_short(description: str) -> str:
    """Its first words up to a mark, without capitals; all of it where it begins with a mark."""
    words = re.split(r"[.;:(,\n]", description.strip(), maxsplit=1)[0].split()
    return " ".join(words[:SHORT_WORDS]).lower() or description
