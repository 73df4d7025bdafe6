"""The REST API of change requests: from draft to applied, and whatever another person does meanwhile."""

import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone
from rest_framework.test import APIClient

from rules.core.rule import keyed
from rules.models import ChangeRequest, Rule, RuleChange
from tests.factories import make_tool
from tests.hook_server import HookServer
from tests.rules.saving import rule_save
from tests.tokens import token_of
from trace_site.audit.models import AuditEntry
from trace_site.deliveries import deliver_due
from trace_site.webhooks.services import webhook_create

pytestmark = pytest.mark.django_db
TEXT = "Use Pay/get from 2024 on, and Pay/getOld for every month before that."
CONTENT: dict[str, Any] = {"tool_name": "Pay/get", "confusables": ["Pay/getOld"], "rule_text": TEXT}
REQUESTS = "/api/v1/change-requests"


@pytest.fixture(autouse=True)
def tools() -> None:
    for name in ("Pay/get", "Pay/getOld", "Pay/third"):
        make_tool(name)


class Client(APIClient):
    """Speaks JSON with one person's token; bodies come back parsed."""

    def __init__(self, user: Any) -> None:
        super().__init__()
        self.user = user
        self.credentials(HTTP_AUTHORIZATION=f"Token {token_of(user)}")

    def say(self, method: str, path: str, body: Any = None, match: Any = None, **headers: str) -> Any:
        if match is not None:
            headers["HTTP_IF_MATCH"] = match if isinstance(match, str) else f'"{match}"'
        return self.generic(method, path, json.dumps(body or {}), "application/json", **headers)


@pytest.fixture
def erin(user_with) -> Client:
    return Client(user_with("expert", username="erin"))


@pytest.fixture
def ada(user_with) -> Client:
    return Client(user_with("admin", username="ada"))


@pytest.fixture
def rule() -> Rule:
    fields = {"target": "Pay/get", "confusables": ["Pay/getOld"], "text": TEXT}
    return rule_save(**fields, code="X", publish=True).version.rule


def create(client: Client, *changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = client.say("POST", REQUESTS, {"changes": list(changes), **more})
    assert answer.status_code == 201, answer.json()
    return answer.json()


def act(client: Client, request: dict[str, Any], verb: str, **body: Any) -> Any:
    return client.say("POST", f"{REQUESTS}/{request['id']}/{verb}", body)


def code_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "")


def test_from_a_draft_to_a_signed_webhook(erin, ada, rule, settings) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    receiver = HookServer()
    hook = webhook_create(url=receiver.url, events=["rule.published"], actor=ada.user)
    key = {"HTTP_IDEMPOTENCY_KEY": "one-request"}
    body = {"changes": [{"rule": rule.pk}]}
    made = erin.say("POST", REQUESTS, body, **key)
    again = erin.say("POST", REQUESTS, body, **key)
    assert made.json() == again.json() and again["Idempotent-Replayed"] == "true"
    assert ChangeRequest.objects.count() == 1
    change = made.json()["changes"][0]["change"]
    assert change["content"]["rule_text"] == TEXT and change["base"] == 1

    address = f"/api/v1/changes/{change['id']}"
    read = erin.get(address)
    new = CONTENT | {"confusables": ["Pay/getOld", "Pay/third"]}
    saved = erin.say("PUT", address, new, match=read["ETag"])
    assert (saved.status_code, saved["ETag"]) == (200, '"2"')
    late = ada.say("PUT", address, CONTENT | {"rule_text": "lost?"}, match=read["ETag"])
    assert code_of(late) == (412, "edited_meanwhile")
    assert (late.json()["extra"]["by"], late.json()["extra"]["revision"]) == ("erin", 2)
    assert "erin saved this change at" in late.json()["message"]
    assert erin.get(address).json()["content"]["confusables"] == ["Pay/getOld", "Pay/third"]

    request = erin.get(f"{REQUESTS}/{made.json()['id']}").json()
    request = act(erin, request, "submit", revision=request["revision"]).json()
    assert (request["state"], request["title"]) == ("in_review", "X")
    assert code_of(act(erin, request, "approve", revision=request["revision"])) == (403, "not_allowed")
    request = act(ada, request, "approve", revision=request["revision"], comment="good").json()
    assert request["state"] == "approved"
    applied = act(ada, request, "apply", revision=request["revision"])
    assert applied.json()["state"] == "applied" and Rule.objects.get().published.number == 2

    assert deliver_due() == 1
    got = receiver.received[0]
    receiver.close()
    stamp, mac = (part.split("=", 1)[1] for part in got["X-Trace-Signature"].split(","))
    assert (
        hmac.new(hook.secret.encode(), stamp.encode() + b"." + got["body"], hashlib.sha256).hexdigest() == mac
    )
    told = json.loads(got["body"])
    assert (told["event"], told["data"]["code"]) == ("rule.published", "X")
    detail = erin.get(f"{REQUESTS}/{request['id']}").json()
    assert detail["changes"][0]["change"]["version"] == 2
    assert [word["reviewer"] for word in detail["approvals"]] == ["ada"]
    assert AuditEntry.objects.filter(action="request.applied", actor=ada.user).exists()


