"""The REST API of rules: lists, versions, comparison, checks, files in and out."""

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from rest_framework.test import APIClient

from rules.exchange.services import as_text, rules_export
from rules.models import ChangeRequest, Rule
from rules.services import rule_withdraw
from tests.factories import make_tool
from tests.rules.saving import rule_save
from tests.tokens import token_of
from trace_site.audit.models import AuditEntry
from trace_site.people.services import person_invite
from trace_site.rest.tokens import service_token_make

pytestmark = pytest.mark.django_db
TEXT = "Use Pay/get from 2024 on, and Pay/getOld for every month before that."
RULE: dict[str, Any] = {"tool_name": "Pay/get", "confusables": ["Pay/getOld"], "rule_text": TEXT}
API = "/api/v1/rules"


@pytest.fixture(autouse=True)
def tools() -> None:
    for name in ("Pay/get", "Pay/getOld", "Pay/third"):
        make_tool(name)


@pytest.fixture
def api(user_with):
    """api("expert") -> a client with that user's token."""

    def login(*roles: str) -> APIClient:
        token = token_of(user_with(*roles))
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
        return client

    return login


def save(code: str, text: str = TEXT, rule: Rule | None = None, publish: bool = True, **more: Any) -> Rule:
    fields = {"target": "Pay/get", "confusables": ["Pay/getOld"], "text": text, "code": code} | more
    return rule_save(**fields, rule=rule, publish=publish).version.rule


def test_list_is_filtered_and_read_page_by_page(api, django_assert_num_queries) -> None:
    for code in ("ALPHA", "BETA", "GAMMA"):
        save(code, f"{TEXT} {code.lower()} words")
    save("BETA", f"{TEXT} later", rule=Rule.objects.get(code="BETA"), publish=False)
    rule_withdraw(rule=Rule.objects.get(code="GAMMA"))
    client = api("product_manager")
    first = client.get(API, {"limit": 2}).json()
    assert [(row["code"], row["state"], row["version"]) for row in first["results"]] == [
        ("ALPHA", "published", 1), ("BETA", "changed", 2),
    ]  # fmt: skip
    assert first["results"][1]["published"] == 1
    last = client.get(API, {"limit": 2, "after": first["next"]}).json()
    assert ([row["code"] for row in last["results"]], last["next"]) == (["GAMMA"], None)
    found = [client.get(API, query).json()["results"] for query in (
        {"state": "draft"}, {"q": "alpha WORDS"}, {"light": "error"}, {"domain": "none"}, {"light": "warning"},
    )]  # fmt: skip
    assert [len(rows) for rows in found] == [1, 1, 0, 0, 3]
    for wrong in ({"state": "x"}, {"limit": "0"}, {"colour": "red"}):
        assert client.get(API, wrong).status_code == 400
    for size in (1, 3):
        with django_assert_num_queries(4):
            client.get(API, {"limit": size})


def test_rule_versions_and_their_difference(api) -> None:
    rule = save("X")
    save("X", f"{TEXT} Ask.", rule=rule, confusables=["Pay/getOld", "Pay/third"])
    client = api("reviewer")
    detail = client.get(f"{API}/{rule.pk}").json()
    assert (detail["published"], detail["newest"]["number"], detail["newest"]["published"]) == (2, 2, True)
    assert detail["newest"]["content"]["confusables"] == ["Pay/getOld", "Pay/third"]
    assert {finding["code"] for finding in detail["findings"]} >= {"no_test"}
    versions = client.get(f"{API}/{rule.pk}/versions", {"limit": 1}).json()
    assert ([row["number"] for row in versions["results"]], versions["next"]) == ([2], "2")
    after = client.get(f"{API}/{rule.pk}/versions", {"after": versions["next"]}).json()
    assert [row["number"] for row in after["results"]] == [1]
    one = client.get(f"{API}/{rule.pk}/versions/1").json()
    assert (one["content"]["rule_text"], one["published"]) == (TEXT, False)
    assert one["statements"][0]["token"] == "<<hr/X#1>>" and one["statements"][0]["text"] in TEXT
    assert [row["in_force"] for row in one["statements"]] == [True, True]
    diff = client.get(f"{API}/{rule.pk}/diff", {"from": 1, "to": 2}).json()["diff"]
    assert (diff["changed"], diff["confusables_added"]) == (["confusables", "text"], ["Pay/third"])
    assert diff["text"][-1] == {"kind": "added", "words": "Ask."}
    assert client.get(f"{API}/{rule.pk}/diff", {"from": 1}).json()["extra"] == {
        "to": ["This field is required."]
    }
    for missing in (
        f"{API}/0",
        f"{API}/{rule.pk}/versions/9",
        f"{API}/{rule.pk}/diff?from=1&to=9",
        f"{API}/{10**30}",
    ):
        assert client.get(missing).json()["code"] == "not_found"


