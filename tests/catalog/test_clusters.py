"""Clusters: deterministic, bounded, said in words, frozen as versions."""

import random
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.clusters import MAX_OPERATIONS, MAX_SIZE, FoundCluster, find_clusters
from catalog.core.edges import FLOOR, Edge, Graph, Signals, ToolText, operations, say, summary
from catalog.core.labels import cluster_labels
from catalog.lookalikes import cluster_dismiss, cluster_restore, clusters_update
from catalog.models import Cluster, Clustering, LabelledQuery, NeighbourList, Tool
from catalog.selectors import pair_reasons
from tests.factories import make_cluster, make_tool
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError

NODES = [f"A{number % 4}V{number // 4}/do{number % 4}" for number in range(120)]
APART = st.lists(
    st.tuples(st.integers(0, 59), st.integers(0, 59), st.sampled_from([1, 2, 3])).filter(
        lambda edge: edge[0] < edge[1]
    ),
    unique_by=lambda edge: edge[:2],
    max_size=150,
)


def edge(left: str, right: str, rank: int = 1) -> Edge:
    return Edge(left, right, Signals(cosine=0.9, ranks=(rank, rank), operation=True))


@given(APART, st.randoms(use_true_random=False))
def test_clusters_do_not_depend_on_the_order_of_edges(
    drawn: list[tuple[int, int, int]], shuffler: random.Random
) -> None:
    names = [f"A/n{number:02}" for number in range(60)]
    edges = [edge(names[a], names[b], rank) for a, b, rank in drawn]
    mixed = list(edges)
    shuffler.shuffle(mixed)
    shuffler.shuffle(names)
    assert find_clusters(edges, operations(sorted(names))) == find_clusters(mixed, operations(names))


@given(APART)
def test_clusters_are_disjoint_bounded_and_joined_by_their_edges(drawn: list[tuple[int, int, int]]) -> None:
    names = [f"A/n{number:02}" for number in range(60)]
    clusters = find_clusters([edge(names[a], names[b], rank) for a, b, rank in drawn], operations(names))
    tools = [name for cluster in clusters for name in cluster.tools]
    assert len(tools) == len(set(tools))
    for cluster in clusters:
        assert 2 <= len(cluster.tools) <= MAX_OPERATIONS
        reached, waiting = set(), [cluster.tools[0]]
        while waiting:
            reached.add(one := waiting.pop())
            ends = [{e.left, e.right} for e in cluster.edges if one in (e.left, e.right)]
            waiting += [name for pair in ends for name in pair - reached]
        assert reached == set(cluster.tools)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.booleans())
def test_no_number_of_versions_passes_the_limit_and_none_is_lost(counts: list[int], joined: bool) -> None:
    names = [
        f"Api{place}V{version}/do" for place, many in enumerate(counts) for version in range(1, many + 1)
    ]
    known = operations(names)
    first = sorted(known.versions)
    clusters = find_clusters([edge(a, b) for a, b in combinations(first, 2)] if joined else [], known)
    assert all(2 <= len(cluster.tools) <= MAX_SIZE for cluster in clusters)
    held = {name for cluster in clusters for name in cluster.tools}
    # of the versions of one operation at most one is alone: the last of those that found no room
    for ordered in known.versions.values():
        assert len([name for name in ordered if name not in held]) <= 1


def test_newest_versions_keep_their_look_alikes_and_the_oldest_make_room() -> None:
    names = [f"CheckoutV{number}/cancel" for number in range(1, 21)]
    names += [f"PaymentV{number}/cancel" for number in range(1, 12)]
    joined, rest = find_clusters([edge("CheckoutV20/cancel", "PaymentV11/cancel")], operations(names))
    assert len(joined.tools) == MAX_SIZE and {"CheckoutV20/cancel", "PaymentV11/cancel"} <= set(joined.tools)
    assert rest.tools == tuple(sorted(f"CheckoutV{number}/cancel" for number in range(1, 7)))
    beside = {(one.left, one.right) for one in joined.edges if one.signals.version}
    assert ("PaymentV1/cancel", "PaymentV11/cancel") in beside  # beside the newest
    assert ("PaymentV1/cancel", "PaymentV3/cancel") not in beside  # two old ones, not next to each other


