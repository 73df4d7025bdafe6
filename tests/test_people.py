"""People are invited, get roles, are reset and deactivated; one admin is always left."""

import json
import threading

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection

from tests.tokens import token_of
from trace_site.access import ROLES, roles_of
from trace_site.audit.models import AuditEntry
from trace_site.dev import services
from trace_site.lib.errors import TraceError
from trace_site.people.services import (
    ensure_roles,
    link_of,
    mail_link,
    person_activate,
    person_change,
    person_deactivate,
    person_invite,
    person_reset,
)
from trace_site.people.sessions import Session
from trace_site.rest.tokens import service_token_make

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def roles(db):
    ensure_roles()


@pytest.fixture
def ada(user_with):
    return user_with("admin", username="ada")


def invite(actor: User | None, username: str = "erin", email: str = "", roles=("expert",)) -> User:
    return person_invite(username=username, email=email, roles=roles, actor=actor)


def roles_now(person: User) -> set[str]:
    return set(roles_of(User.objects.get(pk=person.pk)))


def test_an_invited_person_has_roles_and_no_password(ada):
    erin = invite(ada, email="Erin@EXAMPLE.com", roles=["expert", "reviewer"])
    assert roles_now(erin) == {"expert", "reviewer"} and not erin.has_usable_password()
    assert erin.email == "Erin@example.com"
    entry = AuditEntry.objects.get(action="person.invited")
    assert (entry.actor, entry.object_label) == (ada, "erin")


def test_a_name_is_kept_as_the_sign_in_page_reads_it(ada, client):
    erin = invite(ada, username=" \ufb01nn ")  # a ligature, which the form of the sign-in page takes apart
    erin.set_password("pass")
    erin.save()
    assert erin.username == "finn"
    assert client.post("/login/", {"username": "\ufb01nn", "password": "pass"}).status_code == 302


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"username": ""}, "username"),
        ({"username": "with space"}, "username"),
        ({"username": "x" * 151}, "username"),
        ({"username": "ADA"}, "username"),
        ({"email": "no address"}, "email"),
        ({"roles": ["emperor"]}, "roles"),
    ],
)
def test_what_is_no_invitation_leaves_nobody(ada, wrong, where):
    with pytest.raises(TraceError) as refused:
        invite(ada, **wrong)
    assert refused.value.where == where and list(User.objects.all()) == [ada]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("\u0430da", "mixes letters of Cyrillic and Latin"),  # its first letter is Cyrillic
        ("\u03bfscar", "mixes letters of Greek and Latin"),
        ("\u0440\u0430\u0441\u0435", "every letter is Cyrillic and looks like a Latin one"),
    ],
)
def test_a_name_that_looks_like_another_is_refused(ada, name, said):
    with pytest.raises(TraceError, match=said) as refused:
        invite(ada, name)
    assert refused.value.where == "username" and list(User.objects.all()) == [ada]


@pytest.mark.parametrize(
    "name", ["\u00c5sa.\u00d8", "\u0418\u0433\u043e\u0440\u044c", "\u7530\u4e2d\u3055\u3093", "d-42"]
)
def test_a_name_is_written_in_whatever_script_it_is(ada, name):
    assert invite(ada, name).username == name


def test_roles_are_given_and_taken(ada):
    erin = invite(ada)
    person_change(person=erin, email="", roles=["reviewer", "product_manager"], actor=ada)
    assert roles_now(erin) == {"reviewer", "product_manager"}
    person_change(person=erin, email="", roles=[], actor=ada)
    assert roles_now(erin) == set()


def test_who_loses_a_role_gives_back_what_was_claimed_with_it(ada, settings):
    released: list[str] = []
    settings.AT_SIGN_OUT = [f"{__name__}.let_go"]
    let_go.told = released  # type: ignore[attr-defined]
    erin = invite(ada, roles=["reviewer"])
    person_change(person=erin, email="", roles=["reviewer", "expert"], actor=ada)
    assert released == []
    person_change(person=erin, email="", roles=["expert"], actor=ada)
    person_deactivate(person=erin, actor=ada)
    assert released == ["erin", "erin"]


def let_go(person: User) -> None:
    let_go.told.append(person.username)  # type: ignore[attr-defined]


@pytest.mark.parametrize("change", [person_deactivate, person_reset])
def test_nobody_locks_themselves_out(ada, user_with, change):
    user_with("admin", username="other")
    with pytest.raises(TraceError, match="your own account"):
        change(person=ada, actor=ada)
    ada.refresh_from_db()
    assert ada.is_active and ada.has_usable_password()


def test_the_last_admin_who_can_sign_in_keeps_the_role(ada):
    invite(ada, username="invited", roles=["admin"])  # has set no password yet
    with pytest.raises(TraceError, match="nobody who can sign in would be an admin"):
        person_change(person=ada, email="", roles=["expert"], actor=ada)
    assert roles_now(ada) == {"admin"}


