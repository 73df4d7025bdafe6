"""The offline writers on the public rules: yield, variety, lengths and honest gaps, on a third of the rules.

Neighbours are told by shared words here, cheaper than by embeddings; `python -m tests.bench.public_yield` measures all
rules with the real ones.
"""

from collections import defaultdict

import pytest
from django.conf import settings

from synthesis.core.clauses import cases, reasons_unsupported
from synthesis.core.words import content_stems, words
from tests.bench.public_yield import (
    openings,
    public_rules,
    public_tools,
    write_anchors,
    write_rules,
)
from tests.synthesis.variety import distinct_2, near_duplicate_rate

K = 13


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
        assert openings(traces)[1] <= 0.15


def test_the_catalog_is_asked_for_one_thing_or_two(made):
    _, anchors = made
    assert len(anchors.ready) >= 0.5 * len(anchors.all) > 0
    sizes = {
        tier: {len(o.draft.answer) for o in group if o.ready}
        for tier, group in anchors.outcomes.items()
        if group
    }
    assert sizes == {"easy": {1}, "medium": {2}}
