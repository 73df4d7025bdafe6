"""The coverage pages: numbers with their denominators, gaps in order, dismissal with a reason."""

import csv
import io

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from catalog.models import Cluster, Clustering, Tool
from evaluation.coverage.selectors import coverage
from evaluation.models import Count
from tests.factories import count_rollups, make_cluster, make_rule, make_tool, thawed

pytestmark = pytest.mark.django_db


@pytest.fixture
def clusters():
    """Two clusters of HR: one that a rule resolves, and a larger one without a rule."""
    a, b, c, d, e = (make_tool(f"Pay/Tool{letter}") for letter in "ABCDE")
    clustering = Clustering.objects.create(domain=a.domain, version=1, tau=0.8, algorithm="test")
    make_rule(a, b, code="A_OR_B")
    found = (
        make_cluster(a, b, clustering=clustering),
        make_cluster(c, d, e, clustering=clustering, label="open one"),
    )
    count_rollups()
    return found


@pytest.mark.parametrize(
    "path", ["/", "/clusters/?domain=hr", "/clusters/?domain=hr&q=tool", "/clusters/map/"]
)
def test_page_needs_the_same_queries_for_a_few_clusters_and_for_many(
    client_as, clusters, path, django_assert_num_queries
):
    client = client_as("expert")

    def add(count):
        for _ in range(count):
            tools = [make_tool() for _ in range(3)]
            make_cluster(*tools, clustering=clusters[0].clustering, position=Cluster.objects.count())
            make_rule(*tools[:2])
        count_rollups()

    client.get(path)
    add(1)
    with CaptureQueriesContext(connection) as few:
        client.get(path)
    add(20)
    with django_assert_num_queries(len(few)):
        client.get(path)


def test_cluster_page_needs_the_same_queries_for_small_clusters_and_for_large(
    client_as, clusters, django_assert_num_queries
):
    client = client_as("expert")
    tools = [make_tool() for _ in range(20)]
    large = make_cluster(*tools, clustering=clusters[0].clustering)
    for one, two in zip(tools, tools[1:10], strict=False):
        make_rule(one, two)
    for page in ("", "panel/"):
        client.get(f"/clusters/{large.pk}/{page}")
        with CaptureQueriesContext(connection) as few:
            client.get(f"/clusters/{clusters[0].pk}/{page}")
        with django_assert_num_queries(len(few)):
            client.get(f"/clusters/{large.pk}/{page}")


def labels(response):
    return [line["cluster"].label for line in response.context["gaps"]]


def test_clusters_are_listed_gaps_first(client_as, clusters):
    assert labels(client_as("reviewer").get("/clusters/")) == ["open one", clusters[0].label]


def test_clusters_are_filtered_by_state(client_as, clusters):
    client = client_as("reviewer")
    assert labels(client.get("/clusters/?state=resolved")) == [clusters[0].label]
    assert labels(client.get("/clusters/?state=apart")) == [clusters[0].label]
    for chosen in ("state=open", "state=not_apart", "gaps=yes", "cost=not_measured", "first=1"):
        assert labels(client.get(f"/clusters/?{chosen}")) == ["open one"], chosen
    assert labels(client.get("/clusters/?cost=wrong")) == []


def test_clusters_are_found_by_their_name_and_by_their_tools(client_as, clusters):
    client = client_as("reviewer")

    def found(text):
        return labels(client.get("/clusters/", {"q": text}))

    assert found("open") == ["open one"] and found("TOOLA pay") == [clusters[0].label]
    assert found("nothing like it") == []
    assert "No cluster matches" in client.get("/clusters/?q=nothing").content.decode()


def test_list_goes_on_behind_the_last_cluster_shown(client_as, clusters):
    for number in range(60):
        make_cluster(make_tool(), make_tool(), clustering=clusters[0].clustering, position=number + 2)
    count_rollups()
    client, after, found = client_as("reviewer"), "", []
    while after is not None:
        page = client.get(f"/clusters/?after={after}")
        found += labels(page)
        after = page.context["keyset"].next_key
    assert len(found) == len(set(found)) == 62
    assert labels(client.get("/clusters/?after=0"))[0] == found[0]


def test_typing_swaps_only_the_rows(client_as, clusters):
    page = client_as("reviewer").get("/clusters/?q=open", headers={"HX-Request": "true"}).content.decode()
    assert "open one" in page and "<html" not in page


def test_similarity_is_never_called_cost(client_as, clusters):
    client = client_as("reviewer")
    for path in ("/", "/clusters/", f"/clusters/{clusters[1].pk}/", f"/clusters/{clusters[1].pk}/panel/"):
        page = client.get(path).content.decode()
        assert "not measured" in page and "costliest" not in page and "ap score" not in page, path


def test_cluster_page_says_which_rule_tells_a_pair_apart(client_as, clusters):
    edges = client_as("reviewer").get(f"/clusters/{clusters[0].pk}/").context["edges"]
    assert [[version.rule.code for version in edge["rules"]] for edge in edges] == [["A_OR_B"]]
    edges = client_as("expert").get(f"/clusters/{clusters[1].pk}/").context["edges"]
    assert [edge["rules"] for edge in edges] == [[], []]


