"""Tokens of programs: what is stored of them, when they end, and what they may."""

from datetime import timedelta
from functools import partial
from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from tests.tokens import token_of as of_personal
from trace_site import access
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.lib.errors import TraceError, status_of
from trace_site.people.services import person_invite
from trace_site.rest.tokens import (
    ApiToken,
    digest_of,
    personal_token_make,
    service_token_make,
    service_token_permit,
    service_token_revoke,
    service_token_rotate,
    token_with_owner,
)

pytestmark = pytest.mark.django_db
READ = "/api/v1/domains"


def asked(secret: str, path: str = READ, **body: object) -> int:
    headers = {"Authorization": f"Token {secret}"}
    client = Client()
    if body:
        return client.post(path, body, "application/json", headers=headers).status_code
    return client.get(path, headers=headers).status_code


def service(owner: User, *scopes: str, days: int = 30) -> tuple[ApiToken, str]:
    return service_token_make(owner=owner, name="copilot", scopes=scopes, days=days, actor=owner)


def everything_stored() -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT string_agg(t::text, ' ') FROM trace_site_apitoken t) || "
            "(SELECT string_agg(c::text, ' ') FROM trace_site_auditchange c) || "
            "(SELECT string_agg(e::text, ' ') FROM trace_site_auditentry e)"
        )
        return str(cursor.fetchone()[0])


def test_no_token_can_be_read_from_the_database(user_with):
    user = user_with("admin")
    secrets = [personal_token_make(user=user)[1], service(user, "read")[1]]
    stored = everything_stored()
    assert [secret for secret in secrets if secret in stored or secret[12:] in stored] == []
    assert {asked(secret) for secret in secrets} == {200}


def test_a_personal_token_ends_after_its_days(user_with, settings):
    settings.TOKEN_DAYS = 7
    token, secret = personal_token_make(user=user_with("expert"))
    assert token.expires_at - timezone.now() > timedelta(days=6) and asked(secret) == 200
    ApiToken.objects.update(expires_at=timezone.now())
    assert asked(secret) == 401


def test_a_person_has_one_personal_token(user_with):
    user = user_with("expert")
    first, second = (personal_token_make(user=user)[1] for _ in range(2))
    assert (asked(first), asked(second), ApiToken.objects.count()) == (401, 200, 1)


def test_a_changed_password_ends_the_personal_token_and_no_service_token(user_with):
    user = user_with("admin")
    personal, of_program = personal_token_make(user=user)[1], service(user, "read")[1]
    user.set_password("something else, longer")
    user.save()
    assert (asked(personal), asked(of_program)) == (401, 200)


def test_tokens_of_a_deactivated_person_are_refused(user_with):
    user = user_with("admin")
    secrets = personal_token_make(user=user)[1], service(user, "read")[1]
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert [asked(secret) for secret in secrets] == [401, 401]


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        (("retrieve",), (403, 403, 400)),
        (("read",), (200, 403, 403)),
        (("write",), (403, 400, 403)),
        (("read", "write", "retrieve"), (200, 400, 400)),
    ],
)
def test_a_service_token_does_what_its_scopes_say(user_with, scopes, expected):
    """Reading; a webhook and a request to the model, each with a field that is wrong."""
    secret = service(user_with("admin"), *scopes)[1]
    webhook, query = asked(secret, "/api/v1/webhooks", url=1), asked(secret, "/api/v1/retrieve", query="")
    assert (asked(secret), webhook, query) == expected


def test_a_service_token_may_no_more_than_its_owner(user_with):
    secret = service(user_with("product_manager"), "write")[1]
    assert asked(secret, "/api/v1/webhooks", url="https://x.example", events=["rule.published"]) == 403


