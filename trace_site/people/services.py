"""Accounts: who may sign in, and with which roles; those of programs; the four roles as groups, and the demo's logins.

Nobody is given a password. A link lets a person set one; it is void once it was used, once the person signs in, and
after PASSWORD_RESET_TIMEOUT. A program has an account like a person's that nobody can sign in to: it acts by service
tokens alone. Only superusers and the command line (`actor` None) change superusers.
"""

import json
import secrets
import unicodedata
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import Q
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.module_loading import import_string

from trace_site.access import ADMIN, PROGRAM, ROLE_LABELS, ROLES, is_program
from trace_site.audit import models as audit_models
from trace_site.database import database_now
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_atomic
from trace_site.people.sessions import sessions_end
from trace_site.rest.tokens import require_power_over, tokens_end

# letters of other scripts that nobody tells from Latin ones: names of nothing else are refused
LIKE_LATIN = frozenset("асеорхуіјѕԁһӏԛԝкмтαινορυκτχ")
ONE_SCRIPT = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "HANGUL": "CJK"}  # written together
DEMO_FILE = "demo.json"
DEMO_NAMES = {"expert": "erin", "reviewer": "rui", "admin": "ada", "product_manager": "pam"}


class Links(PasswordResetTokenGenerator):
    """The tokens of links, which age by the database's clock."""

    def _now(self) -> datetime:
        return database_now().replace(tzinfo=None)


LINKS = Links()


def ensure_roles(**_: Any) -> None:
    """The groups, and what only admins may: apply a change request that nobody approved."""
    for role in ROLES:
        Group.objects.get_or_create(name=role)
    bypass = Permission.objects.filter(content_type__app_label="rules", codename="bypass_review")
    Group.objects.get(name=ADMIN).permissions.add(*bypass)


@transaction.atomic
def person_invite(
    *, username: str, email: str, roles: Collection[str], actor: Any, program: bool = False
) -> User:
    """A person without a password; `link_of` is to be handed over. Or the account of a program, which never gets one.

    Raises TraceError `bad_input`.
    """
    _one_at_a_time()
    person = User(
        username=User.normalize_username(username.strip()), email=User.objects.normalize_email(email.strip())
    )
    if User.objects.filter(username__iexact=person.username).exists():
        raise TraceError("somebody has this name already.", code="bad_input", where="username")
    _refuse_look_alike(person.username)
    person.set_unusable_password()
    _check(person)
    person.save()
    _give(person, roles)
    if program:
        person.groups.add(Group.objects.get_or_create(name=PROGRAM)[0])
    action = "program.added" if program else "person.invited"
    audit_models.record(actor=actor, action=action, obj=person, detail={"roles": sorted(roles)})
    return person


def _refuse_look_alike(username: str) -> None:
    """A name is written in one script, so that no Cyrillic letter stands in it for a Latin one."""
    letters = [letter for letter in username if unicodedata.category(letter).startswith("L")]
    named = {unicodedata.name(letter, "UNKNOWN").partition(" ")[0] for letter in letters}
    scripts = sorted({ONE_SCRIPT.get(script, script) for script in named})
    if len(scripts) > 1:
        message = f"the name mixes letters of {' and '.join(script.capitalize() for script in scripts)}."
    elif letters and set("".join(letters).lower()) <= LIKE_LATIN:
        message = f"every letter is {scripts[0].capitalize()} and looks like a Latin one."
    else:
        return
    raise TraceError(
        message,
        code="bad_input",
        where="username",
        hint="Type it in one script; such names pass for somebody else's.",
    )


@transaction.atomic
def person_change(*, person: User, email: str, roles: Collection[str], actor: Any) -> None:
    """Another address, other roles. Who loses a role gives back what was claimed with it.

    Raises TraceError `bad_input`, `not_allowed`, and `bad_state` for the last admin.
    """
    person, before = _held(person, actor), set(person.groups.values_list("name", flat=True))
    person.email = User.objects.normalize_email(email.strip())
    _check(person)
    person.save(update_fields=["email"])
    _give(person, roles)
    _keep_an_admin()
    if before & set(ROLES) - set(roles):
        let_go(person)
    audit_models.record(actor=actor, action="person.changed", obj=person, detail={"roles": sorted(roles)})


@transaction.atomic
def person_deactivate(*, person: User, actor: Any) -> None:
    """They are signed out everywhere, and their tokens are refused. Raises TraceError `not_allowed`, `bad_state`."""
    person = _held(person, actor)
    _refuse_oneself(person, actor, "Another admin has to do that.")
    person.is_active = False
    person.save(update_fields=["is_active"])
    _keep_an_admin()
    sessions_end(user=person)
    let_go(person)
    audit_models.record(actor=actor, action="person.deactivated", obj=person)


