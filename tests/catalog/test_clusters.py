"""Clusters: deterministic, bounded, frozen as versions."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.clusters import MAX_SIZE, choose_tau, cluster_label, find_clusters, mutual_edges
from catalog.lookalikes import cluster_dismiss, cluster_restore, clusters_update
from catalog.models import Cluster, Clustering, NeighbourList, Tool
from tests.factories import make_tool
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError

NODES = [f"A/n{number:02}" for number in range(40)]
EDGES = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(NODES), st.sampled_from([0.6, 0.7, 0.8, 0.9])).filter(
        lambda edge: edge[0] < edge[1]
    ),
    unique_by=lambda edge: edge[:2],
    max_size=120,
)


@given(EDGES, st.randoms(use_true_random=False))
def test_clusters_do_not_depend_on_the_order_of_edges(
    edges: list[tuple[str, str, float]], shuffler: random.Random
) -> None:
    mixed = list(edges)
    shuffler.shuffle(mixed)
    assert find_clusters(edges, 0.65) == find_clusters(mixed, 0.65)
    assert choose_tau(edges) == choose_tau(mixed)


@given(EDGES)
def test_clusters_are_disjoint_bounded_and_connected_above_tau(edges: list[tuple[str, str, float]]) -> None:
    clusters = find_clusters(edges, 0.65)
    tools = [name for cluster in clusters for name in cluster.tools]
    assert len(tools) == len(set(tools))
    for cluster in clusters:
        assert 2 <= len(cluster.tools) <= MAX_SIZE
        assert all(weight >= 0.65 for _, _, weight in cluster.edges)
        assert {name for edge in cluster.edges for name in edge[:2]} == set(cluster.tools)


def test_large_component_falls_into_its_communities() -> None:
    groups = [[f"{api}/n{number}" for number in range(10)] for api in "ABC"]
    edges = [(a, b, 0.9) for group in groups for a in group for b in group if a < b]
    edges += [(groups[0][0], groups[1][0], 0.9), (groups[1][1], groups[2][0], 0.9)]
    assert [cluster.tools for cluster in find_clusters(edges, 0.5)] == [tuple(group) for group in groups]


def test_edge_needs_both_directions() -> None:
    lists = {"A/a": [("A/b", 0.9), ("A/c", 0.8)], "A/b": [("A/a", 0.9)], "A/c": [("A/b", 0.7)]}
    assert mutual_edges(lists) == [("A/a", "A/b", 0.9)]


def test_label_is_never_a_verb_alone_when_names_share_more() -> None:
    assert cluster_label(["A/GetOrgUnit", "A/GetOrgUnitNode", "B/GetTeam", "B/GetCrew"]) == "get org unit"
    assert cluster_label(["A/GetTeam", "A/GetCrew"]) == "get"


def test_label_is_what_the_names_share() -> None:
    assert cluster_label(["A/getPayslip", "B/getPayslipLines", "C/readPayslip"]) == "get payslip"
    assert cluster_label(["A/one", "B/two"]) == "one"


@pytest.fixture
def six_tools(db) -> list[Tool]:
    """Two cliques of three tools, far from each other."""
    tools = [make_tool(f"A/n{number}") for number in range(6)]
    for place, tool in enumerate(tools):
        group = tools[:3] if place < 3 else tools[3:]
        others = [other.pk for other in group if other != tool]
        NeighbourList.objects.create(tool=tool, neighbour_ids=others, scores=[0.8, 0.8])
    return tools


def test_same_result_makes_no_new_version(six_tools: list[Tool]) -> None:
    assert clusters_update()["hr"]["new"] is True
    again = clusters_update()["hr"]
    assert (again["new"], again["version"], again["clusters"], again["median"]) == (False, 1, 2, 3)
    assert clusters_update(tau=0.5)["hr"]["version"] == 2
    assert clusters_update()["hr"]["tau"] == 0.5


def test_every_tool_knows_its_cluster_of_the_newest_clustering(six_tools: list[Tool]) -> None:
    clusters_update()
    before = dict(Tool.objects.values_list("pk", "cluster"))
    assert {pk: c for c in Cluster.objects.all() for pk in c.tool_ids} == {
        pk: Cluster.objects.get(pk=cluster) for pk, cluster in before.items()
    }
    NeighbourList.objects.filter(tool=six_tools[0]).update(neighbour_ids=[], scores=[])
    clusters_update()
    alone = Tool.objects.get(pk=six_tools[0].pk)
    newest = set(Cluster.objects.filter(clustering__version=2).values_list("pk", flat=True))
    assert alone.cluster_id is None
    assert set(Tool.objects.exclude(pk=alone.pk).values_list("cluster", flat=True)) == newest


def test_dismissal_survives_a_new_version_of_the_same_cluster(six_tools: list[Tool], user_with) -> None:
    clusters_update()
    expert = user_with("expert")
    first = Cluster.objects.get(position=1)
    cluster_dismiss(cluster=first, reason="the descriptions are enough", actor=expert)
    clusters_update(tau=0.5)
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