def test_strongly_joined_groups_stay_apart_behind_a_weak_edge() -> None:
    groups = [[f"{api}/n{number:02}" for number in range(8)] for api in "ABC"]
    edges = [edge(a, b) for group in groups for a, b in combinations(group, 2)]
    edges += [edge(groups[0][0], groups[1][0], 9), edge(groups[1][1], groups[2][0], 9)]
    known = operations([name for group in groups for name in group])
    assert [cluster.tools for cluster in find_clusters(edges, known)] == [tuple(group) for group in groups]


# Hand-made catalogs where the right pairs are plain.


def graph(tools: dict[str, Any], lists: dict[str, list[str]] | None = None, **options: Any) -> Graph:
    texts = {
        name: ToolText(text) if isinstance(text, str) else ToolText(*text) for name, text in tools.items()
    }
    near = {name: [(other, 0.8) for other in others] for name, others in (lists or {}).items()}
    return Graph(texts, near, **options)


def found(
    tools: dict[str, Any], lists: dict[str, list[str]] | None = None, **options: Any
) -> list[tuple[str, ...]]:
    built = graph(tools, lists, **options)
    return [cluster.tools for cluster in find_clusters(built.edges({}), built.operations)]


def test_versions_of_one_operation_are_look_alikes_without_any_neighbour() -> None:
    tools = {
        "AcmePayV1/post-refund": "Refund.",
        "AcmePayV2/post-refund": "Refund.",
        "AcmePayV2/get-fee": "Fee.",
    }
    assert found(tools) == [("AcmePayV1/post-refund", "AcmePayV2/post-refund")]


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("Lists slips. Deprecated. Use SearchPayslips instead.", "Acme/SearchPayslips"),
        (
            "Lists slips. This call is deprecated. Please use /search/payslips for new work.",
            "Acme/SearchPayslips",
        ),
        ('Lists slips. Use "Find all payslips" instead.', "Acme/SearchPayslips"),
        ("Lists slips. We recommend the search payslips endpoint.", "Acme/SearchPayslips"),
        ("Lists slips. If you need filters, use SearchPayslips.", "Acme/SearchPayslips"),
        (
            "Lists slips. If using a newer integration, use the /runs endpoint of the Payroll API instead.",
            "AcmePayrollV3/get-runs",
        ),
        ("Lists slips. The /v1/slips call is deprecated. Use GET /runs instead.", "AcmePayrollV3/get-runs"),
    ],
)
def test_use_x_instead_makes_an_edge_to_x(words: str, target: str) -> None:
    tools = {
        "Acme/ListSlips": words,
        "Acme/SearchPayslips": "Find all payslips. With filters and pages.",
        "Acme/DeleteTeam": "Deletes a team.",
        "AcmePayrollV3/get-runs": "Returns payroll runs.",
        "AcmePayrollV2/get-runs": "Returns payroll runs.",
        "AcmePayrollV3/post-runs": "Starts a payroll run.",
    }
    built = graph(tools)
    points = {pair: told for pair, told in built.pointers.items() if told}
    assert list(points) == [tuple(sorted(("Acme/ListSlips", target)))]
    (told,) = points.values()
    assert told[0][0] == "Acme/ListSlips" and told[0][1] in words
    assert any({"Acme/ListSlips", target} <= set(tools) for tools in found(tools))
    assert graph(tools, words=False).pointers == {}


