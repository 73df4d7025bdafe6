"""Roles exist wherever the database was migrated; only admins may bypass review; the demo's logins stay the demo's."""

import json

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command

from trace_site.access import ROLES
from trace_site.people.services import DEMO_FILE, ensure_demo_users, ensure_roles

pytestmark = pytest.mark.django_db


def test_migrating_makes_the_roles_and_doing_it_again_changes_nothing():
    assert set(ROLES) <= set(Group.objects.values_list("name", flat=True))
    Group.objects.filter(name="expert").delete()
    call_command("migrate", verbosity=0)
    ensure_roles()
    assert Group.objects.filter(name__in=ROLES).count() == len(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_only_the_admin_role_may_bypass_review(user_with, role):
    user = User.objects.get(pk=user_with(role).pk)
    assert user.has_perm("rules.bypass_review") == (role == "admin")


@pytest.fixture
def demo_home(tmp_path, settings):
    settings.TRACE_HOME = tmp_path
    settings.DEMO = True
    return tmp_path


def password_of(name: str) -> str:
    return {login["username"]: login["password"] for login in ensure_demo_users()}[name]


def changed(name: str) -> User:
    user = User.objects.get(username=name)
    user.set_password("my own, much longer")
    user.save()
    return user


def test_the_demo_makes_a_login_a_role_and_a_second_one_changes_nothing(demo_home):
    first, again = ensure_demo_users(), ensure_demo_users()
    assert first == again and [login["role"] for login in first] == list(ROLES)
    assert all(User.objects.get(username=one["username"]).check_password(one["password"]) for one in first)
    assert (demo_home / DEMO_FILE).stat().st_mode & 0o077 == 0


def test_a_changed_password_and_role_survive_a_second_demo(demo_home):
    ensure_demo_users()
    ada = changed("ada")
    ada.groups.clear()
    assert password_of("ada") == "" and password_of("erin") != ""
    ada.refresh_from_db()
    assert ada.check_password("my own, much longer") and not ada.groups.exists()
    assert '"username": "ada",\n  "password": ""' in (demo_home / DEMO_FILE).read_text()


def test_somebody_who_had_the_name_before_the_demo_keeps_the_password(demo_home):
    User.objects.create_user("ada", password="my own, much longer")
    assert password_of("ada") == ""
    assert User.objects.get(username="ada").check_password("my own, much longer")


def test_the_sign_in_page_offers_the_demos_logins_until_their_passwords_change(demo_home, client):
    ensure_demo_users()
    page = client.get("/login/", headers={"host": "127.0.0.1:8000"}).content.decode()
    assert f"ada / {password_of('ada')}" in page and "domain expert" in page
    changed("ada")
    page = client.get("/login/", headers={"host": "localhost"}).content.decode()
    assert "ada /" not in page and f"erin / {password_of('erin')}" in page


@pytest.mark.parametrize(
    ("setting", "host", "address"),
    [
        ({"HTTPS": True}, "localhost", "127.0.0.1"),
        ({"DEMO": False}, "localhost", "127.0.0.1"),
        ({"ALLOWED_HOSTS": ["*"]}, "trace.example.com", "127.0.0.1"),
        ({}, "localhost", "203.0.113.7"),
    ],
)
def test_the_sign_in_page_tells_no_password_elsewhere(demo_home, client, settings, setting, host, address):
    ensure_demo_users()
    for name, value in setting.items():
        setattr(settings, name, value)
    page = client.get("/login/", headers={"host": host}, REMOTE_ADDR=address).content.decode()
    assert "Sign in" in page and "Demo logins" not in page


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Forwarded-Host", "X-Real-IP"])
def test_the_sign_in_page_tells_no_password_through_a_proxy(demo_home, client, header):
    ensure_demo_users()
    assert "Demo logins" in client.get("/login/", headers={"host": "localhost"}).content.decode()
    page = client.get("/login/", headers={"host": "localhost", header: "127.0.0.1"}).content.decode()
    assert "Sign in" in page and "Demo logins" not in page


def test_the_file_of_another_home_is_no_use(demo_home, client):
    ensure_demo_users()
    other = [{**login, "mark": "0" * 64} for login in json.loads((demo_home / DEMO_FILE).read_text())]
    (demo_home / DEMO_FILE).write_text(json.dumps(other))
    assert "Demo logins" not in client.get("/login/", headers={"host": "localhost"}).content.decode()