def test_check_says_what_saving_would_and_writes_nothing(api) -> None:
    rule = save("X")
    client = api("product_manager")
    sound = RULE | {"tests": [{"query": "march slip", "tools": ["Pay/get"]}]}
    own = client.post(f"{API}/check", sound | {"rule": rule.pk}, format="json").json()
    assert own["light"] == "ok"
    other = client.post(f"{API}/check", sound, format="json").json()
    assert (other["light"], other["findings"][0]["other"]) == ("warning", "X")
    bad = client.post(f"{API}/check", RULE | {"tool_name": "Pay/gett"}, format="json")
    assert bad.status_code == 400 and bad.json()["code"] == "bad_rule"
    assert bad.json()["extra"]["problems"][0]["pointer"] == "/tool_name"
    unknown = client.post(f"{API}/check", RULE | {"text": "x"}, format="json").json()
    assert "There is no such field" in unknown["message"]
    assert Rule.objects.count() == 1 and not ChangeRequest.objects.exists()


def test_export_has_the_bytes_of_the_page_and_the_command(api) -> None:
    save("ALPHA", tests=[{"query": "=cmd", "tools": ["Pay/get"]}])
    save("BETA", f"{TEXT} Beta.")
    client = api("product_manager")
    for fmt, kind in (("json", "application/json"), ("csv", "text/csv")):
        answer = client.get(f"{API}/export", {"format": fmt})
        assert answer.content.decode() == as_text(rules_export(), fmt)
        assert answer["Content-Type"].startswith(kind)
    assert [rule["code"] for rule in client.get(f"{API}/export", {"q": "beta"}).json()] == ["BETA"]
    assert client.get(f"{API}/export", {"format": "xml"}).status_code == 400
    assert client.get(f"{API}/export", HTTP_ACCEPT="text/csv").status_code == 200