@pytest.mark.parametrize(
    "words",
    [
        "Lists slips. Before you call it, call SearchPayslips.",
        "Lists slips. SearchPayslips is deprecated.",
        "Lists slips. For the meaning of its parameters, refer to the search payslips endpoint.",
        "Lists slips. A slip with lines/payslips is archived instead.",
        "Lists slips. The token can no longer be used.",
        "Lists slips. Use UnknownTool instead.",
    ],
)
def test_steps_and_other_words_are_no_pointers(words: str) -> None:
    assert graph({"Acme/ListSlips": words, "Acme/SearchPayslips": "Finds payslips."}).pointers == {}


def test_another_vendors_tool_is_not_meant() -> None:
    tools = {
        "Acme/ListSlips": "Deprecated. Use SearchPayslips instead.",
        "Zeta/SearchPayslips": "Finds payslips.",
    }
    assert graph(tools).pointers == {}


def test_neighbours_alone_must_be_near_each_other_both_ways() -> None:
    tools = dict.fromkeys(("A/aa", "A/bb", "A/cc", "A/dd"), "Does something.")
    mutual = {"A/aa": ["A/bb"], "A/bb": ["A/aa"], "A/cc": ["A/aa"]}
    tools = {name: f"{name[-1]} does something." for name in tools}
    assert found(tools, mutual) == [("A/aa", "A/bb")]


def test_a_deprecated_tool_stands_against_its_nearest_live_one() -> None:
    tools = {
        "Acme/oldPay": ("Pays.", True),
        "Acme/settle": ("Settles.", False),
        "Acme/third": ("Third.", False),
    }
    lists = {"Acme/oldPay": ["Acme/settle", "Acme/third"], "Acme/third": ["Acme/settle"]}
    signals = graph(tools, lists).signals(("Acme/oldPay", "Acme/settle"), 0.8)
    assert signals.deprecated == "Acme/oldPay" and signals.weight >= FLOOR
    assert graph(tools, lists, words=False).signals(("Acme/oldPay", "Acme/settle"), 0.8).weight < FLOOR


def test_the_same_operation_of_another_product_is_a_look_alike() -> None:
    tools = {"AcmeLoans/create-invoices": "Create invoice.", "AcmeShop/createInvoice": "Create invoice."}
    assert found(tools) == [("AcmeLoans/create-invoices", "AcmeShop/createInvoice")]


def test_requests_with_two_answers_speak_for_the_pair() -> None:
    tools = {"A/aa": "Pays.", "A/bb": "Settles.", "A/cc": "Third."}
    lists = {"A/aa": ["A/cc", "A/bb"]}
    assert found(tools, lists) == []
    assert found(tools, lists, shared={("A/aa", "A/bb"): 2}) == [("A/aa", "A/bb")]


def test_signals_are_said_in_words() -> None:
    signals = Signals(
        ranks=(1, 3), operation=True, points=(("A/a", "Use B instead."),), deprecated="A/a", shared=2
    )
    assert list(say(signals.as_dict())) == [
        "A/a says: “Use B instead.”",
        "A/a is deprecated, the other is not",
        "both names say the same operation",
        "each is among the other's 3 nearest",
        "2 labelled requests are answered by both",
    ]
    assert list(say(Signals(version=True).as_dict())) == ["the same operation in two versions of one API"]
    assert list(say(Signals(ranks=(0, 1)).as_dict())) == ["one is the nearest of the other"]
    assert summary([signals.as_dict(), Signals(version=True).as_dict(), Signals(version=True).as_dict()]) == (
        "1 pair in which a description names the other tool; 2 pairs of versions of one operation"
    )


# Labels.


def test_label_says_what_is_common_and_what_differs() -> None:
    assert cluster_labels([["A/getPayslip", "A/getPayslipLines"]]) == ["get payslip: lines"]
    assert cluster_labels([["A/deleteCard", "A/disableCard"]]) == ["card: delete · disable"]
    assert cluster_labels([["AcmePayV1/cancel", "AcmePayV2/cancel", "AcmeShop/cancel"]]) == [
        "cancel: AcmePay V1 and V2 · AcmeShop"
    ]


