"""The lineage page and its JSON: one path from the rule to the models, blind where a reading is to come."""

import csv
import io

import pytest
from django.test import Client
from rest_framework.test import APIClient

from synthesis.models import SecondShare, SnapshotSample
from synthesis.review import services as review_services
from tests.factories import make_sample
from tests.synthesis.test_lineage import reader, used
from tests.synthesis.test_rejections import a_rule, person, reject, sample_of
from tests.tokens import token_of

pytestmark = pytest.mark.django_db


def token_client(user) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token_of(user)}")
    return client


def test_the_page_goes_down_from_tools_to_evaluations_with_links(client_as):
    sample = used()
    member = sample.memberships.get()
    page = client_as("expert").get(f"/synthesis/samples/{sample.pk}/lineage/").content.decode()
    places = [page.index(f'id="{part}"') for part in ("tools", "writers", "attempts", "sample", "decisions")]
    places += [page.index(f'id="{part}"') for part in ("onward", "runs", "models", "evaluations")]
    assert places == sorted(places)
    assert f'href="/synthesis/snapshots/{member.snapshot_id}/"' in page and "champion" in page
    assert "Prompts and models are not recorded" in page and "No language model was asked" in page


def test_the_sample_page_links_to_it(client_as):
    sample = make_sample()
    page = client_as("reviewer").get(f"/synthesis/samples/{sample.pk}/").content.decode()
    assert f'href="/synthesis/samples/{sample.pk}/lineage/"' in page


def test_an_older_rule_version_is_compared_with_the_published_one(client_as):
    rule = a_rule()
    sample = sample_of(rule)
    old = rule.published
    fields = {"target": old.target, "confusable_ids": old.confusable_ids, "content_hash": "1" * 64}
    rule.published = rule.versions.create(number=2, text="Use New/Get <since> 2024.", **fields)
    rule.save()
    client = client_as("expert")
    page = client.get(f"/synthesis/samples/{sample.pk}/lineage/").content.decode()
    assert "older version" in page and "Compare v1 and v2" in page and "&lt;since&gt;" in page
    rule.published = None
    rule.save()
    assert "withdrawn" in client.get(f"/synthesis/samples/{sample.pk}/lineage/").content.decode()


def test_a_first_reading_is_hidden_from_the_next_reader_on_page_and_api():
    sample = make_sample()
    SecondShare.objects.create(share=1.0)
    review_services.reject(
        sample=sample.pk, reviewer=reader("ann", "reviewer"), reason="leak", note="secret", follow_up="drop"
    )
    client = token_client(reader("bob", "reviewer"))
    answer = client.get(f"/api/v1/synthesis/samples/{sample.pk}/lineage")
    assert "secret" not in answer.content.decode()
    assert (answer.json()["decisions"], answer.json()["decisions_hidden"]) == ([], 1)
    client = Client()
    client.force_login(reader("bob", "reviewer"))
    for page in ("", "lineage/"):
        shown = client.get(f"/synthesis/samples/{sample.pk}/{page}").content.decode()
        assert "secret" not in shown and "hidden: the sample waits for another reading" in shown
    own = token_client(reader("ann", "reviewer")).get(f"/api/v1/synthesis/samples/{sample.pk}/lineage").json()
    assert [one["note"] for one in own["decisions"]] == ["secret"]


def test_the_json_holds_what_the_page_shows(user_with):
    sample = used()
    found = token_client(user_with("expert")).get(f"/api/v1/synthesis/samples/{sample.pk}/lineage").json()
    assert found["sample"]["id"] == sample.pk and found["rule"] is None
    assert [made["kind"] for made in found["made"]] == ["run", "model", "evaluation"]
    assert found["snapshots"][0]["position"] == 0 and found["tools"][0]["role"] == "answer"


def test_the_page_takes_the_same_queries_for_any_sample(client_as, django_assert_max_num_queries):
    sample = used()
    client = client_as("reviewer")
    with django_assert_max_num_queries(24):
        client.get(f"/synthesis/samples/{sample.pk}/lineage/")


def test_rejections_are_read_as_json_and_as_csv(user_with):
    rule = a_rule()
    reject(rule, "rule_unclear", "=1+1, about year")
    client = token_client(user_with("expert"))
    (row,) = client.get("/api/v1/synthesis/rejections?domain=hr&rule=PAY").json()
    assert (row["code"], row["version"], row["rejected"], row["decided"]) == ("PAY", 1, 1, 1)
    assert row["reasons"][0]["said"][0]["note"] == "=1+1, about year"
    assert row["styles"] == {"explicit": {"rejected": 1, "decided": 1}}
    answer = client.get("/api/v1/synthesis/rejections?format=csv")
    assert answer["Content-Type"].startswith("text/csv")
    heads, cells = csv.reader(io.StringIO(answer.content.decode("utf-8-sig")))
    assert dict(zip(heads, cells, strict=True))["note"] == "'=1+1, about year"
    assert client.get("/api/v1/synthesis/rejections?domain=it").json() == []


def test_an_older_version_is_listed_when_asked_for(user_with):
    rule = a_rule()
    reject(rule, "leak")
    rule.published = None
    rule.save()
    client = token_client(user_with("expert"))
    assert client.get("/api/v1/synthesis/rejections").json() == []
    assert len(client.get("/api/v1/synthesis/rejections?all_versions=true").json()) == 1
    assert person("rita").username == "rita"


def test_a_snapshot_lists_its_samples_and_each_leads_to_its_lineage(client_as):
    sample = used()
    snapshot = sample.memberships.get().snapshot_id
    client = client_as("expert")
    page = client.get(f"/synthesis/snapshots/{snapshot}/samples/").content.decode()
    assert f'href="/synthesis/samples/{sample.pk}/lineage/"' in page and sample.query in page
    assert (
        sample.query
        in client.get(f"/synthesis/snapshots/{snapshot}/samples/?branch=rrb&rule=").content.decode()
    )
    page = client.get(f"/synthesis/snapshots/{snapshot}/samples/?branch=rule").content.decode()
    assert "No sample of this choice is in it" in page
    assert client.get("/synthesis/snapshots/999999/samples/").status_code == 404


def test_a_page_of_a_snapshots_samples_takes_the_same_queries_for_any_number(
    client_as, django_assert_max_num_queries
):
    sample = used()
    snapshot = sample.memberships.get().snapshot
    for position in (1, 2, 3):
        other = make_sample(human="approved")
        SnapshotSample.objects.create(
            snapshot=snapshot, sample=other, position=position, sample_key=other.key
        )
    client = client_as("reviewer")
    with django_assert_max_num_queries(8):
        client.get(f"/synthesis/snapshots/{snapshot.pk}/samples/")


def test_the_snapshot_page_leads_to_its_samples(client_as):
    snapshot = used().memberships.get().snapshot_id
    page = client_as("reviewer").get(f"/synthesis/snapshots/{snapshot}/").content.decode()
    assert f'href="/synthesis/snapshots/{snapshot}/samples/"' in page
    assert (
        f"/synthesis/snapshots/{snapshot}/samples/?branch=rrb&amp;domain=hr&amp;rule=&amp;tier=easy" in page
    )
