"""The four roles as groups, and the demo's logins."""

import json
import secrets

from django.contrib.auth.models import Group, Permission, User
from django.db import transaction

from trace_site import services
from trace_site.access import ADMIN, ROLES
from trace_site.lib.files import write_atomic

DEMO_NAMES = {"expert": "erin", "reviewer": "rui", "admin": "ada", "product_manager": "pam"}


def ensure_roles() -> None:
    """The groups, and what only admins may: apply a change request that nobody approved."""
    for role in ROLES:
        Group.objects.get_or_create(name=role)
    bypass = Permission.objects.filter(content_type__app_label="rules", codename="bypass_review")
    Group.objects.get(name=ADMIN).permissions.add(*bypass)


@transaction.atomic
def ensure_demo_users() -> list[dict[str, str]]:
    """One login a role; names and the passwords made for this home are kept in TRACE_HOME/demo.json."""
    ensure_roles()
    path = services.home() / "demo.json"
    if path.is_file():
        logins: list[dict[str, str]] = json.loads(path.read_text())
    else:
        logins = [
            {"role": role, "username": DEMO_NAMES[role], "password": f"{role[:2]}-{secrets.token_hex(4)}"}
            for role in ROLES
        ]
    for login in logins:
        user, _ = User.objects.get_or_create(
            username=login["username"], defaults={"is_staff": login["role"] == "admin"}
        )
        if not user.check_password(login["password"]):
            user.set_password(login["password"])
            user.save()
        user.groups.set([Group.objects.get(name=login["role"])])
    write_atomic(path, json.dumps(logins, indent=1))
    path.chmod(0o600)
    return logins
