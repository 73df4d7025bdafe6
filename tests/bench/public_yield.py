"""What the offline writers give on the public catalog and rules: yield, variety, lengths, attempts, reasons, speed.

    TRACE_HOME=/some/folder python -m tests.bench.public_yield [--print 60] [--anchors 300] [--seed 1]

The home is filled once (import and neighbours of 8,323 tools, about two minutes). Prints one table: the 123 rules at
12 samples each, once as planned and once topped up as a second run would, and the RRB branch by tier.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOP_UPS = 2


@dataclass(slots=True)
class Made:
    """All outcomes of one branch, by rule code (or tier), with what the writers were asked for."""

    outcomes: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    skipped: dict[str, dict[str, str]] = field(default_factory=dict)
    short: dict[str, int] = field(default_factory=dict)
    first: int = 0
    seconds: float = 0.0

    @property
    def all(self) -> list[Any]:
        return [outcome for group in self.outcomes.values() for outcome in group]

    @property
    def ready(self) -> list[Any]:
        return [outcome for outcome in self.all if outcome.ready]

    @property
    def queries(self) -> list[str]:
        return [outcome.draft.query for outcome in self.ready]


def public_tools(data: Path) -> dict[str, Any]:
    from synthesis.core.queries import ToolText
    from trace_site.lib.files import read_jsonl

    rows = [row for slug in ("hr", "finance") for _, row in read_jsonl(data / "catalog" / f"{slug}.jsonl")]
    return {
        row["name"]: ToolText(row["name"], row["description"], tuple(row["permissions"]), row["deprecated"])
        for row in rows
    }


def public_rules(data: Path) -> list[Any]:
    from rules.core.rules_file import base_code
    from synthesis.core.queries import RuleText

    found, seen = [], Counter[str]()
    for entry in json.loads((data / "rules" / "rules.json").read_text("utf-8")):
        base = base_code(entry["tool_name"])
        seen[base] += 1
        code = f"{base}_{seen[base]}" if seen[base] > 1 else base
        confusables, domain = tuple(entry["confusables"]), entry["domain"].lower()
        text = entry["rule_text"]
        found.append(RuleText(code, 1, entry["tool_name"], confusables, text, (), code, domain))
    return found


def write_rules(
    rules: Iterable[Any],
    tools: dict[str, Any],
    neighbours: dict[str, list[str]],
    *,
    seed: int,
    per_rule: int = 12,
) -> Made:
    """The rule branch as a run plans it: an equal mix over the supported styles, then topped up."""
    from synthesis.core.clauses import reasons_unsupported
    from synthesis.core.queries import RULE_STYLES
    from synthesis.offline.writer import unsupported

    made, pipeline = Made(), _pipeline(tools)
    began = time.perf_counter()
    for turn in range(1 + TOP_UPS):
        for rule in rules:
            made.skipped[rule.code] = unsupported(rule, tools) | reasons_unsupported(rule, tools)
            styles = [style for style in RULE_STYLES if style not in made.skipped[rule.code]]
            for place, style in enumerate(styles):
                goal = per_rule // len(styles) + (place < per_rule % len(styles))
                mine = [one for one in made.outcomes[rule.code] if one.style == style]
                for index in range(len(mine), len(mine) + goal - sum(one.outcome.ready for one in mine)):
                    one = _Rule(style, _make(pipeline, rule, style, index, tools, neighbours, seed))
                    made.outcomes[rule.code].append(one)
        if not turn:
            made.seconds = time.perf_counter() - began
            ready = {code: sum(o.ready for o in group) for code, group in made.outcomes.items()}
            made.short = {code: count for code, count in ready.items() if count < per_rule}
            made.first = len(ready) - len(made.short)
    return made


@dataclass(frozen=True, slots=True)
class _Rule:
    style: str
    outcome: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.outcome, name)


def _pipeline(tools: dict[str, Any]) -> Any:
    from synthesis.core.filters import FilterContext
    from synthesis.core.names import ToolNames
    from synthesis.core.recipe import default_recipe
    from synthesis.generate.pipeline import Pipeline
    from synthesis.offline.writer import offline_writers

    dead = frozenset(name for name, tool in tools.items() if tool.deprecated)
    return Pipeline(offline_writers(default_recipe()), FilterContext(ToolNames(tools), dead))


def _make(
    pipeline: Any, rule: Any, style: str, index: int, tools: dict[str, Any], near: Any, seed: int
) -> Any:
    from synthesis.core.keys import sample_seed
    from synthesis.core.plan import shuffled_pool
    from synthesis.core.queries import QueryRequest
    from synthesis.generate.pipeline import Unit

    own = sample_seed(seed, rule.domain, rule.code, rule.version, style, index)
    names = shuffled_pool([name for name in rule.tools if name in tools], near, own)
    pool = tuple(tools[name] for name in names)
    request = QueryRequest("rule", rule.domain, pool, own, index, style=style, rule=rule)
    return asyncio.run(pipeline.make(Unit(0, request, 0.1)))


def write_anchors(tools: dict[str, Any], neighbours: dict[str, list[str]], *, seed: int, count: int) -> Made:
    """The RRB branch over `count` anchors that no look-alike is like, the tiers in turn."""
    from synthesis.core.keys import sample_seed
    from synthesis.core.plan import shuffled_pool
    from synthesis.core.queries import QueryRequest
    from synthesis.generate.pipeline import Unit
    from synthesis.offline.writer import askable_tiers

    made, pipeline = Made(), _pipeline(tools)
    alive = sorted(name for name, tool in tools.items() if not tool.deprecated and name in neighbours)
    began = time.perf_counter()
    for anchor in random.Random(seed).sample(alive, len(alive)):
        own = sample_seed(seed, anchor, 0)
        pool = tuple(tools[name] for name in shuffled_pool([anchor], neighbours, own))
        if len(made.all) == count:
            break
        if not (fit := askable_tiers(anchor, pool)):
            continue
        tier = min(fit, key=lambda tier: len(made.outcomes[tier]))
        request = QueryRequest("rrb", "finance", pool, own, 0, tier=tier, anchor=anchor)
        made.outcomes[tier].append(asyncio.run(pipeline.make(Unit(0, request, 0.1))))
    made.seconds = time.perf_counter() - began
    return made


def common_grams(queries: Sequence[str], size: int = 4, share: float = 0.02) -> tuple[float, list[Any]]:
    """The share of queries that hold a run of `size` words which more than `share` of all hold, and those runs."""
    from synthesis.core.words import words

    grams = [
        {
            said[i : i + size]
            for said in [tuple("#" if word.isdigit() else word for word in words(query))]
            for i in range(len(said) - size + 1)
        }
        for query in queries
    ]
    counts = Counter(gram for found in grams for gram in found)
    often = {gram for gram, n in counts.items() if n > share * len(queries)}
    hit = sum(bool(found & often) for found in grams) / max(1, len(queries))
    return hit, [(" ".join(gram), n) for gram, n in counts.most_common(5)]


def near_within(groups: Iterable[list[Any]], threshold: float = 0.8) -> float:
    """The mean over rules of the near-duplicate rate among the rule's own ready queries."""
    from tests.synthesis.variety import near_duplicate_rate

    rates = [near_duplicate_rate([o.draft.query for o in group if o.ready], threshold) for group in groups]
    return statistics.fmean(rates) if rates else 0.0


