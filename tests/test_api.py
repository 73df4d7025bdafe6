"""What every resource of the API shares, tried on a view of the test's own."""

import json
import threading
import time
from collections import Counter
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import resolve
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory

from catalog.models import Domain
from tests.factories import make_domain
from tests.tokens import token_of
from trace_site.database import delete_in_parts
from trace_site.lib.errors import TraceError, status_of
from trace_site.rest.idempotency import IdempotencyKey, expired
from trace_site.rest.schema import InputSerializer
from trace_site.rest.views import ApiView, etag_of, keyset_response, require_match


class Web(APIRequestFactory):
    """Asks under an address that everybody with a role reads, and experts and admins write."""

    def request(self, **environment):
        request = super().request(**environment)
        request.resolver_match = resolve("/api/v1/imports")
        return request


web = Web()
gate = threading.Barrier(2, timeout=10)


class DomainIn(InputSerializer):
    slug = serializers.SlugField(max_length=60)
    title = serializers.CharField(max_length=100)


class DomainOut(serializers.ModelSerializer):
    class Meta:
        model = Domain
        fields = ["slug", "title"]


class Domains(ApiView):
    parser_classes = [*ApiView.parser_classes, MultiPartParser]

    def get(self, request):
        return keyset_response(request, Domain.objects.all(), DomainOut, by="slug")

    def post(self, request):
        domain = Domain.objects.create(**self.read(DomainIn))
        if domain.title == "meet me":
            gate.wait()
            gate.wait()
        if domain.title == "refuse":
            raise TraceError("refused after writing.", code="bad_state")
        return Response(DomainOut(domain).data, status=201, headers={"ETag": etag_of(1)})

    def patch(self, request):
        require_match(request, 3)
        return Response({})


@pytest.fixture
def expert(user_with):
    return user_with("expert")


def ask(user: Any, data: Any = None, method: str = "post", path: str = "/x", **headers: str):
    token = token_of(user)
    raw = isinstance(data, bytes)
    request = getattr(web, method)(
        path,
        data,
        headers={"Authorization": f"Token {token}", **headers},
        **({"content_type": "application/json"} if raw else {"format": headers.pop("format", "json")}),
    )
    return Domains.as_view()(request)


def body(response: Any) -> Any:
    return json.loads(
        response.content if hasattr(response, "content") and response.is_rendered else "null"
    ) or (response.data)


def test_a_key_sent_twice_has_one_effect_and_one_answer(expert):
    first, second = (
        ask(expert, {"slug": "hr", "title": "HR"}, **{"Idempotency-Key": "k1"}) for _ in range(2)
    )
    assert first.status_code == second.status_code == 201
    assert first.content == second.content and second["Idempotent-Replayed"] == "true"
    assert second["ETag"] == '"1"' and "Idempotent-Replayed" not in first
    assert Domain.objects.count() == 1


def test_a_key_belongs_to_one_request_and_one_user(expert, user_with):
    ask(expert, {"slug": "hr", "title": "HR"}, **{"Idempotency-Key": "k1"})
    other = ask(expert, {"slug": "it", "title": "IT"}, **{"Idempotency-Key": "k1"})
    assert other.status_code == 422 and other.data["code"] == "key_reused"
    stranger = ask(user_with("admin"), {"slug": "it", "title": "IT"}, **{"Idempotency-Key": "k1"})
    assert stranger.status_code == 201 and Domain.objects.count() == 2


def test_a_refused_request_leaves_neither_effect_nor_key(expert):
    refused = ask(expert, {"slug": "hr", "title": "refuse"}, **{"Idempotency-Key": "k1"})
    assert refused.status_code == 409
    assert not Domain.objects.exists() and not IdempotencyKey.objects.exists()
    assert ask(expert, {"slug": "hr", "title": "HR"}, **{"Idempotency-Key": "k1"}).status_code == 201


@pytest.mark.django_db(transaction=True)
def test_a_key_whose_request_still_runs_is_refused(expert):
    answers = []

    def slow():
        try:
            answers.append(ask(expert, {"slug": "hr", "title": "meet me"}, **{"Idempotency-Key": "k1"}))
        finally:
            connection.close()

    thread = threading.Thread(target=slow)
    token_of(expert)
    thread.start()
    gate.wait()
    meanwhile = ask(expert, {"slug": "hr", "title": "meet me"}, **{"Idempotency-Key": "k1"})
    gate.wait()
    thread.join()
    assert (
        meanwhile.status_code == 409 and meanwhile.data["code"] == "key_in_use" and meanwhile["Retry-After"]
    )
    assert answers[0].status_code == 201 and Domain.objects.count() == 1


def test_keys_are_forgotten_after_a_day(expert):
    ask(expert, {"slug": "hr", "title": "HR"}, **{"Idempotency-Key": "k1"})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE trace_site_idempotencykey SET created_at = now() - interval '25 hours'")
    Domain.objects.all().delete()
    assert ask(expert, {"slug": "hr", "title": "HR"}, **{"Idempotency-Key": "k1"}).status_code == 201
    with connection.cursor() as cursor:
        cursor.execute("UPDATE trace_site_idempotencykey SET created_at = now() - interval '25 hours'")
    assert delete_in_parts(expired()) == 1


