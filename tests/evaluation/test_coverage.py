"""Coverage counts edges, not opinions: an edge is covered when one published rule's condition separates its tools."""

from itertools import combinations

from evaluation.core.coverage import (
    ClusterFacts,
    QueryGroups,
    RuleFacts,
    cover,
    pairs_outside,
    totals,
)

# a ring of five tools: five edges
RING = ClusterFacts(
    id=1,
    tools=frozenset({1, 2, 3, 4, 5}),
    edges=((1, 2, 0.9), (2, 3, 0.8), (3, 4, 0.8), (4, 5, 0.7), (1, 5, 0.8)),
    mean_similarity=0.8,
    chances=dict.fromkeys([(1, 2), (2, 3), (3, 4), (4, 5), (1, 5)], 0.01),
)
PAIR = ClusterFacts(2, frozenset({8, 9}), ((8, 9, 0.95),), 0.95, chances={(8, 9): 0.25})


def telling(number, tools, **fields):
    """A rule that tells every pair of its set apart."""
    return RuleFacts(number, tools, frozenset(combinations(sorted(tools), 2)), **fields)


def state(*rules, cluster=RING):
    return cover([cluster], rules)[0].state


def test_state_follows_edges_then_samples_then_the_champion():
    assert state() == "no_rule"
    assert state(telling(1, (1, 2), published=False)) == "draft"
    assert state(telling(1, (1, 2))) == "touched"
    assert state(telling(1, (1, 2, 3, 4), samples=10)) == "touched"  # 3 of 5 edges
    assert state(telling(1, (1, 2, 3, 4, 5), samples=9)) == "resolved"
    assert state(telling(1, (1, 2, 3, 4, 5), samples=10)) == "taught"
    assert state(telling(1, (1, 2, 3, 4, 5), samples=10, in_champion=True)) == "in_champion"


def test_rule_that_only_names_moves_no_pair():
    names_all = RuleFacts(1, (1, 2, 3, 4, 5), samples=10)
    row = cover([RING], [names_all])[0]
    assert (row.state, row.covered, len(row.named), row.naming) == ("named", (), 5, (1,))
    assert row.uncovered == row.named and row.is_gap
    assert state(names_all, telling(2, (8, 9), published=False)) == "named"


def test_rule_moves_exactly_the_pairs_it_tells_apart():
    one_of_three = RuleFacts(1, (1, 2, 3), frozenset({(2, 3)}))
    row = cover([RING], [one_of_three])[0]
    assert (row.state, row.covered, row.named) == ("touched", ((2, 3),), ((1, 2),))
    assert (row.rules, row.naming) == ((1,), (1,))
    both = cover([RING], [one_of_three, telling(2, (1, 2))])[0]
    assert (both.covered, both.named, both.naming) == (((1, 2), (2, 3)), (), ())
    counted = totals([row])
    assert (counted.edges_covered, counted.edges_named, counted.tools_covered) == (1, 1, 2)


def test_draft_tells_nothing_apart():
    assert cover([PAIR], [telling(1, (8, 9), published=False)])[0].covered == ()


def test_pair_has_no_order():
    turned = ClusterFacts(2, frozenset({8, 9}), ((9, 8, 0.9),), 0.9, chances={(9, 8): 0.25})
    assert cover([turned], [telling(1, (9, 8))])[0].covered == ((9, 8),)


def test_four_of_five_edges_resolve_a_cluster():
    assert state(telling(1, (1, 2, 3, 4)), telling(2, (1, 5))) == "resolved"


def test_every_covering_rule_must_be_taught():
    rules = telling(1, (1, 2, 3, 4), samples=20), telling(2, (1, 5), samples=3)
    assert state(*rules) == "resolved"


def test_two_rules_that_hold_one_end_each_cover_nothing():
    row = cover([PAIR], [telling(1, (8, 7)), telling(2, (9, 6))])[0]
    assert row.covered == () and row.state == "no_rule"


def test_pair_without_an_edge_covers_nothing():
    assert state(telling(1, (1, 3))) == "no_rule"


def test_dismissed_cluster_leaves_the_denominator_and_the_gaps():
    dismissed = ClusterFacts(3, frozenset({6, 7}), ((6, 7, 0.9),), 0.9, dismissed=True)
    rows = cover([RING, dismissed], [telling(1, (1, 2))])
    counted = totals(rows)
    assert (counted.clusters, counted.states["dismissed"], counted.states["touched"]) == (1, 1, 1)
    assert (counted.edges, counted.edges_covered, counted.tools, counted.tools_covered) == (5, 1, 5, 2)
    assert [row.is_gap for row in rows] == [True, False]


def test_rules_are_to_be_expected_over_uncovered_edges():
    rows = cover([RING, PAIR], [telling(1, (1, 2))])
    assert [(gap.cluster.id, round(gap.expected_rules, 3)) for gap in rows] == [(1, 0.04), (2, 0.25)]


def test_fully_covered_cluster_is_no_gap():
    assert not cover([PAIR], [telling(1, (8, 9))])[0].is_gap


def test_pairs_that_no_cluster_holds_are_listed_with_their_rule():
    rules = [
        telling(1, (1, 2, 8)),
        telling(2, (8, 9)),
        telling(3, (50, 51)),
        telling(4, (1, 8), published=False),
    ]
    found = pairs_outside(rules, {tool: cluster.id for cluster in (RING, PAIR) for tool in cluster.tools})
    assert [(row.rule, row.pairs, row.outside) for row in found] == [(1, 2, (8,)), (3, 1, (51,))]


def test_query_group_follows_the_edges_of_its_gold_tools():
    groups = QueryGroups.build(cover([RING, PAIR], [telling(1, (1, 2))]))
    assert groups.group([1]) == groups.group([1, 2]) == "covered"
    assert groups.group([3]) == groups.group([1, 3]) == groups.group([8]) == "uncovered"
    assert groups.group([77]) == groups.group([]) == "outside"
    assert groups.group([1, 77]) == "covered"
