"""The offline writers on the public rules: yield, variety, lengths and honest gaps, on a third of the rules.

Neighbours are told by shared words, cheaper than by embeddings.
"""

import asyncio
import json
import random
from collections import Counter, defaultdict

import pytest
from django.conf import settings

from rules.core.rules_file import base_code
from synthesis.core.clauses import cases, reasons_unsupported
from synthesis.core.filters import FilterContext
from synthesis.core.keys import sample_seed
from synthesis.core.names import ToolNames
from synthesis.core.plan import shuffled_pool
from synthesis.core.queries import RULE_STYLES, QueryRequest, RuleText, ToolText
from synthesis.core.recipe import default_recipe
from synthesis.core.words import content_stems, words
from synthesis.generate.pipeline import Pipeline, Unit
from synthesis.offline.writer import askable_tiers, offline_writers, unsupported
from tests.synthesis.variety import distinct_2, near_duplicate_rate
from trace_site.lib.files import read_jsonl

K = 13
TOP_UPS = 2


@pytest.fixture(scope="module")
def public():
    if not (settings.TRACE_PUBLIC_DATA / "rules" / "rules.json").exists():
        pytest.skip("the public data is absent (set TRACE_PUBLIC_DATA)")
    return public_tools(settings.TRACE_PUBLIC_DATA), public_rules(settings.TRACE_PUBLIC_DATA)


@pytest.fixture(scope="module")
def made(public):
    tools, rules = public
    some = rules[::3]
    near = neighbours_by_words(tools, {name for rule in some for name in rule.tools})
    written = write_rules(some, tools, near, seed=3)
    return written, write_anchors(tools, near, seed=3, count=45)


def neighbours_by_words(tools, wanted):
    """The K tools of the same service that share the largest part of their words, by name where equal."""
    services = {name.partition("/")[0] for name in wanted}
    stems = {
        name: content_stems(f"{tool.endpoint} {tool.description[:120]}")
        for name, tool in tools.items()
        if tool.api in services
    }
    by_service = defaultdict(list)
    for name in stems:
        by_service[name.partition("/")[0]].append(name)

    def overlap(one, other):
        return len(stems[one] & stems[other]) / max(1, len(stems[one] | stems[other]))

    return {
        name: sorted(
            (n for n in by_service[name.partition("/")[0]] if n != name), key=lambda n: (-overlap(name, n), n)
        )[:K]
        for name in sorted(wanted)
    }


def test_most_rules_get_their_samples_and_no_two_are_alike(made):
    written, _ = made
    full = [code for code, group in written.outcomes.items() if sum(o.ready for o in group) >= 12]
    assert len(full) >= 0.85 * len(written.outcomes), set(written.outcomes) - set(full)
    assert len(written.ready) >= 0.75 * len(written.all)
    assert near_duplicate_rate(written.queries) <= 0.05


def test_queries_vary_in_words_and_length(made):
    written, _ = made
    lengths = [len(words(query)) for query in written.queries]
    assert distinct_2(written.queries) >= 0.15
    assert 0.15 <= sum(n <= 9 for n in lengths) / len(lengths) <= 0.6
    assert max(lengths) <= 30


def test_explicit_says_most_of_the_condition_and_hints_are_asked_of_the_expert(made, public):
    tools, rules = public
    written, _ = made
    by_code = {rule.code: rule for rule in rules}
    shares = []
    for code, group in written.outcomes.items():
        main = content_stems(cases(by_code[code], tools)[0].clause.when)
        asked = [content_stems(one.draft.query) for one in group if one.ready and one.style == "explicit"]
        shares += [len(main & said) / len(main) for said in asked if main]
        assert "Type two requests" in written.skipped[code]["implicit"]
    assert sum(shares) / len(shares) >= 0.7


def test_exceptions_lead_to_live_confusables_and_each_gap_has_its_reason(made, public):
    tools, rules = public
    written, _ = made
    for code, group in written.outcomes.items():
        for outcome in group:
            if outcome.style == "exception" and outcome.ready:
                assert not tools[outcome.draft.answer[0]].deprecated, code
    gaps = {rule.code: reasons_unsupported(rule, tools) for rule in rules}
    dead = [rule for rule in rules if all(tools[name].deprecated for name in rule.confusables)]
    assert len(dead) == 66
    assert all(
        gaps[rule.code] == {"exception": "Every confusable is deprecated or retired."} for rule in dead
    )
    others = {code for code, reasons in gaps.items() if reasons} - {rule.code for rule in dead}
    assert len(others) <= 20, others


