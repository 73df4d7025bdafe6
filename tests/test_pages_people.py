"""The people page and one's own account, as they are used."""

import re
from datetime import timedelta
from importlib import import_module

import pytest
from django.conf import settings
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from tests.tokens import token_of
from trace_site.audit.models import AuditEntry
from trace_site.people.services import ensure_roles, link_of, person_invite
from trace_site.people.sessions import SEEN_EVERY, Session, expired
from trace_site.rest.tokens import ApiToken

pytestmark = pytest.mark.django_db
NEW = "tall green bicycle"
MINE = {"password": "pass"}  # of whoever makes a token


@pytest.fixture(autouse=True)
def roles(db):
    ensure_roles()


def program(*roles: str) -> User:
    return person_invite(username="desk-bot", email="", roles=roles, actor=None, program=True)


def link_in(page: str) -> str:
    (link,) = re.findall(r"http://testserver(/password/\S+/)<", page)
    return str(link)


def set_password(client: Client, link: str, password: str = NEW, again: str = ""):
    form = client.get(link, follow=True).redirect_chain[-1][0]
    return client.post(form, {"new_password1": password, "new_password2": again or password}, follow=True)


def signed_in(client: Client, name: str, password: str) -> bool:
    return client.post("/login/", {"username": name, "password": password}).status_code == 302


def test_an_admin_invites_somebody_who_sets_a_password_and_signs_in(client_as):
    admin, erin = client_as("admin"), Client()
    answer = admin.post("/people/", {"username": "erin", "email": "", "roles": ["expert"]})
    link = link_in(answer.content.decode())
    assert "Your password is set" in set_password(erin, link).content.decode()
    assert signed_in(erin, "erin", NEW) and "domain expert" in erin.get("/account/").content.decode()
    assert "does not work any more" in Client().get(link).content.decode()
    page = admin.get("/people/").content.decode()
    assert "erin" in page and "domain expert" in page and link not in page
    told = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"person.invited", "password.set"} <= told


def test_a_name_that_is_taken_is_said_beside_what_was_typed(client_as):
    answer = client_as("admin").post(
        "/people/", {"username": "ADMIN", "email": "a@b.example", "roles": ["expert"]}
    )
    page = answer.content.decode()
    assert (
        answer.status_code == 422
        and "somebody has this name already" in page
        and 'value="a@b.example"' in page
    )


@pytest.mark.parametrize("password", ["short", "password1234", "123456789012345", "erin-the-expert"], ids=str)
def test_a_weak_password_is_refused_in_words(password, db):
    person = person_invite(username="erin-the-expert", email="", roles=[], actor=None)
    page = set_password(Client(), link_of(person), password).content.decode()
    assert 'class="errors"' in page and not User.objects.get().has_usable_password()


def test_a_link_is_for_three_days_and_for_active_people(monkeypatch, settings):
    person = person_invite(username="erin", email="", roles=[], actor=None)
    link = link_of(person)
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert "does not work any more" in Client().get(link).content.decode()
    settings.PASSWORD_RESET_TIMEOUT = 259_200
    User.objects.update(is_active=False)
    assert "does not work any more" in Client().get(link).content.decode()


def test_links_are_not_to_be_guessed(settings):
    client = Client(REMOTE_ADDR="203.0.113.7")
    codes = [client.get(f"/password/MQ/{number}-x/").status_code for number in range(62)]
    assert codes == [200] * 60 + [429, 429]


def test_a_person_page_changes_roles_resets_and_deactivates(client_as, user_with):
    admin, erin = client_as("admin"), user_with("expert", username="erin")
    page = f"/people/{erin.pk}/"
    admin.post(page, {"email": "erin@example.com", "roles": ["reviewer"]})
    erin.refresh_from_db()
    assert erin.email == "erin@example.com" and [group.name for group in erin.groups.all()] == ["reviewer"]
    link = link_in(admin.post(f"{page}reset/").content.decode())
    assert not signed_in(Client(), "erin", "pass")
    set_password(Client(), link)
    assert signed_in(Client(), "erin", NEW)
    admin.post(f"{page}deactivate/")
    assert "cannot sign in" in admin.get(page).content.decode() and not signed_in(Client(), "erin", NEW)
    admin.post(f"{page}activate/")
    assert signed_in(Client(), "erin", NEW)