def test_a_replaced_service_token_ends_at_once_and_a_revoked_one_is_gone(user_with):
    user = user_with("admin")
    token, old = service(user, "read")
    token, new = service_token_rotate(token=token, actor=user)
    assert (asked(old), asked(new)) == (401, 200)
    assert timedelta(days=29) < token.expires_at - timezone.now() < timedelta(days=31)
    service_token_revoke(token=token, actor=user)
    assert asked(new) == 401 and not ApiToken.objects.exists()


def test_a_token_that_another_admin_revoked_meanwhile_is_not_found(user_with):
    user = user_with("admin")
    token, _ = service(user, "read")
    seen_by_the_other = ApiToken.objects.get(pk=token.pk)
    service_token_revoke(token=token, actor=user)
    for change in (service_token_revoke, service_token_rotate):
        with pytest.raises(TraceError) as refused:
            change(token=seen_by_the_other, actor=user)
        assert status_of(refused.value.code) == 404


def test_the_audit_names_the_service_token_that_acted_as_its_owner(user_with):
    user, address = user_with("admin"), "/api/v1/webhooks"
    token, of_program = service(user, "write")
    body = {"url": "https://hook.example/x", "events": ["rule.published"]}
    sources = []
    for secret in (of_program, personal_token_make(user=user)[1]):
        assert asked(secret, address, **body) == 201
        row = AuditChange.objects.filter(table_name="trace_site_webhook").latest("id")
        assert row.actor_id == user.pk
        sources.append(row.source)
    assert sources == [f"api token {token.pk} {address}", f"api {address}"]


def test_an_event_names_the_token_that_acted_and_who_made_it(user_with, client_as):
    ada, rui = user_with("admin", username="ada"), user_with("admin", username="rui")
    bot = person_invite(username="desk-bot", email="", roles=["admin"], actor=ada, program=True)
    token, of_ada = service_token_make(owner=bot, name="nightly", scopes=["write"], days=3, actor=ada)
    body = {"url": "https://hook.example/x", "events": ["rule.published"]}
    of_rui, made = partial(service_token_rotate, token=token, actor=rui), []
    for secret in (lambda: of_ada, lambda: of_rui()[1], lambda: personal_token_make(user=ada)[1]):
        assert asked(secret(), "/api/v1/webhooks", **body) == 201
        event = AuditEntry.objects.filter(action="webhook.created").latest("id")
        row = AuditChange.objects.filter(table_name="trace_site_webhook").latest("id")
        assert row.token == event.token and row.actor_id == event.actor_id
        made.append((event.actor.username, event.token["name"], event.token["maker"]))
    assert made == [("desk-bot", "nightly", "ada"), ("desk-bot", "nightly", "rui"), ("ada", "", "ada")]
    page = client_as("reviewer", "admin").get("/audit/?action=webhook.created").content.decode()
    assert "token nightly, made by rui" in page and "personal token" in page
    reader = Client(headers={"Authorization": f"Token {of_personal(rui)}"})
    lines = reader.get("/api/v1/audit?action=webhook.created")
    told = [line["token"] and line["token"]["maker"] for line in lines.json()["results"]]
    assert told == ["ada", "rui", "ada"]


def test_what_a_person_does_on_a_page_names_no_token(client_as):
    client_as("admin").post("/webhooks/", {"url": "https://hook.example/x", "events": ["rule.published"]})
    assert AuditEntry.objects.get(action="webhook.created").token is None


def test_nobody_holds_a_token_of_another_person(user_with):
    ada, erin = user_with("admin", username="ada"), user_with("expert", username="erin")
    with pytest.raises(TraceError, match="in the name of another person") as refused:
        service_token_make(owner=erin, name="copilot", scopes=["read"], days=3, actor=ada)
    assert status_of(refused.value.code) == 403
    before, _ = service(erin, "read")
    with pytest.raises(TraceError, match="in the name of another person"):
        service_token_rotate(token=before, actor=ada)
    service_token_revoke(token=before, actor=ada)