def test_traces_are_of_the_asked_length_and_open_differently(made):
    for branch in made:
        traces = [outcome.trace for outcome in branch.ready]
        lengths = [len(trace.split()) for trace in traces]
        assert 40 <= sum(lengths) / len(lengths) <= 85
        assert sum(30 <= n <= 115 for n in lengths) >= 0.95 * len(lengths)
        openings = Counter(" ".join(trace.split()[:5]) for trace in traces)
        assert openings.most_common(1)[0][1] <= 0.15 * len(traces)


def test_the_catalog_is_asked_for_one_thing_or_two(made):
    _, anchors = made
    assert len(anchors.ready) >= 0.5 * len(anchors.all) > 0
    sizes = {
        tier: {len(o.draft.answer) for o in group if o.ready}
        for tier, group in anchors.outcomes.items()
        if group
    }
    assert sizes == {"easy": {1}, "medium": {2}}


class Made:
    """All outcomes of one branch, by rule code or tier."""

    def __init__(self):
        self.outcomes = defaultdict(list)
        self.skipped = {}

    @property
    def all(self):
        return [outcome for group in self.outcomes.values() for outcome in group]

    @property
    def ready(self):
        return [outcome for outcome in self.all if outcome.ready]

    @property
    def queries(self):
        return [outcome.draft.query for outcome in self.ready]


class OfStyle:
    def __init__(self, style, outcome):
        self.style, self.outcome = style, outcome

    def __getattr__(self, name):
        return getattr(self.outcome, name)


def public_tools(data):
    rows = [row for slug in ("hr", "finance") for _, row in read_jsonl(data / "catalog" / f"{slug}.jsonl")]
    return {
        row["name"]: ToolText(row["name"], row["description"], tuple(row["permissions"]), row["deprecated"])
        for row in rows
    }


def public_rules(data):
    found, seen = [], Counter()
    for entry in json.loads((data / "rules" / "rules.json").read_text("utf-8")):
        base = base_code(entry["tool_name"])
        seen[base] += 1
        code = f"{base}_{seen[base]}" if seen[base] > 1 else base
        confusables, domain = tuple(entry["confusables"]), entry["domain"].lower()
        found.append(RuleText(code, 1, entry["tool_name"], confusables, entry["rule_text"], (), code, domain))
    return found


def write_rules(rules, tools, neighbours, *, seed, per_rule=12):
    """The rule branch as a run plans it: an equal mix over the supported styles, then topped up."""
    made, pipeline = Made(), pipeline_of(tools)
    for _ in range(1 + TOP_UPS):
        for rule in rules:
            made.skipped[rule.code] = unsupported(rule, tools) | reasons_unsupported(rule, tools)
            styles = [style for style in RULE_STYLES if style not in made.skipped[rule.code]]
            for place, style in enumerate(styles):
                goal = per_rule // len(styles) + (place < per_rule % len(styles))
                mine = [one for one in made.outcomes[rule.code] if one.style == style]
                for index in range(len(mine), len(mine) + goal - sum(one.ready for one in mine)):
                    own = sample_seed(seed, rule.domain, rule.code, rule.version, style, index)
                    names = shuffled_pool([name for name in rule.tools if name in tools], neighbours, own)
                    pool = tuple(tools[name] for name in names)
                    request = QueryRequest("rule", rule.domain, pool, own, index, style=style, rule=rule)
                    written = asyncio.run(pipeline.make(Unit(0, request, 0.1)))
                    made.outcomes[rule.code].append(OfStyle(style, written))
    return made


def write_anchors(tools, neighbours, *, seed, count):
    """The RRB branch over `count` anchors that no look-alike is like, the tiers in turn."""
    made, pipeline = Made(), pipeline_of(tools)
    alive = sorted(name for name, tool in tools.items() if not tool.deprecated and name in neighbours)
    for anchor in random.Random(seed).sample(alive, len(alive)):
        if len(made.all) == count:
            break
        own = sample_seed(seed, anchor, 0)
        pool = tuple(tools[name] for name in shuffled_pool([anchor], neighbours, own))
        if fit := askable_tiers(anchor, pool):
            tier = min(fit, key=lambda tier: len(made.outcomes[tier]))
            request = QueryRequest("rrb", "finance", pool, own, 0, tier=tier, anchor=anchor)
            made.outcomes[tier].append(asyncio.run(pipeline.make(Unit(0, request, 0.1))))
    return made


def pipeline_of(tools):
    dead = frozenset(name for name, tool in tools.items() if tool.deprecated)
    return Pipeline(offline_writers(default_recipe()), FilterContext(ToolNames(tools), dead))