def test_an_uploaded_file_counts_by_its_content_not_by_its_boundary(expert):
    def upload(content: bytes):
        token = token_of(expert)
        data = {"slug": "hr", "title": "HR", "file": SimpleUploadedFile("a.csv", content)}
        headers = {"Authorization": f"Token {token}", "Idempotency-Key": "k1"}
        return Uploads.as_view()(web.post("/x", data, format="multipart", headers=headers))

    class Uploads(Domains):
        def post(self, request):
            return Response({"bytes": len(request.data["file"].read())}, status=201)

    assert body(upload(b"one")) == {"bytes": 3}
    assert upload(b"one")["Idempotent-Replayed"] == "true"
    assert upload(b"two").status_code == 422


@pytest.mark.parametrize("key", ["", "x" * 201, "ä", "a\tb"])
def test_a_key_that_is_none_is_refused(expert, key):
    refused = ask(expert, {"slug": "hr", "title": "HR"}, **{"Idempotency-Key": key})
    assert refused.status_code == 400 and refused.data["code"] == "bad_input"


@pytest.mark.parametrize(
    ("sent", "code", "words"),
    [
        (b"{", "bad_json", "line 1"),
        (b'{"slug": NaN}', "bad_json", "NaN is not JSON"),
        (b'{"slug": "a", "slug": "b"}', "bad_json", "'slug' is given twice"),
        (b'{"slug": "a\\u0000"}', "bad_json", "NUL"),
        (b'{"slug": "\\ud800"}', "bad_json", "surrogate"),
        (b'{"slug": "\xff"}', "bad_json", "UTF-8"),
        (b"[" * 100_000, "bad_json", "nested too deep"),
        (b'{"slug": ' + b"[" * 100 + b"]" * 100 + b"}", "bad_json", "deeper than 100 levels"),
        (b'{"slug": 1e400}', "bad_json", "'1e400' is larger than any number"),
        (b'{"slug": ' + b"9" * 5000 + b"}", "bad_json", "digits"),
        (b"[]", "bad_input", "dictionary"),
        (b"{}", "bad_input", "/slug: This field is required."),
        (b'{"slug": "a", "title": "b", "titel": 1}', "bad_input", "/titel: There is no such field"),
    ],
)
def test_wrong_bodies_are_told_what_is_wrong(expert, sent, code, words):
    refused = ask(expert, sent)
    assert refused.status_code == 400 and refused.data["code"] == code and words in refused.data["message"]
    assert not Domain.objects.exists()


