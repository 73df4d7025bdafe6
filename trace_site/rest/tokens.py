"""Tokens that programs sign in with. Only a SHA-256 of each is stored: it is shown once, when it is made.

A personal token does what its owner may do. It ends after TOKEN_DAYS and when its owner's password changes: it keeps
the mark that sessions keep, and that mark follows from the stored password. A password that is hashed anew, as Django
does after an upgrade, ends it too. A service token acts as its owner within its scopes and ends on its day.
"""

import hashlib
import secrets
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.postgres.fields import ArrayField
from django.db import models, transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from rest_framework.authentication import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed

from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError

SCOPES = {
    "retrieve": "ask which tools answer a request",
    "read": "read whatever the owner may read",
    "write": "change whatever the owner may change",
}
MOST_DAYS = 365  # of a service token
TOLD_EVERY = timedelta(minutes=1)  # how exact last_used_at is


class ApiToken(models.Model):
    """`scopes` and `name` belong to service tokens, `password_mark` to personal ones."""

    class Kind(models.TextChoices):
        PERSONAL = "personal"
        SERVICE = "service"

    kind = models.CharField(max_length=8, choices=Kind)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100, blank=True)
    prefix = models.CharField(max_length=12, help_text="how it begins, to tell it by")
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the token")
    scopes = ArrayField(models.CharField(max_length=20), default=list)
    password_mark = models.CharField(max_length=64, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "trace_site"
        verbose_name = "API token"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["owner"], condition=models.Q(kind="personal"), name="one_personal_token_a_person"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} token {self.name or self.prefix} of {self.owner}"

    @property
    def is_over(self) -> bool:
        if self.expires_at <= timezone.now():
            return True
        mark = self.owner.get_session_auth_hash()
        return self.kind == self.Kind.PERSONAL and not constant_time_compare(self.password_mark, mark)


class ApiTokenAuthentication(TokenAuthentication):
    """`Authorization: Token <token>`."""

    def authenticate_credentials(self, key: str) -> tuple[User, ApiToken]:
        token = ApiToken.objects.select_related("owner").filter(digest=digest_of(key)).first()
        if token is None or token.is_over or not token.owner.is_active:
            raise AuthenticationFailed("This token is unknown, was revoked or has ended. Make another one.")
        if token.last_used_at is None or timezone.now() - token.last_used_at > TOLD_EVERY:
            # a request that is still in its transaction holds the row; the others do not wait for it
            with transaction.atomic():
                free = ApiToken.objects.filter(pk=token.pk).select_for_update(skip_locked=True)
                ApiToken.objects.filter(pk__in=free.values("pk")).update(last_used_at=Now())
        return token.owner, token


def service_token_of(token: Any) -> int | None:
    """The id of the service token that a request came with; None for a personal one and for a session."""
    return token.pk if isinstance(token, ApiToken) and token.kind == ApiToken.Kind.SERVICE else None


def require_power_over(person: User, actor: Any) -> None:
    """Only superusers and the command line (None) act for a superuser. Raises TraceError `not_allowed`."""
    if person.is_superuser and actor is not None and not actor.is_superuser:
        raise TraceError(
            f"{person.get_username()} is a superuser.",
            code="not_allowed",
            hint="Ask a superuser, or use the command line.",
        )


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def require_scope(token: Any, scope: str) -> None:
    """Refuse what a service token was not made for. Raises TraceError `not_allowed`."""
    if service_token_of(token) is not None and scope not in token.scopes:
        raise TraceError(
            f"this token has no scope {scope!r}.",
            code="not_allowed",
            hint=f"It has: {', '.join(token.scopes)}. An admin makes one that may.",
        )


def token_of(user: Any) -> ApiToken | None:
    """The personal token; None when there is none or it has ended."""
    token = ApiToken.objects.select_related("owner").filter(owner=user, kind=ApiToken.Kind.PERSONAL).first()
    return None if token is None or token.is_over else token