@transaction.atomic
def person_activate(*, person: User, actor: Any) -> None:
    person = _held(person, actor)
    person.is_active = True
    person.save(update_fields=["is_active"])
    audit_models.record(actor=actor, action="person.activated", obj=person)


@transaction.atomic
def person_reset(*, person: User, actor: Any) -> User:
    """Password, sessions, every token of the account and earlier links end at once; `link_of` is to be handed over.
    Whoever knew the password may have made tokens with it.

    Raises TraceError `not_allowed`, and `bad_state` for a program.
    """
    person = _held(person, actor)
    _refuse_oneself(person, actor, "Change your own password on the account page.")
    if is_program(person):
        raise TraceError(
            f"{person.get_username()} is a program: it has no password.",
            code="bad_state",
            hint="Revoke its tokens, or deactivate it.",
        )
    person.set_unusable_password()
    person.save(update_fields=["password"])
    sessions_end(user=person)
    detail = {"tokens": tokens_end(owner=person)}
    audit_models.record(actor=actor, action="person.password_reset", obj=person, detail=detail)
    return person


def link_of(person: User) -> str:
    """The path under which the person sets a password."""
    key = urlsafe_base64_encode(force_bytes(person.pk))
    return reverse("password-set", args=[key, LINKS.make_token(person)])


def mail_link(person: User, address: str) -> str:
    """Mail the link where the site has a mail server and the person an address; what became of it, in words.

    Call it after the transaction: the server may take EMAIL_TIMEOUT.
    """
    if not (settings.EMAIL_HOST and person.email):
        return ""
    days = settings.PASSWORD_RESET_TIMEOUT // 86_400
    body = f"Set a password for {person.get_username()} within {days} days:\n\n{address}\n"
    mail = EmailMessage("[TRACE Rule Studio] Set your password", body, to=[person.email])
    try:
        mail.send()
    except (OSError, ValueError) as error:  # SMTPException is an OSError
        return f"The mail to {person.email} was not taken: {error}"[:300]
    return f"It was mailed to {person.email}."


def _held(person: User, actor: Any) -> User:
    _one_at_a_time()
    require_power_over(person, actor)
    return User.objects.select_for_update(no_key=True).get(pk=person.pk)


def _one_at_a_time() -> None:
    """Two admins who take the role from each other at once: the second finds the first's change."""
    Group.objects.select_for_update(no_key=True).get(name=ADMIN)


def _keep_an_admin() -> None:
    able = User.objects.filter(Q(is_superuser=True) | Q(groups__name=ADMIN), is_active=True)
    if not able.exclude(password__startswith="!").exists():
        raise TraceError(
            "nobody who can sign in would be an admin.",
            code="bad_state",
            hint="Make somebody else an admin first.",
        )


def _refuse_oneself(person: User, actor: Any, hint: str) -> None:
    if actor is not None and person.pk == actor.pk:
        raise TraceError("that is your own account.", code="not_allowed", hint=hint)


def _give(person: User, roles: Collection[str]) -> None:
    if wrong := set(roles) - set(ROLES):
        raise TraceError(f"there is no role {sorted(wrong)[0]!r}.", code="bad_input", where="roles")
    person.groups.remove(*Group.objects.filter(name__in=set(ROLES) - set(roles)))
    person.groups.add(*Group.objects.filter(name__in=roles))


def let_go(person: Any) -> None:
    """Give back what was claimed."""
    for name in settings.AT_SIGN_OUT:
        import_string(name)(person)


def _check(person: User) -> None:
    try:
        person.clean_fields(exclude=["password"])
    except ValidationError as error:
        field, problems = next(iter(error.message_dict.items()))
        raise TraceError(problems[0], code="bad_input", where=field) from error


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
    return json.loads(path.read_text()) if path.is_file() else []


def _demo_login(role: str, password: str) -> dict[str, str]:
    user, made = User.objects.get_or_create(username=DEMO_NAMES[role])
    if made:
        password = password or f"{role[:2]}-{secrets.token_hex(6)}"
        user.set_password(password)
        user.save()
        user.groups.set([Group.objects.get(name=role)])
    elif not user.check_password(password):
        password = ""
    # the mark that sessions keep: it follows from the stored password
    mark = user.get_session_auth_hash()
    return {"role": role, "username": user.username, "password": password, "mark": mark}