def test_label_says_versions_where_only_they_differ_and_spellings_where_nothing_else_does() -> None:
    assert cluster_labels([["AcmePayV1/cancel", "AcmePayV2/cancel", "AcmePayV9/cancel"]]) == [
        "cancel: AcmePay V1 to V9"
    ]
    assert cluster_labels([["AcmePay/cancel", "AcmePayV2/cancel"]]) == ["cancel: AcmePay and AcmePay V2"]
    assert cluster_labels([["A/getCard", "A/getCards"]]) == ["get card: getCard · getCards"]


def test_label_of_one_verb_in_several_apis_names_what_it_is_done_to() -> None:
    tools = ["A/create-company", "A/create-connection", "B/create-connection"]
    assert cluster_labels([tools]) == ["create connection or company: A · B"]


def test_label_holds_only_words_that_are_true_of_every_tool() -> None:
    terms = ["A/getPaymentTerms", "B/getPaymentTerm", "C/getPayments"]
    (label,) = cluster_labels([terms])
    assert label.startswith("get payments: ") and "term" not in label.partition(":")[0]
    assert cluster_labels([["A/one", "B/two"]]) == ["one or two: A · B"]


def test_labels_are_unique() -> None:
    twice = [["A/createInvoice", "A/createInvoices"], ["B/createInvoice", "B/createInvoices"]]
    assert cluster_labels(twice) == ["create invoice: A", "create invoice: B"]
    same = [["A/createInvoice", "A/CreateInvoice"], ["A/create_invoice", "A/create-invoice"]]
    assert len(set(cluster_labels(same))) == 2


@given(
    st.lists(st.lists(st.sampled_from(NODES), min_size=2, max_size=6, unique=True), min_size=1, max_size=8)
)
def test_labels_of_disjoint_clusters_never_repeat(drawn: list[list[str]]) -> None:
    seen: set[str] = set()
    clusters = [tools for tools in drawn if not (seen & set(tools) or seen.update(tools))]
    labels = cluster_labels(clusters)
    assert len(set(labels)) == len(labels) and all(0 < len(label) <= 200 for label in labels)


# Stored.


@pytest.fixture
def six_tools(db) -> list[Tool]:
    """Two cliques of three tools, far from each other."""
    tools = [make_tool(f"A/n{letter}") for letter in "abcdef"]
    for place, tool in enumerate(tools):
        group = tools[:3] if place < 3 else tools[3:]
        near = {"neighbour_ids": [other.pk for other in group if other != tool], "scores": [0.8, 0.8]}
        also = {"other_ids": near["neighbour_ids"], "other_scores": near["scores"]}
        NeighbourList.objects.create(tool=tool, **near, **also)
    return tools


def part(tools: list[Tool]) -> None:
    """The last tool is near nobody any more."""
    NeighbourList.objects.filter(tool=tools[-1]).update(other_ids=[], other_scores=[])
    for row in NeighbourList.objects.filter(other_ids__contains=[tools[-1].pk]):
        row.other_ids, row.other_scores = [pk for pk in row.other_ids if pk != tools[-1].pk], [0.8]
        row.save()


def test_same_result_makes_no_new_version(six_tools: list[Tool]) -> None:
    assert clusters_update()["hr"]["new"] is True
    again = clusters_update()["hr"]
    assert (again["new"], again["version"], again["clusters"], again["median"]) == (False, 1, 2, 3)
    part(six_tools)
    assert clusters_update()["hr"] == {"version": 2, "new": True, "clusters": 2, "tools": 5, "median": 3}


