"""The webhook pages and API: admins only, the secret is told once, every button does what it says."""

import pytest
from rest_framework.test import APIClient

from tests.tokens import token_of
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.deliveries import Delivery
from trace_site.rest.idempotency import IdempotencyKey
from trace_site.rest.tokens import ApiToken
from trace_site.webhooks.services import Webhook, emit_all, webhook_create, webhook_pause

pytestmark = pytest.mark.django_db


@pytest.fixture
def hook(receiver, user_with):
    return webhook_create(
        url=receiver.url, events=["rule.published"], actor=user_with("admin", username="ada")
    )


@pytest.fixture
def api(user_with):
    def make(role: str) -> APIClient:
        client = APIClient()
        token = token_of(user_with(role, username=f"api-{role}"))
        client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
        return client

    return make


@pytest.mark.parametrize("role", ["expert", "reviewer", "product_manager"])
def test_webhooks_are_for_admins(client_as, api, hook, role):
    client = client_as(role)
    Delivery.objects.create(webhook=hook, event="ping", payload={})
    delivery = Delivery.objects.get().pk
    for path in ("", f"{hook.pk}/", f"deliveries/{delivery}/"):
        assert client.get(f"/webhooks/{path}").status_code == 403
    for path in ("", f"{hook.pk}/test/", f"{hook.pk}/delete/", f"deliveries/{delivery}/again/"):
        assert client.post(f"/webhooks/{path}", {}).status_code == 403
    program = api(role)
    assert program.get("/api/v1/webhooks").status_code == 403
    assert program.get(f"/api/v1/webhooks/{hook.pk}/deliveries").status_code == 403
    assert program.post(f"/api/v1/webhooks/{hook.pk}/test").status_code == 403
    assert Webhook.objects.count() == 1


def test_a_webhook_is_added_and_its_secret_told_once(client_as, receiver):
    client = client_as("admin")
    assert "No server is told anything yet" in client.get("/webhooks/").content.decode()
    answer = client.post("/webhooks/", {"url": receiver.url, "events": ["rule.published"]})
    hook = Webhook.objects.get()
    page = client.get(answer["Location"]).content.decode()
    assert hook.secret in page and "Copy the secret now" in page
    assert hook.secret not in client.get(answer["Location"]).content.decode()
    client.post(f"/webhooks/{hook.pk}/rotate/")
    page = client.get(f"/webhooks/{hook.pk}/").content.decode()
    assert Webhook.objects.get().secret in page != hook.secret


def test_a_wrong_address_keeps_what_was_typed(client_as):
    client = client_as("admin")
    page = client.post("/webhooks/", {"url": "http://10.0.0.1/", "events": ["rule.published"]})
    text = page.content.decode()
    assert page.status_code == 422 and "http://10.0.0.1/" in text and "must begin with https" in text
    assert 'value="rule.published" checked' in text and not Webhook.objects.exists()


def test_a_test_shows_what_came_back_and_a_failed_one_is_sent_again(client_as, hook, receiver):
    client = client_as("admin")
    receiver.faults = ["500", "ok"]
    page = client.post(f"/webhooks/{hook.pk}/test/", follow=True).content.decode()
    assert "It answered 500" in page and "received" in page and "X-Trace-Delivery" in page
    delivery = Delivery.objects.get()
    page = client.post(f"/webhooks/deliveries/{delivery.pk}/again/", follow=True).content.decode()
    assert "it answered 200" in page
    assert receiver.received[0]["X-Trace-Delivery"] == receiver.received[1]["X-Trace-Delivery"]
    assert hook.secret not in page


def test_pausing_changing_and_removing(client_as, hook):
    client = client_as("admin")
    client.post(f"/webhooks/{hook.pk}/pause/")
    assert "Paused by hand" in client.get(f"/webhooks/{hook.pk}/").content.decode()
    client.post(f"/webhooks/{hook.pk}/resume/")
    client.post(f"/webhooks/{hook.pk}/", {"url": hook.url, "events": ["model.promoted"]})
    assert Webhook.objects.get().events == ["model.promoted"]
    client.post(f"/webhooks/{hook.pk}/delete/")
    assert not Webhook.objects.exists()
    actions = AuditEntry.objects.filter(object_type="webhook").order_by("id").values_list("action", flat=True)
    assert list(actions) == [
        "webhook.created",
        "webhook.paused",
        "webhook.resumed",
        "webhook.changed",
        "webhook.deleted",
    ]


