"""Assignments and comments by program: the same rights, the same blindness, the same conflicts as on the pages."""

import pytest
from rest_framework.test import APIClient

from synthesis.models import Assignment, ReviewItem, SampleComment
from tests.factories import make_sample
from tests.tokens import token_of

pytestmark = pytest.mark.django_db
URL = "/api/v1/review/assignments"


@pytest.fixture
def api(user_with):
    def make(role: str, username: str) -> APIClient:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Token {token_of(user_with(role, username=username))}")
        return client

    return make


@pytest.fixture
def samples():
    return [make_sample() for _ in range(4)]


def test_an_admin_gives_reads_and_takes_back(api, samples):
    admin, ada = api("admin", "alma"), api("reviewer", "ada")
    given = {"assignee": "ada", "filters": {"branch": "rrb"}, "count": 3, "note": "by Friday"}
    headers = {"Idempotency-Key": "k"}
    made = admin.post(URL, given, format="json", headers=headers)
    again = admin.post(URL, given, format="json", headers=headers)
    assert made.status_code == again.status_code == 201 and made.json() == again.json()
    row = made.json()
    assert (row["assignee"], row["count"], row["left"], row["filters"]) == ("ada", 3, 3, {"branch": "rrb"})
    assert ada.get(URL).json()["results"] == [ada.get(f"{URL}/{row['id']}").json()]
    assert ada.get(f"{URL}?assignee=bob").json()["results"] == []
    assert ada.delete(f"{URL}/{row['id']}").status_code == 403
    assert admin.delete(f"{URL}/{row['id']}").status_code == 204
    assert admin.delete(f"{URL}/{row['id']}").json()["code"] == "bad_state"
    assert ada.get(URL).json()["results"] == [] and len(ada.get(f"{URL}?state=ended").json()["results"]) == 1
    assert not ReviewItem.objects.exclude(assigned_to=None).exists()


def test_a_reviewer_takes_for_themselves_only(api, samples):
    api("reviewer", "bob")
    ada = api("reviewer", "ada")
    assert ada.post(URL, {"assignee": "bob", "count": 1}, format="json").json()["code"] == "not_allowed"
    assert ada.post(URL, {"count": 1}, format="json").json()["assignee"] == "ada"
    assert ada.post(URL, {"assignee": "ghost", "count": 1}, format="json").status_code == 400
    assert ada.post(URL, {"count": None}, format="json").json()["count"] == 3
    assert ada.post(URL, {"count": None}, format="json").status_code == 409
    assert ada.post(URL, {"count": None, "filters": {"stile": "x"}}, format="json").status_code == 400
    assert Assignment.objects.count() == 2


def test_comments_are_added_and_kept_from_who_must_still_judge(api, samples):
    url = f"/api/v1/synthesis/samples/{samples[0].pk}/comments"
    erin, ada = api("expert", "erin"), api("reviewer", "ada")
    made = erin.post(url, {"text": "unclear <<x>> & 👍 עברית"}, format="json")
    assert made.status_code == 201 and made.json()["author"] == "erin"
    assert erin.get(url).json()["results"] == [made.json()]
    assert ada.get(url).json()["results"] == []
    own = ada.post(url, {"text": "mine"}, format="json").json()
    assert ada.get(url).json()["results"] == [own]
    assert erin.get(f"{url}?limit=1").json()["results"] == [
        made.json()
    ]  # what ada said is ada's until it is decided
    for text in ("", " ", "x" * 2001, None):
        assert erin.post(url, {"text": text}, format="json").status_code == 400
    assert erin.delete(url).status_code == 405 and SampleComment.objects.count() == 2


def test_the_list_costs_the_same_for_many(api, samples, django_assert_num_queries):
    admin = api("admin", "alma")
    for _ in samples:
        admin.post(URL, {"count": 1}, format="json")
    with django_assert_num_queries(2):  # the token with its roles, assignments with their counts
        assert len(admin.get(URL).json()["results"]) == 4