def test_an_admin_makes_replaces_and_revokes_a_token_for_a_program(client_as):
    admin, bot = client_as("admin"), program("expert")
    tokens = f"/people/{bot.pk}/tokens/"
    answer = admin.post(
        tokens, {"name": "copilot", "scopes": ["read"], "days": "30", "holds": "these", **MINE}
    )
    (first,) = re.findall(r"trs_[\w-]{43}", answer.content.decode())
    own = ApiToken.objects.get()
    (second,) = re.findall(r"trs_[\w-]{43}", admin.post(f"{tokens}{own.pk}/rotate/", MINE).content.decode())

    def asked(secret: str) -> int:
        return Client().get("/api/v1/domains", headers={"Authorization": f"Token {secret}"}).status_code

    assert (asked(first), asked(second)) == (401, 200)
    assert first not in (page := admin.get(f"/people/{bot.pk}/").content.decode()) and "copilot" in page
    admin.post(f"{tokens}{own.pk}/revoke/")
    assert asked(second) == 401
    refused = admin.post(tokens, {"name": "copilot", "days": "9" * 30, "holds": "all", **MINE})
    assert refused.status_code == 422 and "choose what it may do" in refused.content.decode()


def test_whoever_makes_a_token_chooses_what_it_holds_and_may_change_it(client_as, user_with):
    admin, bot = client_as("admin"), program()
    tokens, form = f"/people/{bot.pk}/tokens/", {"name": "copilot", "scopes": ["read"], "days": "30", **MINE}
    refused = admin.post(tokens, form)
    assert refused.status_code == 422 and "choose which permission targets" in refused.content.decode()
    admin.post(tokens, {**form, "holds": "these", "permissions": "pay.read\r\n\r\nleave.book"})
    token = ApiToken.objects.get()
    assert (token.holds_all, token.permissions) == (False, ["pay.read", "leave.book"])
    page = admin.get(f"/people/{bot.pk}/").content.decode()
    assert "2 permissions" in page and "pay.read\nleave.book</textarea>" in page
    assert admin.post(f"{tokens}{token.pk}/permissions/", {}).status_code == 422
    admin.post(f"{tokens}{token.pk}/permissions/", {"holds": "all"})
    assert ApiToken.objects.get().holds is None
    assert "all permissions" in admin.get(f"/people/{bot.pk}/").content.decode()


def test_ones_own_token_holds_what_one_chooses(client_as):
    client = client_as("expert")
    refused = client.post("/account/token/", {"permissions": "pay.read", **MINE})
    assert refused.status_code == 422 and not ApiToken.objects.exists()
    assert "pay.read</textarea>" in refused.content.decode()
    client.post("/account/token/", {"holds": "these", "permissions": "pay.read", **MINE})
    assert ApiToken.objects.get().holds == {"pay.read"}
    assert "1 permission" in client.get("/account/").content.decode()


def test_the_page_that_shows_a_link_or_token_saves_roles_where_the_persons_own_does(client_as, user_with):
    admin, erin = client_as("admin"), user_with("expert", username="erin")
    page = f"/people/{erin.pk}/"
    invited = admin.post("/people/", {"username": "rui", "roles": ["expert"]})
    reset = admin.post(f"{page}reset/")
    of_bot = f"/people/{program().pk}/tokens/"
    made = admin.post(of_bot, {"name": "x", "scopes": ["read"], "days": "3", "holds": "all", **MINE})
    replaced = admin.post(f"{of_bot}{ApiToken.objects.get().pk}/rotate/", MINE)
    for answer in (invited, reset, made, replaced):
        at = f"/people/{answer.context['person'].pk}/"
        assert f'<form method="post" action="{at}" class' in answer.content.decode()


def test_a_token_is_not_reached_through_somebody_elses_page(client_as, user_with):
    admin, bot, rui = client_as("admin"), program(), user_with("reviewer")
    form = {"name": "x", "scopes": ["read"], "days": "3", "holds": "all", **MINE}
    admin.post(f"/people/{bot.pk}/tokens/", form)
    own = ApiToken.objects.get()
    assert admin.post(f"/people/{rui.pk}/tokens/{own.pk}/revoke/").status_code == 404


