"""Hostile input on the pages of review and datasets: refused or shown as text, never a crash."""

import pytest
from django.utils import timezone

from synthesis.datasets.diff import SnapshotPair
from synthesis.models import Sample
from synthesis.review import services as review_services
from synthesis.review.queue import claim_next
from synthesis.samples.lineage import decisions_shown
from tests.factories import make_sample, make_snapshot
from tests.tokens import token_of
from trace_site.deliveries import Delivery
from trace_site.notices import services as notices_services
from trace_site.notices.services import Notice, tell

pytestmark = pytest.mark.django_db
KEYS = ["9" * 5000, "9" * 30, str(2**63), "-1", "a", "\u0663", "1.5", "a" * 3000, "nan"]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[:9])
def test_a_key_that_is_none_starts_a_list_anew_or_ends_it(client_as, key):
    client = client_as("admin")
    snapshots = [make_snapshot(), make_snapshot()]
    members = f"snapshots/{snapshots[0].pk}/samples/"
    for page in ("", "batches/", "comments/", "snapshots/", "samples/", members):
        assert client.get(f"/synthesis/{page}", {"after": key}).status_code == 200, page
    assert client.get("/notices/", {"after": key}).status_code == 200
    assert client.get("/synthesis/samples/", {"q": key}).status_code == 200
    assert SnapshotPair(*snapshots).page("changed", key).rows == []
    assert client.get("/synthesis/quality/judge/", {"target": key, "floor": key}).status_code == 200


@pytest.mark.parametrize(
    "items", ["[" * 50_000, '{"' + "9" * 5000 + '": "x"}', '{"' + "9" * 30 + '": "x"}', "[1]"]
)
def test_items_of_a_screen_that_are_none_are_a_mistake(client_as, items):
    client = client_as("reviewer")
    claim = "00000000-0000-0000-0000-000000000000"
    for page in ("heartbeat", "release"):
        told = {"items": items.replace('"x"', f'"{claim}"')}
        assert client.post(f"/synthesis/review/{page}/", told).status_code == 400


def test_items_besides_are_numbers_of_the_database(client_as):
    client = client_as("reviewer")
    for besides in KEYS:
        assert client.post("/synthesis/review/next/", {"besides": besides}).status_code == 200


def test_a_page_address_that_is_none_saves_no_filters(client_as):
    client = client_as("reviewer")
    told = {"page": "review", "name": "mine"}
    for at in ("http://[", "//[x?rule=a", "javascript:alert(1)"):
        answer = client.post("/synthesis/views/", told, headers={"HX-Current-URL": at})
        assert answer.status_code == 200 and b"javascript:" not in answer.content


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_the_api_takes_no_number_that_is_none(client, user_with, number):
    headers = {"Authorization": f"Token {token_of(user_with('admin'))}"}
    client.raise_request_exception = False
    answer = client.get("/api/v1/review/quality", {"target": number, "floor": number}, headers=headers)
    assert answer.status_code == 400
    told = {"claim": "00000000-0000-0000-0000-000000000000", "verdict": "approve", "seconds": number}
    answer = client.post("/api/v1/review/decisions", told, content_type="application/json", headers=headers)
    assert answer.status_code == 400


def test_what_was_taken_back_is_hidden_from_who_reads_next(user_with):
    sample = make_sample()
    first, second, expert = (
        user_with(role, username=role + name)
        for role, name in (("reviewer", "1"), ("reviewer", "2"), ("expert", ""))
    )
    claim = claim_next(first).claim
    review_services.reject(sample=sample.pk, reviewer=first, reason="unnatural", claim=claim)
    review_services.undo(reviewer=first)
    sample = Sample.objects.get(pk=sample.pk)
    assert decisions_shown(sample, second) == decisions_shown(sample, expert) == ([], 2)
    assert len(decisions_shown(sample, first)[0]) == 2  # one's own


def test_a_notice_is_one_line_whatever_a_person_typed(user_with):
    person = user_with("reviewer")
    tell([person], "assignment", "gave you: by Friday\r\n\r\nBcc: x@y\u2028- pay here", link="/")
    assert Notice.objects.get().text == "gave you: by Friday Bcc: x@y - pay here"


def test_an_address_no_mail_can_go_to_keeps_no_mail_from_others(user_with):
    people = [user_with("reviewer", username=name) for name in ("a", "b")]
    people[0].email, people[1].email = "x@y.example\nBcc: z@y.example", "b@y.example"
    for person in people:
        person.save()
    tell(people, "comment", "hello", link="/")
    notices = Notice.objects.select_related("recipient").order_by("recipient")
    said = [notices_services.send_mail([Delivery(notice=one)], timezone.now()).error for one in notices]
    assert said[0] and said[1] == ""