def test_lists_cost_the_same_with_many_rows(client_as, hook, django_assert_num_queries):
    client = client_as("admin")
    emit_all("rule.published", [{"n": n} for n in range(60)])
    for number in range(10):
        webhook_create(url=f"{hook.url}{number}", events=["rule.published"], actor=hook.created_by)
    with django_assert_num_queries(5):  # session, user, roles, strip, webhooks
        client.get("/webhooks/")
    with django_assert_num_queries(6):  # session, user, roles, strip, webhook, deliveries
        client.get(f"/webhooks/{hook.pk}/")


def test_the_api_does_what_the_pages_do(api, receiver):
    client = api("admin")
    given = {"url": receiver.url, "events": ["rule.published"]}
    made = client.post("/api/v1/webhooks", given, format="json", headers={"Idempotency-Key": "k"})
    again = client.post("/api/v1/webhooks", given, format="json", headers={"Idempotency-Key": "k"})
    hook = Webhook.objects.get()
    assert made.status_code == again.status_code == 201 and made.json()["secret"] == hook.secret
    assert again.json() == {**made.json(), "secret": None}
    assert hook.secret not in IdempotencyKey.objects.get().body
    address = f"/api/v1/webhooks/{hook.pk}"
    assert "secret" not in client.get(address).json()
    assert client.get("/api/v1/webhooks").json()["results"] == [client.get(address).json()]
    tested = client.post(f"{address}/test").json()
    assert tested["event"] == "ping" and tested["log"][0]["status"] == 200
    assert client.get(f"{address}/deliveries").json()["results"][0]["id"] == tested["id"]
    assert client.post(f"{address}/deliveries/{tested['id']}/send").json()["attempt"] == 2
    assert client.patch(address, {"active": False}, format="json").json()["active"] is False
    assert client.patch(address, {"events": ["x"]}, format="json").json()["code"] == "bad_input"
    assert client.post(f"{address}/secret").json()["secret"] != hook.secret
    assert client.delete(address).status_code == 204 and client.get(address).status_code == 404


def test_a_changed_secret_is_told_to_the_ledger_without_its_value(hook, client_as):
    client_as("admin").post(f"/webhooks/{hook.pk}/rotate/")
    change = AuditChange.objects.filter(table_name="trace_site_webhook", operation="UPDATE").get()
    assert change.after == {"salt": "(hidden, replaced)"} and change.source.startswith("page /webhooks/")


def test_the_audit_api_pages_filters_and_is_for_admins(api, hook):
    admin, expert = api("admin"), api("expert")
    webhook_pause(webhook=hook, actor=hook.created_by, active=False)
    first = admin.get("/api/v1/audit?limit=1").json()
    second = admin.get(f"/api/v1/audit?limit=1&after={first['next']}").json()
    assert first["results"][0]["id"] != second["results"][0]["id"] or first["results"] != second["results"]
    asked = "/api/v1/audit?object_type=webhook&action=INSERT"
    assert admin.get(asked).json()["results"][0]["after"]["url"] == hook.url
    assert expert.get(asked).status_code == 403
    assert admin.get("/api/v1/audit?nothing=1").status_code == 400
    assert admin.get("/api/v1/audit?after=x").status_code == 400
    assert APIClient().get("/api/v1/audit").status_code == 401


def test_a_token_is_revoked(client_as):
    client = client_as("expert")
    client.post("/account/token/", {"holds": "all", "password": "pass"})
    assert ApiToken.objects.count() == 1 and "/api/v1/docs" in client.get("/account/").content.decode()
    page = client.post("/account/token/revoke/", follow=True).content.decode()
    assert ApiToken.objects.count() == 0 and "revoked" in page
    assert AuditEntry.objects.filter(action="token.revoked").count() == 1
