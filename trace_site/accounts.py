"""The four roles as groups, who may act for whom, and the demo's logins."""

import json
import secrets
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.utils.crypto import constant_time_compare

from trace_site.access import ADMIN, ROLE_LABELS, ROLES
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_atomic

DEMO_FILE = "demo.json"
DEMO_NAMES = {"expert": "erin", "reviewer": "rui", "admin": "ada", "product_manager": "pam"}


def ensure_roles() -> None:
    """The groups, and what only admins may: apply a change request that nobody approved."""
    for role in ROLES:
        Group.objects.get_or_create(name=role)
    bypass = Permission.objects.filter(content_type__app_label="rules", codename="bypass_review")
    Group.objects.get(name=ADMIN).permissions.add(*bypass)


def require_power_over(person: User, actor: Any) -> None:
    """Only superusers and the command line (None) act for a superuser. Raises TraceError `not_allowed`."""
    if person.is_superuser and actor is not None and not actor.is_superuser:
        raise TraceError(
            f"{person.get_username()} is a superuser.",
            code="not_allowed",
            hint="Ask a superuser, or use the command line.",
        )


@transaction.atomic
def ensure_demo_users() -> list[dict[str, str]]:
    """One login a role, kept in TRACE_HOME/demo.json. Only a user made here gets a password, a role and the rights of
    staff: what was changed since stays, and a password that is no longer the one made here is left out.
    """
    ensure_roles()
    known = {login["role"]: login for login in _kept()}
    logins = [_demo_login(role, known.get(role, {}).get("password", "")) for role in ROLES]
    write_atomic(settings.TRACE_HOME / DEMO_FILE, json.dumps(logins, indent=1), private=True)
    return logins


def demo_logins() -> list[dict[str, str]]:
    """The logins of the file whose passwords still hold, for the sign-in page."""
    kept = {login["username"]: login for login in _kept() if login["password"]}
    users = User.objects.filter(username__in=kept, is_active=True)
    return [
        {**kept[user.username], "role": ROLE_LABELS[kept[user.username]["role"]]}
        for user in sorted(users, key=lambda user: list(kept).index(user.username))
        if constant_time_compare(kept[user.username].get("mark", ""), user.get_session_auth_hash())
    ]


def _kept() -> list[dict[str, str]]:
    path = settings.TRACE_HOME / DEMO_FILE
    logins: list[dict[str, str]] = json.loads(path.read_text()) if path.is_file() else []
    return logins


def _demo_login(role: str, password: str) -> dict[str, str]:
    user, made = User.objects.get_or_create(username=DEMO_NAMES[role], defaults={"is_staff": role == ADMIN})
    if made:
        password = password or f"{role[:2]}-{secrets.token_hex(6)}"
        user.set_password(password)
        user.save()
        user.groups.set([Group.objects.get(name=role)])
    elif not user.check_password(password):
        password = ""
    # the mark that sessions keep: it follows from the stored password
    return {
        "role": role,
        "username": user.username,
        "password": password,
        "mark": user.get_session_auth_hash(),
    }