def openings(traces: Sequence[str]) -> tuple[float, float]:
    """Distinct first five words over traces; the share of the commonest opening."""
    firsts = Counter(" ".join(trace.split()[:5]) for trace in traces)
    return len(firsts) / max(1, len(traces)), firsts.most_common(1)[0][1] / max(
        1, len(traces)
    ) if firsts else 0.0


def table(made: Made, title: str, per_rule: int = 12) -> list[str]:
    """The figures of one branch as lines."""
    from synthesis.core.words import words
    from tests.synthesis.variety import distinct_2, near_duplicate_rate

    queries, ready = made.queries, made.ready
    lengths = sorted(len(words(query)) for query in queries)
    traces = [len(outcome.trace.split()) for outcome in ready]
    often, top = common_grams(queries)
    opened, commonest = openings([outcome.trace for outcome in ready])
    attempts = Counter(len(outcome.attempts) for outcome in made.all)
    speed = len(made.all) / max(0.01, made.seconds)
    return [
        f"{title}: {len(ready):,} of {len(made.all):,} planned samples ready, {made.seconds:.1f} s, "
        f"{speed:.0f} samples/s",
        f"  yield             {', '.join(f'{k} {v:.1%}' for k, v in _yields(made).items())}",
        f"  first attempt     {attempts[1] / max(1, len(made.all)):.1%}; attempts {dict(sorted(attempts.items()))}",
        f"  near-duplicates   {near_duplicate_rate(queries):.1%} overall, "
        f"{near_within(made.outcomes.values()):.1%} within a rule or tier; at 0.6: "
        f"{near_duplicate_rate(queries, 0.6):.1%}, {near_within(made.outcomes.values(), 0.6):.1%}",
        f"  distinct-2        {distinct_2(queries):.3f}",
        f"  query words       mean {statistics.fmean(lengths):.1f}, median {lengths[len(lengths) // 2]}; "
        f"{_spread(lengths)}",
        f"  common 4-grams    {often:.1%} of queries hold one that over 2 % share; top {top}",
        f"  trace words       mean {statistics.fmean(traces):.0f}, {min(traces)}..{max(traces)}; "
        f"first five words distinct {opened:.0%}, commonest {commonest:.1%}",
        f"  refused attempts  {_refused(made)}",
    ]