@transaction.atomic
def personal_token_make(*, user: Any) -> tuple[ApiToken, str]:
    """The user's only personal token and its text, which is to be shown now. The one before ends."""
    user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    ApiToken.objects.filter(owner=user, kind=ApiToken.Kind.PERSONAL).delete()
    token, secret = _made(
        kind=ApiToken.Kind.PERSONAL,
        owner=user,
        created_by=user,
        password_mark=user.get_session_auth_hash(),
        expires_at=timezone.now() + timedelta(days=settings.TOKEN_DAYS),
    )
    audit_models.record(actor=user, action="token.created", obj=user)
    return token, secret


@transaction.atomic
def personal_token_revoke(*, user: Any) -> bool:
    """Whether there was one."""
    found = bool(ApiToken.objects.filter(owner=user, kind=ApiToken.Kind.PERSONAL).delete()[0])
    if found:
        audit_models.record(actor=user, action="token.revoked", obj=user)
    return found


@transaction.atomic
def service_token_make(
    *, owner: Any, name: str, scopes: Collection[str], days: int, actor: Any
) -> tuple[ApiToken, str]:
    """A token for a program and its text, which is to be shown now. Raises TraceError `bad_input`, `not_allowed`."""
    require_power_over(owner, actor)
    name, wanted = name.strip(), [scope for scope in SCOPES if scope in scopes]
    if not 0 < len(name) <= 100:
        raise TraceError("a name has 1 to 100 characters.", code="bad_input", where="name")
    if not wanted or set(scopes) - set(SCOPES):
        raise TraceError("choose what it may do.", code="bad_input", where="scopes")
    if not 0 < days <= MOST_DAYS:
        raise TraceError(f"a token lasts 1 to {MOST_DAYS} days.", code="bad_input", where="days")
    token, secret = _made(
        kind=ApiToken.Kind.SERVICE,
        owner=owner,
        created_by=actor,
        name=name,
        scopes=wanted,
        expires_at=timezone.now() + timedelta(days=days),
    )
    detail = {"token": name, "scopes": wanted, "days": days}
    audit_models.record(actor=actor, action="service_token.created", obj=owner, detail=detail)
    return token, secret


@transaction.atomic
def service_token_rotate(*, token: ApiToken, actor: Any) -> tuple[ApiToken, str]:
    """Another text for the same token, which lasts as long again; the old text is of no use from now on.

    Raises TraceError `not_allowed`; `not_found` for one that somebody else has revoked.
    """
    token = _locked(token)
    require_power_over(token.owner, actor)
    secret = _new_secret()
    now = timezone.now()
    token.created_at, token.expires_at = now, now + (token.expires_at - token.created_at)
    token.prefix, token.digest, token.last_used_at = secret[:12], digest_of(secret), None
    token.save(update_fields=["created_at", "expires_at", "prefix", "digest", "last_used_at"])
    detail = {"token": token.name}
    audit_models.record(actor=actor, action="service_token.replaced", obj=token.owner, detail=detail)
    return token, secret


@transaction.atomic
def service_token_revoke(*, token: ApiToken, actor: Any) -> None:
    """Raises TraceError `not_found` for one that somebody else has revoked."""
    token = _locked(token)
    audit_models.record(
        actor=actor, action="service_token.revoked", obj=token.owner, detail={"token": token.name}
    )
    token.delete()


def _locked(token: ApiToken) -> ApiToken:
    rows = ApiToken.objects.select_related("owner").filter(kind=ApiToken.Kind.SERVICE, pk=token.pk)
    if (row := rows.select_for_update(of=("self",)).first()) is None:
        raise TraceError("this token was revoked meanwhile.", code="not_found")
    return row


def _new_secret() -> str:
    return f"trs_{secrets.token_urlsafe(32)}"


def _made(**fields: Any) -> tuple[ApiToken, str]:
    secret = _new_secret()
    return ApiToken.objects.create(prefix=secret[:12], digest=digest_of(secret), **fields), secret