def test_pages_say_in_words_why_tools_are_look_alikes(client_as, clusters):
    a, b = Tool.objects.filter(pk__in=clusters[0].tool_ids).order_by("pk")
    signals = {"points": [["Pay/ToolA", "Use <ToolB> instead."]], "ranks": [1, 2]}
    with thawed():
        Cluster.objects.filter(pk=clusters[0].pk).update(edges=[[a.pk, b.pk, 0.7, 3.1, signals]])
    Cluster.objects.filter(pk=clusters[0].pk).update(edges=F("edges"))  # what is kept of it is old now
    client, line = client_as("reviewer"), "1 pair in which a description names the other tool"
    page = client.get(f"/clusters/{clusters[0].pk}/").content.decode()
    assert "Pay/ToolA says: “Use &lt;ToolB&gt; instead.”" in page
    assert "each is among the other&#x27;s 2 nearest" in page
    assert line in client.get(f"/clusters/{clusters[0].pk}/panel/").content.decode()


def test_a_cluster_that_rules_tell_apart_is_no_gap_and_no_unmeasured_one(client_as, clusters):
    client = client_as("reviewer")
    for path in ("/clusters/?domain=hr&state=resolved", f"/clusters/{clusters[0].pk}/"):
        page = client.get(path).content.decode()
        assert ">no gap</span>" in page and ">not measured</span>" not in page


def test_cluster_page_compares_with_the_chosen_tool(client_as, clusters):
    wanted = clusters[1].tool_ids[2]
    page = client_as("reviewer").get(f"/clusters/{clusters[1].pk}/?against={wanted}")
    assert page.context["reference"].pk == wanted


def test_cluster_of_an_older_clustering_leads_to_the_clusters_of_now(client_as, clusters):
    Clustering.objects.create(domain=clusters[0].clustering.domain, version=2, tau=0.9, algorithm="test")
    assert client_as("reviewer").get(f"/clusters/{clusters[0].pk}/")["Location"] == "/clusters/?domain=hr"


def test_dismissed_cluster_leaves_the_denominator_and_comes_back(client_as, clusters):
    client, path = client_as("expert"), f"/clusters/{clusters[1].pk}/"
    client.post(path + "dismiss/", {"reason": "The descriptions say it."})
    assert coverage("hr")[0].totals.clusters == 1
    assert "The descriptions say it." in client.get(path).content.decode()
    client.post(path + "restore/")
    assert coverage("hr")[0].totals.clusters == 2


def test_until_the_first_count_pages_say_that_nothing_is_counted_yet(client_as, clusters):
    Count.objects.all().delete()
    client, path = client_as("expert"), f"/clusters/{clusters[1].pk}/"
    for page in ("/", path, "/evaluation/what-if/?domain=hr"):
        assert "counted yet" in client.get(page).content.decode()
    assert "counted within a minute" in client.get("/clusters/").content.decode()
    assert client.get(path + "panel/").status_code == 200
    assert client.get("/coverage/hr.csv").status_code == 404


def test_dismissal_needs_a_reason(client_as, clusters):
    response = client_as("expert").post(f"/clusters/{clusters[1].pk}/dismiss/", {"reason": "  "})
    assert response.status_code == 422 and Cluster.objects.get(pk=clusters[1].pk).dismissed_at is None


def test_an_older_cluster_is_neither_dismissed_nor_brought_back(client_as, clusters):
    client, path = client_as("expert"), f"/clusters/{clusters[1].pk}/"
    Clustering.objects.create(domain=clusters[0].clustering.domain, version=2, algorithm="test")
    for what in ("dismiss", "restore"):
        said = client.post(f"{path}{what}/", {"reason": "The descriptions say it.", "back": "/"}, follow=True)
        assert "belongs to an older clustering" in said.content.decode()
        assert Cluster.objects.get(pk=clusters[1].pk).dismissed_at is None


def test_readers_dismiss_nothing(client_as, clusters):
    response = client_as("reviewer").post(f"/clusters/{clusters[1].pk}/dismiss/", {"reason": "no"})
    assert response.status_code == 403 and Cluster.objects.get(pk=clusters[1].pk).dismissed_at is None


def test_csv_holds_every_cluster_and_no_formula(client_as, clusters):
    with thawed():
        Cluster.objects.filter(pk=clusters[1].pk).update(label="=HYPERLINK(1)")
    count_rollups()
    text = client_as("product_manager").get("/coverage/hr.csv").content.decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["cluster"] for row in rows] == ["'=HYPERLINK(1)", clusters[0].label]
    assert rows[0]["pairs"] == "2" and rows[0]["pairs_covered"] == "0"


def test_unknown_domain_has_no_csv(client_as):
    assert client_as("expert").get("/coverage/nope.csv").status_code == 404


def test_rule_page_fragment_counts_the_pairs_a_rule_holds(client_as, clusters):
    rule = make_rule(
        *(Tool.objects.get(pk=pk) for pk in clusters[1].tool_ids), code="NEW_ONE", published=False
    )
    page = client_as("reviewer").get(f"/coverage/rules/{rule.pk}/").content.decode()
    assert "open one" in page and "2 of 2 pairs" in page
