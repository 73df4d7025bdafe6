"""Reviewing by program: claim, keep, return, decide, take back; the same rules as on the page."""

import pytest
from rest_framework.test import APIClient

from synthesis.models import Decision, ReviewItem, Sample, SecondShare
from tests.factories import make_rule, make_sample, make_tool
from tests.tokens import token_of

pytestmark = pytest.mark.django_db
ROOT = "/api/v1/review"


@pytest.fixture
def person(user_with):
    """person("ada") -> ask(method, path, body, **headers) as a reviewer of that name."""

    def make(name: str, role: str = "reviewer"):
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Token {token_of(user_with(role, username=name))}")

        def ask(method, path, body=None, **headers):
            return getattr(client, method)(f"{ROOT}/{path}", body, format="json", headers=headers)

        return ask

    return make


@pytest.fixture
def samples():
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    return [make_sample(rule=rule, tools=tools) for _ in range(2)]


def claimed(ask, **filters):
    return ask("post", "claims", filters).json()["item"]


def test_an_item_is_claimed_with_what_a_reader_needs(person, samples):
    item = claimed(person("ada"), rule="SLIP_YEAR", style="explicit")
    assert (item["sample"], item["rule"], item["round"]) == (samples[0].pk, "SLIP_YEAR", 1)
    assert [tool["name"] for tool in item["pool"]] == ["New/GetSlip", "Old/GetSlip"]
    assert (item["query"], item["lease_seconds"], item["readings"]) == (samples[0].query, 300, [])
    assert ReviewItem.objects.get(pk=item["item"]).claimed_by.username == "ada"


def test_an_empty_queue_answers_why(person, samples):
    ada, bob = person("ada"), person("bob")
    first = claimed(ada)
    claimed(ada, besides=[first["item"]])
    answer = bob("post", "claims", {})
    assert answer.status_code == 200 and answer.json()["item"] is None
    queue = answer.json()["queue"]
    assert (queue["left"], queue["claimed_by_others"], queue["elsewhere"]) == (2, 2, 0) and queue["frees_at"]


def test_a_claim_is_kept_returned_and_put_off(person, samples):
    ada, bob = person("ada"), person("bob")
    claim = claimed(ada)["claim"]
    assert ada("post", f"claims/{claim}/heartbeat").json()["lease_seconds"] == 300
    assert (
        bob("post", f"claims/{claim}/heartbeat")
        .json()["message"]
        .startswith(f"sample {samples[0].pk}: ada has it")
    )
    assert bob("delete", f"claims/{claim}").status_code == 409
    assert ada("delete", f"claims/{claim}?skip=true").status_code == 204
    assert claimed(ada)["sample"] == samples[1].pk
    assert claimed(bob)["sample"] == samples[0].pk
    gone = ada("post", f"claims/{claim}/heartbeat")
    assert (gone.status_code, gone.json()["code"]) == (409, "conflict")
    assert ada("delete", "claims/none").status_code == 404


def test_a_decision_sent_twice_is_one_and_another_with_its_claim_is_a_conflict(person, samples):
    ada = person("ada")
    item = claimed(ada)
    body = {"claim": item["claim"], "verdict": "approve", "seen": item["seen"], "seconds": 3.5}
    answers = [ada("post", "decisions", body) for _ in range(2)]
    assert [answer.json() for answer in answers] == [
        {"sample": samples[0].pk, "human": "approved", "approved_by": "ada", "approved_how": "read"}
    ] * 2
    assert Decision.objects.get().seconds == 3.5
    other = ada("post", "decisions", {"claim": item["claim"], "verdict": "reject", "reason": "leak"})
    assert (other.status_code, other.json()["code"]) == (409, "conflict")


def test_an_edit_is_filtered_and_says_every_failure(person, samples):
    ada = person("ada")
    item = claimed(ada)
    body = {"claim": item["claim"], "verdict": "edit", "trace": item["trace"]}
    refused = ada("post", "decisions", {**body, "query": "run New/GetSlip for me"})
    assert (refused.status_code, refused.json()["code"]) == (422, "filtered")
    assert refused.json()["extra"]["failures"][0]["check"] == "leakage"
    taken = ada("post", "decisions", {**body, "query": f"{item['query']} please"})
    assert taken.json()["approved_how"] == "edited"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"verdict": "reject"}, "/reason: reject needs reason"),
        ({"verdict": "edit", "query": "x"}, "/trace: edit needs trace"),
        ({"verdict": "approve", "reason": "leak"}, "/reason: approve has no reason"),
        ({"verdict": "undo"}, "/verdict"),
    ],
)
def test_a_decision_names_what_its_verdict_needs_and_nothing_else(body, said, person, samples):
    ada = person("ada")
    answer = ada("post", "decisions", {"claim": claimed(ada)["claim"], **body})
    assert answer.status_code == 400 and answer.json()["message"].startswith(said)


def test_an_adjudicator_sees_both_readings_and_no_names(person, samples):
    SecondShare.objects.create(share=1.0)
    wishes = [{"verdict": "approve"}, {"verdict": "reject", "reason": "leak"}]
    for number, (name, wish) in enumerate(zip(("ada", "bob"), wishes, strict=True), start=1):
        ask = person(name)
        assert (
            ask("post", "decisions", {"claim": claimed(ask, round=number)["claim"], **wish}).status_code
            == 200
        )
    item = claimed(person("cid"))
    assert (item["round"], item["sample"]) == (3, samples[0].pk)
    assert sorted(side["verdict"] for side in item["readings"]) == ["approve", "reject"]
    assert "ada" not in str(item) and "bob" not in str(item)


def test_undo_gives_the_item_back_claimed_anew(person, samples):
    ada = person("ada")
    item = claimed(ada)
    ada("post", "decisions", {"claim": item["claim"], "verdict": "reject", "reason": "leak"})
    back = ada("post", "undo").json()
    assert back["sample"] == samples[0].pk and back["item"]["claim"] != item["claim"]
    assert Sample.objects.get(pk=samples[0].pk).human == "pending"
    again = ada("post", "undo")
    assert (again.status_code, again.json()["code"]) == (409, "nothing_to_undo")


def test_a_claim_repeated_under_one_key_is_one_claim(person, samples):
    ada = person("ada")
    answers = [ada("post", "claims", {}, **{"Idempotency-Key": "k1"}) for _ in range(2)]
    assert answers[0].json() == answers[1].json() and answers[1]["Idempotent-Replayed"] == "true"