def test_a_program_gets_an_account_that_nobody_signs_in_to(client_as):
    admin = client_as("admin")
    page = admin.post(
        "/people/", {"username": "desk-bot", "roles": ["expert"], "kind": "program"}, follow=True
    )
    bot = page.context["person"]
    assert "/password/" not in page.content.decode() and not bot.has_usable_password()
    assert not signed_in(Client(), "desk-bot", "") and not signed_in(Client(), "desk-bot", "!")
    refused = admin.post(f"/people/{bot.pk}/reset/")
    assert refused.status_code == 409 and "it has no password" in refused.content.decode()
    assert "program" in admin.get("/people/").content.decode()


def test_nobody_makes_a_token_for_another_person_and_the_page_says_what_to_do(client_as, user_with):
    admin, erin = client_as("admin"), user_with("expert", username="erin")
    form = {"name": "copilot", "scopes": ["read"], "days": "30", "holds": "these", **MINE}
    refused = admin.post(f"/people/{erin.pk}/tokens/", form)
    told = refused.content.decode()
    assert refused.status_code == 403 and not ApiToken.objects.exists()
    assert "Nobody makes a token for another person" in told and "Make a service token" not in told


@pytest.mark.parametrize("given", ["", "wrong"])
def test_an_open_browser_alone_hands_out_no_token(client_as, given):
    admin, bot = client_as("admin"), program()
    form = {"name": "copilot", "scopes": ["read"], "days": "30", "holds": "all", "password": given}
    made = [admin.post("/account/token/", form), admin.post(f"/people/{bot.pk}/tokens/", form)]
    assert [answer.status_code for answer in made] == [422, 422] and not ApiToken.objects.exists()
    assert all("that is not your password" in answer.content.decode() for answer in made)
    admin.post(f"/people/{bot.pk}/tokens/", {**form, **MINE})
    (token,) = ApiToken.objects.all()
    refused = admin.post(f"/people/{bot.pk}/tokens/{token.pk}/rotate/", {"password": given})
    assert refused.status_code == 422 and ApiToken.objects.get().digest == token.digest


def test_the_password_is_not_to_be_guessed_where_tokens_are_made(client_as):
    client = client_as("admin")
    pages = ["/account/token/"] * 10 + [f"/people/{program().pk}/tokens/"] * 21
    answers = [client.post(page, {"holds": "all", "password": "guess"}) for page in pages]
    assert [answer.status_code for answer in answers] == [422] * 30 + [429]


def test_one_sees_and_ends_the_service_tokens_of_ones_account_and_nobody_elses(client_as, user_with):
    rui = user_with("reviewer")
    client, erin = client_as("expert"), User.objects.get(username="expert")
    about = {"kind": "service", "scopes": ["read"], "expires_at": timezone.now() + timedelta(days=3)}
    old, other = (
        ApiToken.objects.create(
            owner=owner, name=f"old-{owner}", digest=owner.username, created_by=rui, **about
        )
        for owner in (erin, rui)
    )
    page = client.get("/account/").content.decode()
    assert "old-expert" in page and "made by reviewer" in page and "old-reviewer" not in page
    assert client.post(f"/account/tokens/{other.pk}/revoke/").status_code == 404
    client.post(f"/account/tokens/{old.pk}/revoke/")
    assert list(ApiToken.objects.all()) == [other]
    (event,) = AuditEntry.objects.filter(action="service_token.revoked")
    assert event.actor == erin and event.detail["token"] == "old-expert"


def test_a_changed_password_ends_the_other_sessions_and_the_token_and_keeps_this_one(user_with):
    erin = user_with("expert", username="erin")
    here, there = Client(), Client()
    for client in (here, there):
        client.force_login(erin)
    headers = {"Authorization": f"Token {token_of(erin)}"}
    form = {"old_password": "pass", "new_password1": NEW, "new_password2": NEW}
    page = here.post("/account/password/", form, follow=True).content.decode()
    assert "Your password is changed" in page
    assert there.get("/account/").status_code == 302
    assert Client().get("/api/v1/domains", headers=headers).status_code == 401
    assert not ApiToken.objects.exists() and Session.objects.count() == 1


@pytest.mark.parametrize("change", [{"is_active": False}, {"password": "!"}], ids=["deactivated", "reset"])
def test_an_admin_is_not_overtaken_by_a_form_that_is_being_checked(user_with, monkeypatch, change):
    def checked(form: SetPasswordForm) -> dict[str, str]:
        User.objects.filter(username="erin").update(**change)
        return form.cleaned_data

    erin = user_with("expert", username="erin")
    here = Client()
    here.force_login(erin)
    link = link_of(erin)
    monkeypatch.setattr(SetPasswordForm, "clean", checked)
    given = {"old_password": "pass", "new_password1": NEW, "new_password2": NEW}
    assert here.post("/account/password/", given).status_code == 409
    User.objects.update(is_active=True, password=erin.password)
    assert "does not work any more" in set_password(Client(), link).content.decode()
    now = User.objects.get()
    assert {name: getattr(now, name) for name in change} == change and not now.check_password(NEW)


