"""How many of the public rules are suggested by who has seen none of them, and how many suggestions are wanted.

    python -m bench.suggestions [--other] [--embeddings DIR] [--sample 50] [--data ../shared/data]

The suggester sees the catalog alone: names, descriptions, deprecation. The rules are split into halves by rule (seed 0;
rules that share a target or a pair stay together). What is tuned is tuned on the first half; `--other` measures the
other one, once. Rules with a deprecated tool are counted apart.

A suggestion matches a rule when it names the rule's target and one of its confusables (`directed`: the same target).
Nobody wrote down all rules that the catalog calls for, so precision is counted in the region that was labelled: of the
suggestions that hold a tool of a rule of this half, the share that match one. Those that match a rule of the other half
or a deprecation rule are right, and say nothing of this one: they are in neither count. `strict` counts them as wrong.
Raw precision is over all suggestions, whether somebody looked at their tools or not: a lower bound, and a loose one.

DIR holds ids.json and embeddings.npy as `python -m catalog.ml encode` writes them; without it the words alone are read.
"""

import argparse
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from catalog.core.neighbours import top_k
from rules.core.redirects import Described
from rules.core.suggestions import STRONG, Kind, Suggester, Suggestion

CUTS = (0.0, 0.4, 0.5, STRONG, 0.65, 0.7, 0.8)
SEED = 0
K = 13


@dataclass(frozen=True)
class Truth:
    """One public rule. `dead`: a tool of its set is deprecated."""

    target: str
    confusables: frozenset[str]
    dead: bool

    @property
    def tools(self) -> frozenset[str]:
        return self.confusables | {self.target}


def read(data: Path) -> tuple[dict[str, list[Described]], list[Truth]]:
    """The tools of each domain, and the rules."""
    domains: dict[str, list[Described]] = {}
    for path in sorted((data / "catalog").glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        domains[path.stem] = [Described(row["name"], row["description"], row["deprecated"]) for row in rows]
    dead = {tool.name for tools in domains.values() for tool in tools if tool.deprecated}
    rules = []
    for row in json.loads((data / "rules" / "rules.json").read_text("utf-8")):
        names = frozenset(row["confusables"])
        rules.append(Truth(row["tool_name"], names, bool((names | {row["tool_name"]}) & dead)))
    return domains, rules


def halves(rules: Sequence[Truth]) -> tuple[list[Truth], list[Truth]]:
    """By rule, of equal size; rules that share a target or a pair are in one half."""
    parent = list(range(len(rules)))

    def root(number: int) -> int:
        while parent[number] != number:
            number = parent[number]
        return number

    first: dict[Any, int] = {}
    for number, rule in enumerate(rules):
        for key in (rule.target, *(frozenset((rule.target, name)) for name in rule.confusables)):
            if key in first:
                parent[root(number)] = root(first[key])
            else:
                first[key] = number
    groups: dict[int, list[int]] = {}
    for number in range(len(rules)):
        groups.setdefault(root(number), []).append(number)
    order = sorted(groups.values())
    random.Random(SEED).shuffle(order)
    found: tuple[list[int], list[int]] = ([], [])
    for group in order:
        found[len(found[0]) > len(found[1])].extend(group)
    left, right = ([rules[number] for number in sorted(half)] for half in found)
    return left, right


def neighbours(folder: Path) -> dict[str, dict[str, float]]:
    ids = json.loads((folder / "ids.json").read_text())
    order = sorted(range(len(ids)), key=ids.__getitem__)
    rows = np.load(folder / "embeddings.npy").astype(np.float32)[order]
    names = [ids[place] for place in order]
    positions, cosines = top_k(rows, K)
    return {
        name: {names[other]: float(cosine) for other, cosine in zip(positions[n], cosines[n], strict=True)}
        for n, name in enumerate(names)
    }


def matches(one: Suggestion, rule: Truth, directed: bool = False) -> bool:
    if directed:
        return one.target == rule.target and not rule.confusables.isdisjoint(one.confusables)
    return rule.target in one.tools and not rule.confusables.isdisjoint(one.tools)


def share(part: int, whole: int) -> str:
    return f"{part:>4}/{whole:<4} {part / whole if whole else 0:>5.2f}"


def report(
    title: str,
    found: Sequence[Suggestion],
    rules: Sequence[Truth],
    others: Sequence[Truth],
    cuts: Iterable[float],
) -> None:
    """Recall and precision of the suggestions at or above each cut; `others` are right, but not asked about."""
    region = {name for rule in rules for name in rule.tools}
    print(f"\n{title}: {len(rules)} rules")
    print(
        "   cut  recall           directed         precision        strict           raw             tools each"
    )
    for cut in cuts:
        kept = [one for one in found if one.score >= cut]
        recalled = sum(any(matches(one, rule) for one in kept) for rule in rules)
        directed = sum(any(matches(one, rule, True) for one in kept) for rule in rules)
        near = [one for one in kept if not region.isdisjoint(one.tools)]
        hits = [one for one in near if any(matches(one, rule) for rule in rules)]
        known = [one for one in near if one not in hits and any(matches(one, rule) for rule in others)]
        size = sum(len(one.tools) for one in kept) / len(kept) if kept else 0
        print(
            f"  {cut:4.2f}  {share(recalled, len(rules))}  {share(directed, len(rules))}  "
            f"{share(len(hits), len(near) - len(known))}  {share(len(hits), len(near))}  "
            f"{share(len(hits), len(kept))}  {size:.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = os.environ.get("TRACE_PUBLIC_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--other", action="store_true", help="measure the half that nothing was tuned on")
    parser.add_argument("--sample", type=int, default=0, help="print so many suggestions that match no rule")
    options = parser.parse_args()
    domains, rules = read(options.data)
    near = neighbours(options.embeddings) if options.embeddings else {}
    started = time.process_time()
    found = [one for tools in domains.values() for one in Suggester(tools, near).suggestions()]
    found.sort(key=lambda one: (-one.score, one.target))
    count = sum(map(len, domains.values()))
    print(
        f"{count:,} tools: {len(found):,} suggestions in {time.process_time() - started:.1f} s of processor time"
    )
    print("by kind:", dict(Counter(one.kind for one in found)))
    dead = {tool.name for tools in domains.values() for tool in tools if tool.deprecated}
    alive = [one for one in found if one.kind != "deprecated" and dead.isdisjoint(one.tools)]
    half, rest = halves(rules)
    if options.other:
        half, rest = rest, half
    asked = [rule for rule in half if not rule.dead]
    others = [*rest, *(rule for rule in half if rule.dead)]
    name = "the other half" if options.other else "the first half"
    report(f"{name}, without deprecations", alive, asked, others, CUTS)
    for kind in get_args(Kind):
        report(f"{name}, {kind}", [one for one in alive if one.kind == kind], asked, others, (0.0, STRONG))
    buried = [one for one in found if one not in alive]
    report(
        f"{name}, deprecations", buried, [rule for rule in half if rule.dead], [*rest, *asked], (0.0, STRONG)
    )
    if options.sample:
        said = {tool.name: tool.description for tools in domains.values() for tool in tools}
        unmatched = [one for one in alive if not any(matches(one, rule) for rule in rules)]
        for number, one in enumerate(random.Random(SEED).sample(unmatched, options.sample), start=1):
            print(f"\n{number}. {one.kind} {one.score:.2f} {one.why}")
            for tool in one.tools[:3]:
                print(f"   {tool}: {said[tool][:300]}")


if __name__ == "__main__":
    main()