def test_a_token_that_was_made_of_another_person_before_goes_on_with_what_is_no_decision(user_with):
    ada, erin = user_with("admin", username="ada"), user_with("expert", username="erin")
    _, secret = service(erin, "read", "write")
    ApiToken.objects.update(created_by=ada)
    made = Client().post(
        "/api/v1/change-requests",
        {"title": "x"},
        "application/json",
        headers={"Authorization": f"Token {secret}"},
    )
    assert made.status_code == 201 and "approve" not in made.json()["may"]
    assert asked(secret, f"/api/v1/change-requests/{made.json()['id']}/approve", revision=1) == 403


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"name": " "}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["all"]}, "scopes"),
        ({"days": 366}, "days"),
    ],
)
def test_a_service_token_has_a_name_scopes_and_an_end(user_with, wrong, where):
    user = user_with("admin")
    fields = {"name": "copilot", "scopes": ["read"], "days": 30, **wrong}
    with pytest.raises(TraceError) as refused:
        service_token_make(owner=user, actor=user, **fields)
    assert refused.value.where == where and not ApiToken.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_use_is_noted_once_a_minute(user_with):
    _, secret = personal_token_make(user=user_with("expert"))
    asked(secret)
    first = ApiToken.objects.get().last_used_at
    asked(secret)
    assert first is not None and ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(minutes=2))
    asked(secret)
    assert ApiToken.objects.get().last_used_at > first - timedelta(minutes=1)


def test_a_token_holds_the_permissions_it_was_given_and_none_without_a_choice(user_with):
    user = user_with("admin")
    fields = {"owner": user, "scopes": ["retrieve"], "days": 30, "actor": user}
    given = [
        service_token_make(name="all", holds_all=True, permissions=["ignored"], **fields)[0],
        service_token_make(name="some", permissions=[" pay.read ", "", "pay.read", "leave"], **fields)[0],
        service_token_make(name="none", **fields)[0],
        personal_token_make(user=user)[0],
    ]
    assert [token.holds for token in given] == [None, {"pay.read", "leave"}, set(), set()]
    told = [row.detail["permissions"] for row in AuditEntry.objects.order_by("pk")]
    assert told == ["all", ["pay.read", "leave"], [], []]
    for wrong in ([str(n) for n in range(201)], ["x" * 301]):
        with pytest.raises(TraceError) as refused:
            service_token_make(name="much", permissions=wrong, **fields)
        assert refused.value.where == "permissions"


def test_what_a_token_holds_is_changed_without_another_text_and_a_replaced_one_keeps_it(user_with):
    user = user_with("admin")
    token, secret = service(user, "read")
    service_token_permit(token=token, holds_all=False, permissions=["pay.read"], actor=user)
    assert ApiToken.objects.get().holds == {"pay.read"} and asked(secret) == 200
    assert service_token_rotate(token=token, actor=user)[0].holds == {"pay.read"}
    (change,) = AuditChange.objects.filter(table_name="trace_site_apitoken", operation="UPDATE").exclude(
        after__has_key="prefix"
    )
    assert change.after == {"permissions": ["pay.read"]}


def test_tokens_made_before_they_held_permissions_go_on_holding_all(user_with):
    token, _ = service(user_with("admin"), "read")
    assert token.holds == set()
    migration = import_module("trace_site.migrations.0004_token_permissions")
    migration.keep_what_they_could(apps, None)
    assert ApiToken.objects.get().holds is None


def test_a_token_its_owner_and_their_roles_are_read_in_one_query(user_with, django_assert_num_queries):
    user = user_with("expert", "reviewer", username="erin")
    token, secret = personal_token_make(user=user, permissions=["pay.read"])
    with django_assert_num_queries(1):
        found = token_with_owner(digest_of(secret))
        assert (found, found.owner, found.holds) == (token, user, {"pay.read"})
        assert access.roles_of(found.owner) == {"expert", "reviewer"} and not found.is_over
    assert token_with_owner("0" * 64) is None