def test_the_old_password_is_not_to_be_guessed_on_the_account_page(client_as):
    client = client_as("expert")
    form = {"old_password": "guess", "new_password1": NEW, "new_password2": NEW}
    answers = [client.post("/account/password/", form) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [200] * 10 + [429]
    assert 0 < int(answers[-1]["Retry-After"]) <= 900


def test_one_sees_where_one_is_signed_in_and_ends_a_session(user_with, settings):
    settings.AXES_ENABLED = True
    user_with("expert", username="erin")
    phone = Client(REMOTE_ADDR="203.0.113.7", HTTP_USER_AGENT="Phone")
    desk = Client(REMOTE_ADDR="198.51.100.9", HTTP_USER_AGENT="Desk")
    assert signed_in(phone, "erin", "pass") and signed_in(desk, "erin", "pass")
    page = desk.get("/account/").content.decode()
    assert "Phone" in page and "203.0.113.7" in page and "this one" in page
    assert phone.session.session_key not in page and desk.session.session_key not in page
    (address,) = re.findall(r"/account/sessions/\w+/end/", page)
    desk.post(address)
    assert phone.get("/account/").status_code == 302 and desk.get("/account/").status_code == 200


def test_all_other_sessions_end_at_once_and_nobody_elses(user_with):
    erin, rui = user_with("expert"), user_with("reviewer")
    one, two, other = Client(), Client(), Client()
    one.force_login(erin), two.force_login(erin), other.force_login(rui)
    one.post("/account/sessions/end/")
    assert [client.get("/account/").status_code for client in (one, two, other)] == [200, 302, 200]


def test_a_strangers_session_is_not_ended_by_its_mark(client_as, user_with):
    other = Client()
    other.force_login(user_with("reviewer"))
    mark = other.get("/account/").context["sessions"][0].mark
    client_as("admin").post(f"/account/sessions/{mark}/end/")
    assert other.get("/account/").status_code == 200


def test_nobody_signs_in_with_what_the_table_of_sessions_holds(user_with):
    here, thief = Client(), Client()
    here.force_login(user_with("expert"))
    (row,) = Session.objects.all()
    assert row.pk != here.session.session_key
    thief.cookies[settings.SESSION_COOKIE_NAME] = row.pk
    assert thief.get("/account/").status_code == 302 and here.get("/account/").status_code == 200
    here.post("/logout/")
    assert not Session.objects.filter(account__isnull=False)


def test_who_is_signed_in_stays_so_when_the_keys_are_hashed(user_with):
    here = Client()
    here.force_login(user_with("expert"))
    Session.objects.update(session_key=here.session.session_key)  # as they were
    with connection.cursor() as cursor:
        cursor.execute(import_module("trace_site.migrations.0007_hash_session_keys").HASHED)
    assert here.get("/account/").status_code == 200


def test_a_session_says_when_it_was_last_used_and_goes_when_its_time_is_over(
    client_as, django_assert_num_queries
):
    client = client_as("expert")
    long_ago = timezone.now() - 2 * SEEN_EVERY
    Session.objects.update(seen_at=long_ago)
    client.get("/account/")
    assert Session.objects.get().seen_at > long_ago + SEEN_EVERY
    assert not expired().exists()
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert expired().count() == 1


def test_the_list_of_people_is_read_in_few_queries(client_as, user_with, django_assert_num_queries):
    client = client_as("admin")
    for number in range(20):
        user_with("expert", username=f"person-{number}")
    with django_assert_num_queries(6):  # session, user, roles, strip, people, their roles
        client.get("/people/")


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/150.0.0.0 Safari/537.36 Edg/150.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1",
            "Safari on iPhone",
        ),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        ("curl/8.5", "curl/8.5"),
        ("", ""),
    ],
)
def test_a_browser_is_named_as_people_name_it(agent, words):
    session = Session()
    session.came = {"agent": agent}
    assert session.browser == words
