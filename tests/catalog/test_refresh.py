"""Look-alikes after an import: what is behind, the button, and the job it queues."""

import numpy as np
import pytest

from catalog import lookalikes
from catalog.models import Cluster, Clustering, NeighbourList, Tool
from tests.factories import make_domain, make_tool
from trace_site import jobs
from trace_site.jobs import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def refreshed(monkeypatch, settings):
    """Runs the refresh job as the worker does, with letter counts in place of the encoder's process."""

    def encode(texts, *, echo=None):
        echo(f"encoding: 0/{len(texts)}")
        rows = np.array([[1 + row["text"].count(c) for c in "abcxyz"] for row in texts], dtype=np.float32)
        return [row["id"] for row in texts], rows / np.linalg.norm(rows, axis=1, keepdims=True)

    monkeypatch.setattr("catalog.lookalikes.encode_texts", encode)
    return lambda: jobs.run(Job.objects.get(kind="catalog").pk)


def test_refresh_finds_the_look_alikes_of_an_imported_tool(client_as, refreshed):
    one, two = make_tool("A/aa"), make_tool("A/ab")
    client = client_as("expert")
    page = client.get("/catalog/imports/")
    assert page.context["behind"] == 2 and "2 tools changed" in page.content.decode()
    client.post("/catalog/refresh/")
    assert 'hx-get="/jobs/' in client.get("/catalog/imports/").content.decode()
    job = refreshed()
    assert (job.state, job.done, job.total, job.result["clusters"]) == ("done", 2, 2, {"hr": 1})
    assert NeighbourList.objects.get(tool=one).neighbour_ids == [two.pk]
    page = client.get("/catalog/imports/")
    assert (page.context["behind"], page.context["refresh"]) == (0, None)


def test_refresh_counts_what_changed_and_what_went(client_as, refreshed):
    one, two = make_tool("A/aa"), make_tool("A/ab")
    make_tool("A/abc")
    client = client_as("admin")
    client.post("/catalog/refresh/")
    refreshed()
    Tool.objects.filter(pk=one.pk).update(description="Reads something else.")
    Tool.objects.filter(pk=two.pk).update(status=Tool.Status.RETIRED)
    assert client.get("/catalog/imports/").context["behind"] == 2


def test_second_click_joins_the_refresh_that_waits(client_as):
    client = client_as("admin")
    client.post("/catalog/refresh/")
    client.post("/catalog/refresh/")
    assert Job.objects.filter(kind="catalog").count() == 1


def test_reviewer_may_not_refresh(client_as):
    make_tool("A/aa")
    client = client_as("reviewer")
    assert client.post("/catalog/refresh/").status_code == 403
    assert "Find look-alikes" not in client.get("/catalog/imports/").content.decode()


def test_a_tool_imported_between_the_two_steps_is_looked_at_too(client_as, refreshed, monkeypatch):
    make_tool("A/aa"), make_tool("A/ab")
    client_as("expert").post("/catalog/refresh/")
    update = lookalikes.clusters_update

    def imported(**options):
        if not Tool.objects.filter(name="A/ac").exists():
            make_tool("A/ac")
        return update(**options)

    monkeypatch.setattr(lookalikes, "clusters_update", imported)
    assert refreshed().state == "done"
    assert NeighbourList.objects.count() == 3


def newest_clusters():
    newest = Clustering.objects.order_by("domain_id", "-version").distinct("domain_id")
    columns = ("clustering__domain", "position", "label", "tool_ids", "edges")
    rows = Cluster.objects.filter(clustering__in=newest.values("pk"))
    return list(rows.order_by("clustering__domain", "position").values_list(*columns))


def test_after_edits_the_clusters_are_those_of_a_fresh_start_and_other_domains_keep_theirs(refreshed):
    law = make_domain("law")
    for word in ("aab", "aba", "abb", "bba"):
        make_tool(f"PayV1/{word}"), make_tool(f"PayV2/{word}")
        make_tool(f"LawV1/{word}zzzzzz", domain=law)

    def refresh():
        lookalikes.neighbours_update()
        return lookalikes.clusters_update()

    refresh()
    edits = (
        lambda: Tool.objects.filter(name="PayV2/aab").update(
            description="Deprecated. Use PayV2/bba instead."
        ),
        lambda: Tool.objects.filter(name="PayV2/bba").update(deprecated=True),
        lambda: Tool.objects.filter(name="PayV2/abb").update(status=Tool.Status.RETIRED),
        lambda: make_tool("PayV3/aab"),
    )
    for edit in edits:
        before = newest_clusters()
        edit()
        found = refresh()
        assert (found["hr"]["new"], found["law"]["new"]) == (True, False)
        brought_up = newest_clusters()
        assert brought_up != before
        NeighbourList.objects.all().delete()  # everything is found anew
        assert not any(domain["new"] for domain in refresh().values())
        assert newest_clusters() == brought_up


def test_an_api_whose_versions_lie_in_two_domains_is_clustered_in_both(refreshed):
    law = make_domain("law")
    for word in ("aab", "aba", "abb"):
        make_tool(f"PayV1/{word}"), make_tool(f"PayV2/{word}", domain=law)
    lookalikes.neighbours_update()
    found = lookalikes.clusters_update()
    assert found["hr"]["tools"] == found["law"]["tools"] == 3