@pytest.mark.django_db(transaction=True)
def test_two_admins_who_deactivate_each_other_leave_one(user_with):
    ensure_roles()
    one, two = user_with("admin", username="one"), user_with("admin", username="two")
    together = threading.Barrier(2, timeout=10)
    refused: list[str] = []

    def deactivate(person: User, actor: User) -> None:
        try:
            together.wait()
            person_deactivate(person=person, actor=actor)
        except TraceError as error:
            refused.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=deactivate, args=pair) for pair in ((one, two), (two, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["bad_state"] and User.objects.filter(is_active=True).count() == 1


def test_only_a_superuser_acts_for_a_superuser(ada):
    root = User.objects.create_superuser("root", password="pass")
    for act in (
        lambda: person_change(person=root, email="", roles=[], actor=ada),
        lambda: person_deactivate(person=root, actor=ada),
        lambda: person_reset(person=root, actor=ada),
        lambda: service_token_make(owner=root, name="x", scopes=["read"], days=1, actor=ada),
    ):
        with pytest.raises(TraceError, match="is a superuser"):
            act()
    person_deactivate(person=ada, actor=root)
    assert not User.objects.get(pk=ada.pk).is_active


def test_a_deactivated_person_is_signed_out_everywhere(ada, user_with, client, django_user_model):
    erin = user_with("expert", username="erin")
    client.force_login(erin)
    headers = {"Authorization": f"Token {token_of(erin)}"}
    assert client.get("/account/").status_code == 200
    person_deactivate(person=erin, actor=ada)
    assert client.get("/account/").status_code == 302 and not Session.objects.filter(account=erin.pk)
    assert client.get("/api/v1/domains", headers=headers).status_code == 401
    assert client.post("/login/", {"username": "erin", "password": "pass"}).status_code == 200
    person_activate(person=erin, actor=ada)
    assert client.post("/login/", {"username": "erin", "password": "pass"}).status_code == 302


def test_a_reset_ends_password_sessions_token_and_earlier_links(ada, user_with, client):
    erin = user_with("expert", username="erin")
    earlier = link_of(erin)
    headers = {"Authorization": f"Token {token_of(erin)}"}
    _, of_program = service_token_make(owner=erin, name="desk", scopes=["read"], days=1, actor=erin)
    client.force_login(erin)
    erin = person_reset(person=erin, actor=ada)
    assert client.get("/account/").status_code == 302
    assert client.get("/api/v1/domains", headers=headers).status_code == 401
    assert client.get("/api/v1/domains", headers={"Authorization": f"Token {of_program}"}).status_code == 401
    assert AuditEntry.objects.get(action="person.password_reset").detail == {"tokens": ["desk"]}
    assert client.post("/login/", {"username": "erin", "password": "pass"}).status_code == 200
    assert "does not work any more" in client.get(earlier).content.decode()
    assert "Set your password" in client.get(link_of(erin), follow=True).content.decode()


def test_a_link_is_mailed_where_there_is_a_mail_server(ada, settings, mailoutbox):
    erin = invite(ada, email="erin@example.com")
    assert mail_link(erin, "https://trace.example.com/x") == "" and mailoutbox == []
    settings.EMAIL_HOST = "mail.example.com"
    assert mail_link(erin, "https://trace.example.com/x") == "It was mailed to erin@example.com."
    assert "https://trace.example.com/x" in mailoutbox[0].body and mailoutbox[0].to == ["erin@example.com"]
    settings.EMAIL_BACKEND = "tests.test_people.Refusing"
    assert "was not taken: no room" in mail_link(erin, "https://trace.example.com/x")


class Refusing:
    def __init__(self, *_args: object, **_options: object) -> None: ...

    def send_messages(self, _messages: object) -> int:
        raise OSError("no room")


def test_the_command_line_makes_the_first_admin(capsys, client):
    call_command("person_invite", "ada", role=["admin"])
    said = capsys.readouterr().out
    ada = User.objects.get(username="ada")
    assert roles_now(ada) == {"admin"}
    link = next(word for word in said.split() if word.startswith("/password/"))
    assert client.get(link, follow=True).status_code == 200
    with pytest.raises(CommandError, match="has this name already"):
        call_command("person_invite", "ada", role=list(ROLES))


@pytest.mark.parametrize(
    ("site", "begins"),
    [
        ("", "http://127.0.0.1:8123/password/"),
        ("https://trace.example.com", "https://trace.example.com/password/"),
    ],
)
def test_the_command_line_says_a_whole_address_where_the_site_has_one(
    capsys, monkeypatch, tmp_path, settings, site, begins
):
    settings.SITE_URL = site
    monkeypatch.setattr(services, "home", lambda: tmp_path)
    up = {"home": str(tmp_path), "url": "http://127.0.0.1:8123"}
    (tmp_path / "up.json").write_text(json.dumps(up))
    call_command("person_invite", "ada", role=["admin"])
    assert f" at {begins}" in capsys.readouterr().out