def test_an_edge_is_stored_with_its_signals_and_said_in_words(six_tools: list[Tool]) -> None:
    Tool.objects.filter(pk=six_tools[0].pk).update(description="Deprecated. Use nb instead.", deprecated=True)
    LabelledQuery.objects.create(
        collection="asked", use="import", text="both", text_key="1", tools=["A/na", "A/nb"]
    )
    LabelledQuery.objects.create(
        collection="prb", use="benchmark", text="both", text_key="2", tools=["A/na", "A/nc"]
    )
    clusters_update()
    cluster = Cluster.objects.get(position=1)
    left, right, cosine, weight, signals = cluster.edges[0]
    assert (left, right, cosine) == (six_tools[0].pk, six_tools[1].pk, 0.8)
    assert signals["deprecated"] == "A/na" and signals["shared"] == 1
    assert "shared" not in cluster.edges[1][4]  # a benchmark is not asked
    assert weight == max(edge[3] for edge in cluster.edges)
    assert "A/na is deprecated, the other is not" in pair_reasons(cluster)[0]
    assert Clustering.objects.get().tau is None


def test_clusters_of_an_older_algorithm_stay_readable_and_are_replaced(six_tools: list[Tool]) -> None:
    old = make_cluster(*six_tools[:2])
    assert pair_reasons(old) == [["each is near the other, by a cosine of at least 0.80"]]
    assert clusters_update()["hr"]["version"] == 2
    assert Cluster.objects.filter(pk=old.pk).exists()


def test_every_tool_knows_its_cluster_of_the_newest_clustering(six_tools: list[Tool]) -> None:
    clusters_update()
    before = dict(Tool.objects.values_list("pk", "cluster"))
    assert {pk: c for c in Cluster.objects.all() for pk in c.tool_ids} == {
        pk: Cluster.objects.get(pk=cluster) for pk, cluster in before.items()
    }
    part(six_tools)
    clusters_update()
    alone = Tool.objects.get(pk=six_tools[-1].pk)
    newest = set(Cluster.objects.filter(clustering__version=2).values_list("pk", flat=True))
    assert alone.cluster_id is None
    assert set(Tool.objects.exclude(pk=alone.pk).values_list("cluster", flat=True)) == newest


def test_dismissal_survives_a_new_version_of_the_same_cluster(six_tools: list[Tool], user_with) -> None:
    clusters_update()
    expert = user_with("expert")
    first = Cluster.objects.get(position=1)
    cluster_dismiss(cluster=first, reason="the descriptions are enough", actor=expert)
    part(six_tools)
    clusters_update()
    kept = Cluster.objects.get(clustering__version=2, position=1)
    assert (kept.dismissed_by, kept.tool_ids) == (expert, first.tool_ids)
    cluster_restore(cluster=kept, actor=expert)
    assert not Cluster.objects.get(pk=kept.pk).dismissed_reason
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["catalog.clustered", "cluster.dismissed", "catalog.clustered", "cluster.restored"]


def test_dismissal_needs_a_reason(six_tools: list[Tool], user_with) -> None:
    clusters_update()
    with pytest.raises(TraceError, match="Say why"):
        cluster_dismiss(cluster=Cluster.objects.get(position=1), reason=" ", actor=user_with("expert"))


def test_tool_without_neighbours_is_reported(six_tools: list[Tool]) -> None:
    make_tool("A/new")
    with pytest.raises(TraceError, match="1 tools of the domain 'hr' have no neighbours"):
        clusters_update()
    assert not Clustering.objects.exists()


def test_lists_from_before_are_found_anew_first(six_tools: list[Tool]) -> None:
    NeighbourList.objects.update(other_ids=None, other_scores=None)
    with pytest.raises(TraceError, match="6 tools of the domain 'hr' have no neighbours"):
        clusters_update()


def test_mean_similarity_is_that_of_the_edges() -> None:
    edges = (Edge("A/a", "A/b", Signals(cosine=0.8)), Edge("A/b", "A/c", Signals(cosine=0.6)))
    assert FoundCluster(("A/a", "A/b", "A/c"), edges).mean_similarity == pytest.approx(0.7)