HOSTILE = {
    "a key repeated after 60,000 others": b'{%s, "key00": 2}'
    % b", ".join(b'"key%02d": 1' % number for number in range(60_000)),
    "12,000 unknown fields": json.dumps({f"field{number}": 1 for number in range(12_000)}).encode(),
    "an unknown field with a long name": json.dumps({"x" * 900_000: 1}).encode(),
    "a long key twice": b'{"%s": 1, "%s": 1}' % (b"x" * 400_000, b"x" * 400_000),
    "a long choice": json.dumps({"slug": "x" * 900_000, "title": "x" * 900_000}).encode(),
    "lists of nothing": b'{"slug": [%s]}' % b", ".join([b"[]"] * 200_000),
    "escapes": b'{"slug": "%s"}' % (b"\\u00e9" * 150_000),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_body_costs_little_and_is_answered_briefly(expert, what):
    before = time.process_time()
    refused = ask(expert, HOSTILE[what])
    refused.render()
    assert time.process_time() - before < 20  # the repeated key took two minutes
    assert refused.status_code == 400 and len(refused.content) < 10_000


def test_other_content_types_and_large_bodies_are_refused(expert, settings):
    token = token_of(expert)
    headers = {"Authorization": f"Token {token}"}
    refused = Domains.as_view()(web.post("/x", b"a,b", content_type="text/csv", headers=headers))
    assert refused.status_code == 415 and refused.data["code"] == "unsupported_media_type"
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    refused = ask(expert, {"slug": "hr", "title": "HR"})
    assert refused.status_code == 413 and refused.data["code"] == "too_large"


def test_who_may_not_is_told_and_nothing_is_written(user_with):
    reviewer = user_with("reviewer")
    refused = ask(reviewer, {"slug": "hr", "title": "HR"}, **{"Idempotency-Key": "k1"})
    assert refused.status_code == 403 and refused.data["code"] == "not_allowed"
    assert "domain expert or admin" in refused.data["message"] and not Domain.objects.exists()
    assert ask(reviewer, method="get").status_code == 200
    anonymous = Domains.as_view()(web.post("/x", {}, format="json"))
    assert anonymous.status_code == 401 and anonymous["WWW-Authenticate"] == "Token"
    wrong = Domains.as_view()(web.get("/x", headers={"Authorization": "Token none"}))
    assert wrong.status_code == 401 and wrong.data["code"] == "authentication_failed"


def test_a_clash_with_stored_rows_is_a_conflict_not_a_crash(expert):
    make_domain("hr")
    assert ask(expert, {"slug": "hr", "title": "HR"}, **{"Idempotency-Key": "k"}).status_code == 409


def test_lists_are_read_page_by_page(expert, django_assert_num_queries):
    for slug in "abcde":
        make_domain(slug)
    ask(expert, method="get")
    seen, after = [], ""
    while after is not None:
        # the token with its owner's roles, and its get_or_create in this test; one for the page
        with django_assert_num_queries(3):
            page = ask(expert, method="get", path=f"/x?limit=2&after={after}").data
        seen += [row["slug"] for row in page["results"]]
        after = page["next"]
    assert seen == list("abcde")
    for wrong in ("limit=0", "limit=201", "limit=x", "limit=²", "limit=" + "9" * 30):
        assert ask(expert, method="get", path=f"/x?{wrong}").status_code == 400


@pytest.mark.parametrize(
    ("sent", "status"),
    [(None, 428), ('"2"', 412), ('"3"', 200), ('W/"3"', 200), ('"1", "3"', 200), ("3", 412)],
)
def test_an_edit_names_the_revision_it_was_made_from(expert, sent, status):
    answer = ask(expert, {}, "patch", **({"If-Match": sent} if sent else {}))
    assert answer.status_code == status
    if status == 412:
        assert answer.data["extra"] == {"current": '"3"'}


def test_the_schema_is_valid_and_says_everything_once(capsys):
    call_command("spectacular", "--validate", "--fail-on-warn", "--format", "openapi-json")
    schema = json.loads(capsys.readouterr().out)
    assert {"tokenAuth"} <= set(schema["components"]["securitySchemes"])
    tags = {tag["name"] for tag in schema["tags"]}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            names = {parameter["name"] for parameter in operation.get("parameters", [])}
            keeps_answers = method == "post" and operation["tags"] != ["retrieve"]
            assert ("Idempotency-Key" in names) == keeps_answers, path
            assert set(operation["tags"]) <= tags, path
            assert {"400", "401"} <= set(operation["responses"]), path


def test_the_docs_load_nothing_from_elsewhere(client):
    page = client.get("/api/v1/docs")
    assert page.status_code == 200 and b"https://" not in page.content and b"<style" not in page.content
    assert client.get("/api/v1/docs?script=").status_code == 200


def test_a_caller_who_asks_too_often_is_told_how_long_to_wait(expert, user_with, settings):
    settings.API_RATE = 2
    answers = [ask(expert, method="get") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[-1].data["code"] == "rate_limited" and 0 < int(answers[-1]["Retry-After"]) <= 60
    assert ask(user_with("admin"), method="get").status_code == 200


@pytest.mark.django_db
def test_guesses_of_tokens_and_calls_without_one_run_out_for_their_address_alone(settings):
    settings.API_ADDRESS_RATE = 2

    def called(address: str = "203.0.113.7", **headers: str) -> int:
        return Domains.as_view()(web.get("/x", headers=headers, REMOTE_ADDR=address)).status_code

    codes = [called(), called(Authorization="Token guessed"), called(), called(Authorization="Token guessed")]
    assert codes == [401, 401, 429, 429] and called("198.51.100.9") == 401


def test_an_account_that_may_do_nothing_uses_up_its_own_budget_and_nobody_elses(user_with, settings):
    """All from one address: with a token without a role, with guesses, then six people."""
    settings.API_RATE = settings.API_ADDRESS_RATE = 20
    path, idle = "/api/v1/domains", {"Authorization": f"Token {token_of(user_with())}"}
    refused = Counter(Client().get(path, headers=idle).status_code for _ in range(30))
    guessed = Counter(Client().get(path, headers={"Authorization": "Token x"}).status_code for _ in range(30))
    assert (refused, guessed) == ({403: 20, 429: 10}, {401: 20, 429: 10})
    people = [user_with("expert", username=f"person-{number}") for number in range(6)]
    asked = [{"Authorization": f"Token {token_of(person)}"} for person in people for _ in range(3)]
    assert {Client().get(path, headers=headers).status_code for headers in asked} == {200}


def test_an_edit_that_names_no_revision_is_refused(user_with):
    request = web.put("/x", headers={"If-Match": "*"})
    with pytest.raises(TraceError, match="names no revision") as refused:
        require_match(request, 3)
    assert status_of(refused.value.code) == 428


def test_more_parameters_than_are_counted_are_refused_in_json(client):
    answer = client.get("/api/v1/domains?" + "&".join(f"a{number}=1" for number in range(2001)))
    assert answer.status_code == 400 and answer.json()["code"] == "too_many"
    assert "more than 2,000 parameters" in answer.json()["message"]


def test_the_description_is_not_made_for_one_address_without_end(client, monkeypatch):
    monkeypatch.setattr("trace_site.rest.throttles.MOST_DESCRIPTIONS", 0)
    refused = client.get("/api/v1/schema")
    assert refused.status_code == 429 and 0 < int(refused["Retry-After"]) <= 60
    assert "rate_limited" in refused.content.decode()