def _spread(lengths: Sequence[int]) -> str:
    """Shares of queries by number of words."""
    edges = ((5, "3-5"), (9, "6-9"), (15, "10-15"), (24, "16-24"), (999, "25+"))
    found = Counter(next(name for edge, name in edges if n <= edge) for n in lengths)
    return ", ".join(f"{name}: {found[name] / max(1, len(lengths)):.0%}" for _, name in edges)


def _refused(made: Made) -> dict[str, int]:
    """Attempts refused, by check of the filter (V), axis of the judge (J) and error."""
    reasons: Counter[str] = Counter()
    for outcome in made.all:
        for tried in outcome.attempts:
            reasons.update({f"V {failure.check}" for failure in tried.failures})
            reasons.update(f"J {axis}" for axis in tried.judge.get("failed", ()))
            reasons.update([tried.error_code] if tried.error_code else [])
    return dict(reasons.most_common())


def _yields(made: Made) -> dict[str, float]:
    counts: defaultdict[str, list[bool]] = defaultdict(list)
    for key, group in made.outcomes.items():
        for outcome in group:
            counts[getattr(outcome, "style", key)].append(outcome.ready)
    return {key: sum(found) / len(found) for key, found in counts.items()}


def rules_line(made: Made, per_rule: int = 12) -> list[str]:
    """How many rules reach the goal, and which do not."""
    total = len(made.outcomes)
    reached = sum(sum(o.ready for o in group) >= per_rule for group in made.outcomes.values())
    no_exception = sum("exception" in reasons for reasons in made.skipped.values())
    return [
        f"rules with {per_rule} ready: {made.first} of {total} as planned ({made.first / total:.1%}), "
        f"{reached} topped up ({reached / total:.1%}); {no_exception} support no exception query",
        f"  short as planned: {made.short}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", type=int, default=0, dest="shown")
    parser.add_argument("--anchors", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reasons", action="store_true", help="list the rules without exception queries")
    asked = parser.parse_args()
    tools, rules, neighbours = _home()
    made = write_rules(rules, tools, neighbours, seed=asked.seed)
    anchors = write_anchors(tools, neighbours, seed=asked.seed, count=asked.anchors)
    print("\n".join([*table(made, "rules"), *rules_line(made), *table(anchors, "RRB")]))
    if asked.reasons:
        for code, reasons in made.skipped.items():
            for style, reason in reasons.items():
                print(f"  {code}: no {style}: {reason}")
    _show(made, anchors, asked.shown)


def _home() -> tuple[dict[str, Any], list[Any], dict[str, list[str]]]:
    """Tools, rules and neighbours from the home's database, filled first where it is empty."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    from trace_site.dev.services import ensure_services

    ensure_services()
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from catalog.models import NeighbourList
    from synthesis.samples.sources import load_catalog

    call_command("migrate", verbosity=0)
    data = Path(settings.TRACE_PUBLIC_DATA)
    if not NeighbourList.objects.exists():
        for slug in ("hr", "finance"):
            call_command("catalog_import", str(data / "catalog" / f"{slug}.jsonl"), domain=slug)
        call_command("catalog_neighbours")
    return public_tools(data), public_rules(data), load_catalog().neighbours


def _show(made: Made, anchors: Made, count: int) -> None:
    """`count` queries, drawn evenly from styles and tiers, as a person would read them."""
    rng = random.Random(5)
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for code, group in made.outcomes.items():
        for outcome in group:
            groups[outcome.style].append((code, outcome))
    for tier, group in anchors.outcomes.items():
        groups[tier] += [(tier, outcome) for outcome in group]
    for name, rows in groups.items():
        ready = [row for row in rows if row[1].ready]
        for code, outcome in rng.sample(ready, min(len(ready), count // len(groups))):
            print(f"\n[{name}] {outcome.draft.query}\n    -> {', '.join(outcome.draft.answer)} ({code})")
            print(f"    {outcome.trace}")


if __name__ == "__main__":
    main()