def test_create_takes_all_changes_or_none(erin, rule) -> None:
    twice = erin.say("POST", REQUESTS, {"changes": [{"rule": rule.pk}, {"rule": rule.pk}]})
    assert code_of(twice) == (409, "conflict")
    none = erin.say("POST", REQUESTS, {"changes": [CONTENT, {"rule": 0}]})
    assert code_of(none) == (404, "not_found")
    assert not ChangeRequest.objects.exists()
    made = create(erin, CONTENT | {"code": "NEW"}, {"rule": rule.pk, "action": "withdraw"}, title="Two")
    assert [view["change"]["action"] for view in made["changes"]] == ["save", "withdraw"]
    assert made["changes"][1]["change"]["content"] is None
    assert made["may"][:1] == ["edit"] and "submit" in made["may"]


def test_list_is_filtered_and_read_page_by_page(erin, ada, django_assert_num_queries) -> None:
    ids = [create(erin, title=f"request {number}")["id"] for number in range(3)]
    create(ada, title="other")
    page = erin.get(REQUESTS, {"whose": "mine", "limit": 2}).json()
    assert [row["id"] for row in page["results"]] == ids[:0:-1]
    rest = erin.get(REQUESTS, {"whose": "mine", "after": page["next"]}).json()
    assert ([row["id"] for row in rest["results"]], rest["next"]) == (ids[:1], None)
    assert [row["title"] for row in erin.get(REQUESTS, {"q": "ada"}).json()["results"]] == ["other"]
    assert erin.get(REQUESTS, {"state": "applied"}).json()["results"] == []
    assert erin.get(REQUESTS, {"state": "lost"}).status_code == 400
    for size in (1, 4):
        with django_assert_num_queries(3):
            erin.get(REQUESTS, {"limit": size})


def test_title_and_description_are_edited_on_the_revision_that_was_read(erin, ada) -> None:
    made = create(erin, CONTENT)
    address = f"{REQUESTS}/{made['id']}"
    assert code_of(erin.say("PATCH", address, {"title": "T"})) == (428, "precondition_required")
    done = erin.say("PATCH", address, {"title": "T"}, match=erin.get(address)["ETag"])
    assert (done.json()["title"], done["ETag"]) == ("T", f'"{made["revision"] + 1}"')
    assert code_of(ada.say("PATCH", address, {"title": "U"}, match=made["revision"])) == (
        412,
        "precondition_failed",
    )
    kept = ada.say("PATCH", address, {"description": "why"}, match=done["ETag"]).json()
    assert (kept["title"], kept["description"]) == ("T", "why")


def test_a_change_is_added_saved_removed_and_rebased(erin, rule) -> None:
    made = create(erin)
    added = erin.say(
        "POST", f"{REQUESTS}/{made['id']}/changes", {"rule": rule.pk, "note": "n", "rule_text": "half"}
    )
    assert (added.status_code, added["ETag"]) == (201, '"1"')
    address = added["Location"]
    assert added.json()["content"] == keyed({}) | {
        "tool_name": "",
        "confusables": [],
        "rule_text": "half",
        "clauses": [],
        "tests": [],
    }
    for match, status in ((None, 428), ('"0"', 412), ("*", 428), ('W/"1"', 200)):
        assert erin.say("PUT", address, CONTENT, match=match).status_code == status
    same = erin.say("PUT", address, CONTENT, match=1)
    assert (same.status_code, same["ETag"]) == (200, '"2"')  # a retry of what is saved is harmless
    rule_save(target="Pay/get", confusables=["Pay/third"], text=f"{TEXT} Or Pay/third.", rule=rule)
    assert erin.get(f"{REQUESTS}/{made['id']}").json()["changes"][0]["conflicts"][0]["blocks"] is True
    assert erin.say("POST", f"{address}/rebase").status_code == 428
    rebased = erin.say("POST", f"{address}/rebase", match=2)
    assert (rebased.json()["base"], rebased["ETag"]) == (2, '"3"')
    assert code_of(erin.say("DELETE", address, match=2)) == (412, "edited_meanwhile")
    assert erin.say("DELETE", address, match=3).status_code == 204
    assert code_of(erin.get(address)) == (404, "not_found") and not RuleChange.objects.exists()


def test_old_content_comes_back_as_a_change(erin, ada, rule) -> None:
    rule_save(
        target="Pay/get", confusables=["Pay/third"], text=f"{TEXT} Or Pay/third.", rule=rule, publish=True
    )
    old = erin.get(f"/api/v1/rules/{rule.pk}/versions/1").json()["content"]
    made = create(erin, {"rule": rule.pk, **old})
    assert made["changes"][0]["change"]["base"] == 2 and made["changes"][0]["diff"]["confusables_added"] == [
        "Pay/getOld"
    ]
    based = erin.say("POST", REQUESTS, {"changes": [{"rule": rule.pk, "base": 1}]}).json()
    assert based["changes"][0]["change"]["content"]["rule_text"] == TEXT
    assert erin.say("POST", REQUESTS, {"changes": [{"rule": rule.pk, "base": 9}]}).status_code == 404