@pytest.mark.parametrize("way", ["json", "csv", "form"])
def test_import_makes_one_change_request_however_the_file_is_sent(api, way: str) -> None:
    save("OLD")
    rules = [RULE | {"code": "OLD", "rule_text": f"{TEXT} More."}, RULE | {"code": "NEW", "evidence": "p"}]
    client = api("expert")
    if way == "json":
        sent = {"data": json.dumps(rules), "content_type": "application/json"}
    elif way == "csv":
        rows = "".join(f'{r["code"]};Pay/get;Pay/getOld;"{r["rule_text"]}"\r\n' for r in rules)
        sent = {"data": f"code;tool_name;confusables;rule_text\r\n{rows}", "content_type": "text/csv"}
    else:
        sent = {
            "data": {"file": SimpleUploadedFile("mine.json", json.dumps(rules).encode())},
            "format": "multipart",
        }
    tried = client.post(f"{API}/import?dry_run=true", **sent)
    assert (tried.status_code, tried.json()["request"]) == (200, None)
    if way == "form":
        sent["data"]["file"].seek(0)
    made = client.post(f"{API}/import", **sent)
    assert made.status_code == 201
    answer, request = made.json(), ChangeRequest.objects.get()
    assert (answer["added"], answer["changed"], answer["request"]) == (1, 1, request.pk)
    assert answer["changes"][1] == {"kind": "added", "domain": "hr", "code": "NEW"}
    assert made["Location"] == f"/api/v1/change-requests/{request.pk}" and made["ETag"] == '"2"'
    assert request.changes.count() == 2 and Rule.objects.count() == 1
    assert way == "csv" or answer["ignored"] == {"evidence": 1}


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        (b"", 400, "bad_input", "there is no file"),
        (b" \n", 400, "bad_rules", "the file is empty"),
        (b'[{"tool_name": ', 400, "bad_json", "body:1:16"),
        (b"[" * 200_000, 400, "bad_json", "nested too deeply"),
        (b'[{"tool_name": "A/b", "confusables": ["Pay/get"], "rule_text": "t"}]', 400, "bad_rules", "#/0/tool_name"),
        (b"tool_name,confusables,rule_text\nPay/get,Pay/getOld,\xff", 400, "bad_encoding", "body:2:20"),
        (b'["' + b"x" * 5_000_001, 413, "too_large", "the limit is 5,000,000"),
        (b"[" + b"1," * 5_000 + b"1]", 413, "too_large", "the limit is 5,000"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_its_place(api, body: bytes, status: int, code: str, words: str) -> None:
    answer = api("admin").post(f"{API}/import", data=body, content_type="text/csv")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert words in answer.json()["message"]
    assert not ChangeRequest.objects.exists()


def test_bad_rows_are_left_out_when_asked(api) -> None:
    rows = json.dumps([RULE, {"rule_text": "x"}])
    client = api("expert")
    sent = {"data": rows, "content_type": "application/json"}
    assert client.post(f"{API}/import?filename=f.json", **sent).json()["extra"]["count"] == 2
    answer = client.post(f"{API}/import?skip_bad_rows=true&title=Mine", **sent).json()
    assert (answer["added"], answer["skipped"], len(answer["errors"])) == (1, 1, 2)
    assert ChangeRequest.objects.get().title == "Mine"
    again = client.post(f"{API}/import", data="a,b", content_type="text/plain")
    assert again.status_code == 400
    form = client.post(f"{API}/import", {"file": "no file"}, format="multipart")
    assert form.json()["code"] == "bad_input"


def test_somebody_signed_in_may_send_the_file_itself(user_with) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(user_with("expert"))
    client.cookies["csrftoken"] = secret = "s" * 32
    file = {"data": json.dumps([RULE]), "content_type": "application/json"}
    assert client.post(f"{API}/import", **file).status_code == 403
    assert client.post(f"{API}/import", **file, HTTP_X_CSRFTOKEN=secret).status_code == 201


def test_only_experts_and_admins_import(api) -> None:
    answer = api("reviewer").post(f"{API}/import", data=json.dumps([RULE]), content_type="application/json")
    assert answer.status_code == 403


def test_nobody_approves_what_a_program_wrote_with_their_token(user_with) -> None:
    """One admin, an account of a program, and its token; another admin may."""
    ada, rui = user_with("admin", username="ada"), user_with("admin", username="rui")
    bot = person_invite(username="desk-bot", email="", roles=["expert"], actor=ada, program=True)
    _, secret = service_token_make(owner=bot, name="writer", scopes=["read", "write"], days=1, actor=ada)
    by_token, by_ada, by_rui = APIClient(), APIClient(), APIClient()
    for client, token in ((by_token, secret), (by_ada, token_of(ada)), (by_rui, token_of(rui))):
        client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    requests = "/api/v1/change-requests"
    imported = by_token.post(f"{API}/import", [{**RULE, "code": "ONE", "domain": "hr"}], format="json").json()
    written = by_token.post(
        requests, {"changes": [{**RULE, "code": "TWO", "domain": "hr"}]}, format="json"
    ).json()
    for pk in (imported["request"], written["id"]):
        revision = by_token.get(f"{requests}/{pk}").json()["revision"]
        assert (
            by_token.post(f"{requests}/{pk}/submit", {"revision": revision}, format="json").status_code == 200
        )
        answers = [
            client.post(f"{requests}/{pk}/approve", {"revision": revision}, format="json")
            for client in (by_token, by_ada, by_rui)
        ]
        assert [answer.status_code for answer in answers] == [403, 403, 200]
        told = [answer.json().get("message", "") for answer in answers]
        assert "people decide this" in told[0] and "You wrote in this request" in told[1]
    event = AuditEntry.objects.filter(action="request.created").earliest("id")
    assert (event.actor, event.token["name"], event.token["maker"]) == (bot, "writer", "ada")
