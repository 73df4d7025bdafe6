"""People: who may sign in, and with which roles.

Nobody is given a password. A link lets a person set one; it is void once it was used, once the person signs in, and
after PASSWORD_RESET_TIMEOUT. Only superusers and the command line (`actor` None) change superusers.
"""

from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import Q
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.module_loading import import_string

from trace_site.access import ADMIN, ROLES
from trace_site.accounts import require_power_over
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.people.sessions import sessions_end


@transaction.atomic
def person_invite(*, username: str, email: str, roles: Collection[str], actor: Any) -> User:
    """A person without a password; `link_of` is to be handed over. Raises TraceError `bad_input`."""
    _one_at_a_time()
    person = User(username=User.normalize_username(username.strip()), email=_address(email))
    if User.objects.filter(username__iexact=person.username).exists():
        raise TraceError("somebody has this name already.", code="bad_input", where="username")
    person.set_unusable_password()
    _check(person)
    person.save()
    _give(person, roles)
    audit_models.record(actor=actor, action="person.invited", obj=person, detail={"roles": sorted(roles)})
    return person


@transaction.atomic
def person_change(*, person: User, email: str, roles: Collection[str], actor: Any) -> None:
    """Another address, other roles. Who loses a role gives back what was claimed with it.

    Raises TraceError `bad_input`, `not_allowed`, and `bad_state` for the last admin.
    """
    person, before = _held(person, actor), set(person.groups.values_list("name", flat=True))
    person.email = _address(email)
    _check(person)
    person.save(update_fields=["email"])
    _give(person, roles)
    _keep_an_admin()
    if before & set(ROLES) - set(roles):
        _let_go(person)
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
    _let_go(person)
    audit_models.record(actor=actor, action="person.deactivated", obj=person)


@transaction.atomic
def person_activate(*, person: User, actor: Any) -> None:
    person = _held(person, actor)
    person.is_active = True
    person.save(update_fields=["is_active"])
    audit_models.record(actor=actor, action="person.activated", obj=person)


@transaction.atomic
def person_reset(*, person: User, actor: Any) -> User:
    """Password, sessions, personal token and earlier links end at once; `link_of` is to be handed over.

    Raises TraceError `not_allowed`.
    """
    person = _held(person, actor)
    _refuse_oneself(person, actor, "Change your own password on the account page.")
    person.set_unusable_password()
    person.save(update_fields=["password"])
    sessions_end(user=person)
    audit_models.record(actor=actor, action="person.password_reset", obj=person)
    return person


def link_of(person: User) -> str:
    """The path under which the person sets a password."""
    key = urlsafe_base64_encode(force_bytes(person.pk))
    return reverse("password-set", args=[key, default_token_generator.make_token(person)])


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


def _let_go(person: User) -> None:
    for name in settings.AT_SIGN_OUT:
        import_string(name)(person)


def _address(email: str) -> str:
    return User.objects.normalize_email(email.strip())


def _check(person: User) -> None:
    try:
        person.clean_fields(exclude=["password"])
    except ValidationError as error:
        field, problems = next(iter(error.message_dict.items()))
        raise TraceError(problems[0], code="bad_input", where=field) from error
