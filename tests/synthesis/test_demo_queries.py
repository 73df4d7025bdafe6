"""The generated demo queries beside the golden ones, which people wrote before the writers existed: a report."""

import asyncio
import json
from collections import Counter
from dataclasses import replace

from django.conf import settings

from synthesis.core.clauses import reasons_unsupported
from synthesis.core.filters import FilterContext
from synthesis.core.names import ToolNames
from synthesis.core.queries import AXES, RULE_STYLES, Clause, QueryRequest, RuleText, ToolText
from synthesis.core.recipe import default_recipe
from synthesis.generate.pipeline import Pipeline, Unit
from synthesis.offline.writer import offline_writers
from tests.synthesis.variety import distinct_2, near_duplicate_rate, word_overlap
from trace_site.lib.files import read_jsonl

DEMO = settings.BASE_DIR / "trace_site" / "demo"


def demo_tools():
    rows = [row for slug in ("hr", "finance") for _, row in read_jsonl(DEMO / f"{slug}_tools.jsonl")]
    return {
        row["name"]: ToolText(row["name"], row["description"], tuple(row["permissions"]), row["deprecated"])
        for row in rows
    }


def demo_rules():
    for entry in json.loads((DEMO / "rules.json").read_text()):
        clauses = [
            Clause(c["when"], c["route_to"], c["exception"], tuple(c["signals"])) for c in entry["clauses"]
        ]
        yield RuleText(
            entry["code"],
            1,
            entry["tool_name"],
            tuple(entry["confusables"]),
            entry["rule_text"],
            tuple(clauses),
            entry["code"],
            entry["domain"],
        )


def generated(per_style=4):
    tools = demo_tools()
    dead = frozenset(name for name, tool in tools.items() if tool.deprecated)
    pipeline = Pipeline(offline_writers(default_recipe()), FilterContext(ToolNames(tools), dead))
    outcomes = []
    for rule in demo_rules():
        base = QueryRequest("rule", rule.domain, tuple(tools[name] for name in rule.tools), 0, 0, rule=rule)
        assert reasons_unsupported(rule, tools) == {}
        for style in RULE_STYLES:
            for index in range(per_style):
                seed = sum(map(ord, rule.code)) * 1000 + index
                request = replace(base, style=style, index=index, seed=seed)
                outcomes.append(asyncio.run(pipeline.make(Unit(0, request))))
    return outcomes


def test_generated_queries_are_many_sided_and_the_golden_ones_are_not_among_them(capsys):
    outcomes = generated()
    ready = [outcome for outcome in outcomes if outcome.ready]
    queries = [outcome.draft.query for outcome in ready]
    golden = [row["query"] for _, row in read_jsonl(DEMO / "prb.jsonl")]
    overlap = word_overlap(golden, queries)
    pairs, near = distinct_2(queries), near_duplicate_rate(queries)
    with capsys.disabled():
        print(
            f"\n{len(golden)} golden demo queries against {len(queries)} generated for the rules: "
            f"{overlap['words']:.0%} of their content words, {overlap['pairs']:.0%} of their word pairs occur there, "
            f"mean best similarity {overlap['best']:.2f}, near-duplicates {overlap['near']:.1%}; "
            f"generated: distinct-2 {pairs:.2f}, near-duplicates {near:.1%}, yield {len(ready) / len(outcomes):.1%}"
        )
    assert len(ready) >= 0.9 * len(outcomes)
    assert near <= 0.05
    assert pairs >= 0.25
    assert overlap["near"] <= 0.02
    scores = Counter(outcome.attempts[-1].judge[axis] for outcome in ready for axis in AXES)
    assert max(scores.values()) <= 0.6 * scores.total()
    lengths = [len(outcome.trace.split()) for outcome in ready]
    assert 40 <= sum(lengths) / len(lengths) <= 90