def test_an_incomplete_rule_is_saved_but_not_submitted(erin) -> None:
    made = create(erin, {"rule_text": "half"})
    assert {problem["pointer"] for problem in made["changes"][0]["problems"]} >= {
        "/tool_name",
        "/confusables",
    }
    assert made["changes"][0]["findings"] is None
    refused = act(erin, made, "submit", revision=made["revision"])
    assert code_of(refused) == (400, "bad_rule") and refused.json()["extra"]["problems"]
    wrong = erin.say("POST", f"{REQUESTS}/{made['id']}/changes", {"confusables": ["x" * 401]})
    assert code_of(wrong) == (400, "bad_input") and wrong.json()["message"].startswith("/confusables/0")
    odd = erin.say("POST", f"{REQUESTS}/{made['id']}/changes", {"clauses": [{"wen": "x"}]})
    assert code_of(odd) == (400, "bad_input") and odd.json()["message"].startswith("/clauses/0/wen")


def test_verbs_name_the_revision_and_tell_what_stands_in_the_way(erin, ada) -> None:
    made = create(erin, CONTENT)
    assert code_of(act(erin, made, "submit")) == (400, "bad_input")
    assert code_of(act(erin, made, "submit", revision=99)) == (409, "stale_revision")
    request = act(erin, made, "submit", revision=made["revision"]).json()
    assert code_of(act(ada, request, "reject", revision=request["revision"])) == (400, "reason_missing")
    assert act(ada, request, "comments", text="why?").status_code == 201
    assert code_of(act(ada, request, "comments")) == (400, "reason_missing")
    rejected = act(ada, request, "reject", revision=request["revision"], reason="no").json()
    assert (rejected["state"], rejected["reason"]) == ("rejected", "no")
    assert code_of(act(erin, request, "apply")) == (409, "bad_state")
    request = act(erin, request, "reopen").json()
    request = act(erin, request, "submit", revision=request["revision"]).json()
    request = act(ada, request, "approve", revision=request["revision"]).json()
    past = (timezone.now() - timedelta(hours=1)).isoformat()
    assert code_of(act(ada, request, "schedule", at=past)) == (400, "bad_time")
    assert code_of(act(ada, request, "schedule", at="soon")) == (400, "bad_input")
    later = (timezone.now() + timedelta(hours=1)).isoformat()
    assert act(ada, request, "schedule", at=later).json()["state"] == "scheduled"
    assert act(ada, request, "unschedule").json()["state"] == "approved"
    assert act(erin, request, "cancel", reason="settled").json()["state"] == "cancelled"
    detail = erin.get(f"{REQUESTS}/{request['id']}").json()
    assert [comment["text"] for comment in detail["comments"]] == ["why?"]


def test_bypass_needs_its_permission_and_a_reason(erin, ada) -> None:
    ada.user.user_permissions.add(Permission.objects.get(codename="bypass_review"))
    made = create(erin, CONTENT)
    request = act(erin, made, "submit", revision=made["revision"]).json()
    assert code_of(act(erin, request, "bypass", reason="now")) == (403, "not_allowed")
    assert code_of(act(ada, request, "bypass")) == (400, "reason_missing")
    done = act(ada, request, "bypass", reason="payroll closes").json()
    assert (done["state"], done["bypassed"], done["reason"]) == ("applied", True, "payroll closes")
    assert AuditEntry.objects.filter(action="request.bypassed").exists()


def test_impact_is_told_before_approval(erin, rule) -> None:
    made = create(erin, {"rule": rule.pk, "rule_text": "x"})
    answer = erin.get(f"{REQUESTS}/{made['id']}/impact").json()
    assert set(answer) == {"total", "rules"} and isinstance(answer["total"], list)
    assert erin.get(f"{REQUESTS}/0/impact").status_code == 404


@pytest.mark.parametrize(("roles", "reads"), [((), 403), (("reviewer",), 200), (("product_manager",), 403)])
def test_who_does_not_write_rules_changes_nothing(user_with, erin, roles, reads) -> None:
    made = create(erin, CONTENT)
    reader = Client(user_with(*roles))
    change = f"/api/v1/changes/{made['changes'][0]['change']['id']}"
    assert reader.get(f"{REQUESTS}/{made['id']}").status_code == reader.get(change).status_code == reads
    tries = [
        ("POST", REQUESTS), ("PATCH", f"{REQUESTS}/{made['id']}"), ("POST", f"{REQUESTS}/{made['id']}/changes"),
        ("PUT", change), ("DELETE", change), ("POST", f"{REQUESTS}/{made['id']}/submit"),
        ("POST", f"{REQUESTS}/{made['id']}/comments"),
    ]  # fmt: skip
    for method, path in tries:
        assert code_of(reader.say(method, path, match="*")) == (403, "not_allowed")
    assert ChangeRequest.objects.get().revision == made["revision"]
