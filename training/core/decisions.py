"""What the pocket model learns: of every text which tools it asks for, and which clause of a rule says so.

In: a snapshot and a recipe. Out: `Decision`s. A sample's trace becomes a decision: the clauses of its rule that lead to
its answer, or none for a sample of no rule. Stage 1 are the paper's memorization formats as choices among tools.

Where a trace is learned (`r`, `r+R`), so is what it begins with: the request in other words, which asks for the same.
Stage 1 has no traces, so `mr` trains the weights of `m`; `c` has the tokens of `b` between two that are the same for
every tool, and trains the weights of `b`.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from catalog.core.tokens import split_name
from training.core.memorization import Catalog, in_short
from training.core.recipe import PLAIN, Recipe
from training.core.records import Snapshot, chosen_samples


@dataclass(frozen=True, slots=True)
class Decision:
    """`tools`: names, each as right as the others; with `together` their sum is. `clauses`: tokens of which one speaks;
    none: no rule does. `among`: the tools that are chosen from; none: all. `weighs`: whether the clauses of rules stand
    beside the tools. `counts`: whether as many tools are asked for as are given. `composed`: by the
    offline writer, of the words of descriptions and clauses: rows learn from it, the encoder does not."""

    text: str
    tools: tuple[str, ...]
    clauses: tuple[str, ...] = ()
    among: tuple[str, ...] = ()
    together: bool = False
    weighs: bool = False
    counts: bool = False
    composed: bool = False


def memorized(snapshot: Snapshot, recipe: Recipe) -> list[Decision]:
    """Stage 1 (paper, appendix "Multi-Format Tool Memorization"): description to tool, the tool among its
    look-alikes; in the formats b and c also its API, and its endpoint within the API. The way back, from a token to its
    description, is the same product of a row and a reading."""
    catalog = Catalog(snapshot, recipe)
    apis: defaultdict[str, list[str]] = defaultdict(list)
    for name in catalog.tools:
        apis[split_name(name)[0]].append(name)
    found = []
    for name, tool in catalog.tools.items():
        text, own = tool["description"], tuple(apis[split_name(name)[0]])
        near = (name, *catalog.look_alikes(name)[: recipe.mcts_negatives])
        found += [Decision(text, (name,)), Decision(text, (name,), among=near)]
        if recipe.format != "a":
            found += [Decision(text, own, together=True), Decision(text, (name,), among=own)]
    return found


def retrieved(snapshot: Snapshot, recipe: Recipe) -> list[Decision]:
    """Stage 2: requests to tools, with the samples of rules (`r+R`) to the clause that decides and its tools."""
    ruled, traced = recipe.with_rules, recipe.retrieval not in PLAIN
    return [
        Decision(
            text,
            tuple(sample["answer"]),
            snapshot.decisive_clauses(sample) if ruled else (),
            weighs=ruled,
            counts=True,
            composed=sample["writer"] == "offline" and sample["branch"] != "imported",
        )
        for sample in chosen_samples(snapshot, recipe)
        for text in (sample["query"], *(restated(sample) if traced else ()))
    ]


def restated(sample: dict[str, Any]) -> list[str]:
    """The first sentence of a trace, unless it names what it should lead to: a trace restates the intent, then compares
    (synthesis/core/queries.py)."""
    first = re.split(r"(?<=[.;:?!])\s", (sample.get("trace") or "").strip(), maxsplit=1)[0]
    return [first] if first and not any(name in first for name in sample["answer"]) else []


def reread(snapshot: Snapshot, recipe: Recipe) -> list[Decision]:
    """Every tool's description as a request for it, whole and as short as people ask, so that none is forgotten."""
    texts = ((tool["name"], tool["description"]) for tool in snapshot.tools) if recipe.replay else ()
    return [
        Decision(text, (name,), weighs=recipe.with_rules)
        for name, description in texts
        for text in dict.fromkeys((description, in_short(description)))
    ]
