"""The clusters as a picture: small data, the figures of the list, a panel with its own address."""

import gzip
import json

import numpy as np
import pytest

from catalog.models import Cluster, Clustering
from evaluation.coverage.views import places
from evaluation.models import ClusterPlace
from tests.factories import make_cluster, make_domain, make_rule, make_tool

pytestmark = pytest.mark.django_db
DATA = "/clusters/map/hr.json"


@pytest.fixture
def clusters():
    """Three clusters: one resolved, one open, one dismissed; their tools are embedded."""
    clustering = Clustering.objects.create(domain=make_domain(), version=1, tau=0.8, algorithm="test")
    found = []
    for number, label in enumerate(("payslips", "leave days", "badges")):
        tools = [
            make_tool(f"Api{number}/Tool{letter}", embedding=np.eye(4)[number] + 0.01 * place)
            for place, letter in enumerate("ABC")
        ]
        found.append(make_cluster(*tools, clustering=clustering, label=label, position=number))
        if not number:
            make_rule(*tools, code="A_RULE")
    Cluster.objects.filter(pk=found[2].pk).update(dismissed_reason="the descriptions are enough")
    return found


def test_data_hold_figures_the_most_open_pairs_first(client_as, clusters):
    found = client_as("reviewer").get(DATA).json()
    assert found["id"] == [clusters[1].pk, clusters[0].pk, clusters[2].pk]
    assert found["label"] == ["leave days", "payslips", "badges"]
    assert (found["share"], found["n"]) == ([0, 100, 0], [3, 3, 3]) and "score" not in found
    assert found["state"] == [0, 4, 7]  # no rule, resolved, dismissed
    assert len({*zip(found["x"], found["y"], strict=True)}) == 3


def test_data_of_a_cluster_take_sixty_bytes_and_a_third_of_that_on_the_wire(client_as):
    clustering = Clustering.objects.create(domain=make_domain(), version=1, tau=0.8, algorithm="test")
    tools = [make_tool().pk for _ in range(8)]
    Cluster.objects.bulk_create(
        Cluster(
            clustering=clustering,
            position=n,
            label=f"create invoice line {n}",
            tool_ids=tools,
            edges=[[tools[0], tools[1], 0.9]],
            mean_similarity=0.9,
        )
        for n in range(1000)
    )
    client = client_as("reviewer")
    plain = client.get(DATA)
    assert len(plain.content) < 60 * 1000
    packed = client.get(DATA, headers={"Accept-Encoding": "gzip"})
    assert packed["Content-Encoding"] == "gzip" and len(packed.content) < 20 * 1000
    assert json.loads(gzip.decompress(packed.content)) == plain.json()


def test_unchanged_data_are_not_sent_again_and_changed_ones_are(client_as, clusters):
    client = client_as("reviewer")
    tag = client.get(DATA)["ETag"]
    assert client.get(DATA, headers={"If-None-Match": tag}).status_code == 304
    make_rule(*[make_tool(name) for name in ("X/A", "X/B")])
    answer = client.get(DATA, headers={"If-None-Match": tag})
    assert answer.status_code == 200 and answer["ETag"] != tag


def test_map_is_laid_out_once_and_stays(client_as, clusters, django_assert_num_queries):
    client = client_as("reviewer")
    first = client.get(DATA).json()
    assert ClusterPlace.objects.count() == 3
    places.cache_clear()
    ClusterPlace.objects.filter(pk=clusters[0].pk).update(x=777)
    again = client.get(DATA).json()
    assert again["x"][again["id"].index(clusters[0].pk)] == 777 and first["y"] == again["y"]
    with django_assert_num_queries(0):
        places(clusters[0].clustering_id)


def test_tools_come_with_their_pairs_and_what_is_covered(client_as, clusters):
    ids = f"{clusters[0].pk},{clusters[1].pk},0,x"
    found = client_as("reviewer").get(f"/clusters/map/hr/tools.json?ids={ids}").json()
    assert set(found) == {str(clusters[0].pk), str(clusters[1].pk)}
    covered = found[str(clusters[0].pk)]
    assert [name for _, name, _ in covered["tools"]] == ["Api0/ToolA", "Api0/ToolB", "Api0/ToolC"]
    assert covered["edges"] == [[0, 1, 1], [1, 2, 1]]
    assert found[str(clusters[1].pk)]["edges"] == [[0, 1, 0], [1, 2, 0]]


def test_search_finds_clusters_by_name_and_tools_inside_them(client_as, clusters):
    client = client_as("reviewer")
    found = client.get("/clusters/map/hr/search.json?q=LEAVE").json()
    assert found["ids"] == [clusters[1].pk] and found["results"][0]["tools"] == []
    found = client.get("/clusters/map/hr/search.json?q=toolb").json()
    assert len(found["ids"]) == 3 and found["results"][0]["tools"][0]["name"] == "Api1/ToolB"
    assert client.get("/clusters/map/hr/search.json?q=+").json() == {"ids": [], "results": []}


def test_panel_has_its_own_address_and_leads_to_the_editor(client_as, clusters):
    client = client_as("expert")
    page = client.get(f"/clusters/map/?cluster={clusters[1].pk}").content.decode()
    panel = client.get(f"/clusters/{clusters[1].pk}/panel/").content.decode()
    ids = "%2C".join(map(str, clusters[1].tool_ids))
    for text in (page, panel):
        assert f"/rules/new/?domain=hr&amp;tools={ids}" in text
        assert "leave days" in text and "Api1" in text and "no rule" in text
    assert "<html" not in panel


def test_reader_sees_the_panel_without_the_editor(client_as, clusters):
    panel = client_as("product_manager").get(f"/clusters/{clusters[1].pk}/panel/").content.decode()
    assert "Write a rule" not in panel and "Open the cluster" in panel


def test_page_without_script_leads_to_the_table(client_as, clusters):
    page = client_as("reviewer").get("/clusters/map/?domain=hr").content.decode()
    assert "<noscript>" in page and '/clusters/?domain=hr">The list</a>' in page


def test_every_state_of_the_key_has_a_sign_of_its_own(client_as, clusters):
    states = client_as("reviewer").get("/clusters/map/").context["states"]
    assert len({state["sign"] for state in states}) == len(states) == 8
    assert [state["count"] for state in states] == [1, 0, 0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    "path", ["/clusters/map/nope.json", "/clusters/map/?domain=nope", "/clusters/999999/panel/"]
)
def test_unknown_domain_or_cluster_is_404(client_as, clusters, path):
    assert client_as("reviewer").get(path).status_code == 404


def test_cluster_of_an_older_clustering_has_no_panel(client_as, clusters):
    Clustering.objects.create(domain=clusters[0].clustering.domain, version=2, tau=0.9, algorithm="test")
    client = client_as("reviewer")
    assert client.get(f"/clusters/{clusters[0].pk}/panel/").status_code == 404
    assert client.get(f"/clusters/map/?cluster={clusters[0].pk}").context["panel"] is None


def test_empty_catalog_and_domain_without_clusters_say_what_to_do(client_as):
    client = client_as("expert")
    assert "There is no catalog yet" in client.get("/clusters/map/").content.decode()
    make_tool()
    assert "The look-alikes are not known yet" in client.get("/clusters/map/").content.decode()
    assert client.get(DATA).json()["id"] == []
