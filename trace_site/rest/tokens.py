"""Tokens that programs sign in with. Only a SHA-256 of each is stored: it is shown once, when it is made.

A personal token does what its owner may do. It ends after TOKEN_DAYS and when its owner's password changes: it keeps
the mark that sessions keep, and that mark follows from the stored password. A password that is hashed anew, as Django
does after an upgrade, ends it too. A service token works within its scopes and ends on its day or when an admin resets
its owner's password. It belongs to the account of a program or to whoever makes it, never to another person, and it
decides nothing: what people decide (`ApiView.decides`) is refused to it.

Either says besides which permission targets it holds when it asks for tools: `permissions`, or all of them. Whoever
makes one chooses; no choice is none.
"""

import hashlib
import secrets
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.postgres.fields import ArrayField
from django.db import DEFAULT_DB_ALIAS, InterfaceError, OperationalError, connections, models, transaction
from django.db.models.functions import Now
from django.utils.crypto import constant_time_compare
from rest_framework.authentication import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from trace_site.access import is_program, remember_roles
from trace_site.audit import models as audit_models
from trace_site.database import GENERATIONS, Generations, database_now
from trace_site.lib.errors import TraceError

SCOPES = {
    "retrieve": "ask which tools answer a request",
    "read": "read whatever the owner may read",
    "write": "change whatever the owner may change",
}
MOST_DAYS = 365  # of a service token
TOLD_EVERY = timedelta(minutes=1)  # how exact last_used_at is
MOST_PERMISSIONS, LONGEST_PERMISSION = 200, 300


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
    holds_all = models.BooleanField(
        default=False, db_default=False, help_text="every permission target, those of later tools too"
    )
    permissions = ArrayField(
        models.CharField(max_length=LONGEST_PERMISSION), default=list, help_text="the targets, unless all"
    )
    password_mark = models.CharField(max_length=64, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    generations: Generations | None = None  # as of the query that found it for a call
    asked_at: datetime | None = None  # by the database's clock, where the query that found it told

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
    def as_told(self) -> dict[str, Any]:
        """What the audit keeps of the token that a program acted through."""
        maker = self.created_by.get_username() if self.created_by else ""
        return {
            "id": self.pk,
            "kind": self.kind,
            "name": self.name,
            "maker": maker,
            "maker_id": self.created_by_id,
        }

    @property
    def is_over(self) -> bool:
        if self.expires_at <= (self.asked_at or database_now()):
            return True
        if self.kind == self.Kind.SERVICE:
            return False
        return not constant_time_compare(self.password_mark, self.owner.get_session_auth_hash())

    @property
    def holds(self) -> frozenset[str] | None:
        """The permission targets; None: all."""
        return None if self.holds_all else frozenset(self.permissions)

    @property
    def permission_lines(self) -> str:
        """As a form has them: one a line."""
        return "\n".join(self.permissions)

    @property
    def holds_words(self) -> str:
        if self.holds_all:
            return "all permissions"
        count = len(self.permissions)
        return f"{count} permission{'' if count == 1 else 's'}" if count else "no permissions"


class ApiTokenAuthentication(TokenAuthentication):
    """`Authorization: Token <token>`, or Bearer as most clients send it."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        is_bearer = request.headers.get("Authorization", "").lower().startswith("bearer ")
        self.keyword = "Bearer" if is_bearer else "Token"
        found: tuple[User, ApiToken] | None = super().authenticate(request)
        return found

    def authenticate_credentials(self, key: str) -> tuple[User, ApiToken]:
        token = token_with_owner(digest_of(key))
        if token is None or token.is_over or not token.owner.is_active:
            raise AuthenticationFailed("This token is unknown, was revoked or has ended. Make another one.")
        now = token.asked_at or database_now()
        if token.last_used_at is None or now - token.last_used_at > TOLD_EVERY:
            # a request that is still in its transaction holds the row; the others do not wait for it
            with transaction.atomic():
                free = ApiToken.objects.filter(pk=token.pk).select_for_update(skip_locked=True)
                ApiToken.objects.filter(pk__in=free.values("pk")).update(last_used_at=Now())
        return token.owner, token


@cache
def _token_sql() -> tuple[str, list[str], list[str]]:
    """(SQL, attributes of a token, of its owner), in the order of the columns; the last four columns are the name of
    who made it, the owner's roles, the counters of what has changed, and the time."""
    of_token, of_owner = ApiToken._meta.concrete_fields, User._meta.concrete_fields
    columns = [*(f"t.{one.column}" for one in of_token), *(f"u.{one.column}" for one in of_owner)]
    sql = (
        f"SELECT {', '.join(columns)}, m.username, ARRAY(SELECT g.name FROM auth_group g "
        f"JOIN auth_user_groups m ON m.group_id = g.id WHERE m.user_id = u.id), {GENERATIONS}, "
        "statement_timestamp() "
        "FROM trace_site_apitoken t JOIN auth_user u ON u.id = t.owner_id "
        "LEFT JOIN auth_user m ON m.id = t.created_by_id WHERE t.digest = %s"
    )
    return sql, [one.attname for one in of_token], [one.attname for one in of_owner]


def token_with_owner(digest: str) -> ApiToken | None:
    """The token, its owner, its maker's name, the owner's roles and `generations` in one query; the ORM would take
    longer to word it than Postgres to answer it, with every call of the API."""
    sql, of_token, of_owner = _token_sql()
    if (row := _first_row(sql, digest)) is None:
        return None
    *columns, maker, roles, generations, asked_at = row
    token = ApiToken.from_db(DEFAULT_DB_ALIAS, of_token, columns[: len(of_token)])
    token.owner = User.from_db(DEFAULT_DB_ALIAS, of_owner, columns[len(of_token) :])
    token.created_by = User(pk=token.created_by_id, username=maker) if maker is not None else None
    token.generations, token.asked_at = generations or {}, asked_at
    remember_roles(token.owner, roles)
    return token


def _first_row(sql: str, *values: str) -> tuple[Any, ...] | None:
    """Of the first query of a call, on a connection that is not asked before whether it still stands: where it does
    not, the query is asked once more on a new one."""
    here: Any = connections[DEFAULT_DB_ALIAS]
    is_new = here.connection is None or here.in_atomic_block
    here.health_check_done = True
    try:
        with here.cursor() as cursor:
            cursor.execute(sql, values)
            found: tuple[Any, ...] | None = cursor.fetchone()
            return found
    except (OperationalError, InterfaceError):
        if is_new:
            raise
        here.close()
        return _first_row(sql, *values)


def holds_of(token: Any) -> frozenset[str] | None:
    """What a request holds by who asks: its token's permission targets. A signed-in person, who may read the whole
    catalog, holds all: None."""
    return token.holds if isinstance(token, ApiToken) else None


def permissions_given(texts: Iterable[str]) -> list[str]:
    """Permission targets as somebody wrote them, once each. Raises TraceError `bad_input`."""
    given = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if len(given) > MOST_PERMISSIONS or any(len(text) > LONGEST_PERMISSION for text in given):
        most = f"a token holds at most {MOST_PERMISSIONS} targets of {LONGEST_PERMISSION} characters."
        raise TraceError(most, code="bad_input", where="permissions", hint="Or let it hold all.")
    return given


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


def require_own_or_program(owner: User, actor: Any) -> None:
    """Nobody holds a token of another person: whoever does acts in their name. Raises TraceError `not_allowed`."""
    require_power_over(owner, actor)
    if actor is not None and owner.pk != actor.pk and not is_program(owner):
        raise TraceError(
            f"a token of {owner.get_username()} would act in the name of another person.",
            code="not_allowed",
            hint="Make an account for the program on the page People, and the token there.",
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


def require_person(token: Any) -> None:
    """Refuse a decision that comes through a service token: who holds it need not be its owner. Raises TraceError
    `not_allowed`."""
    if service_token_of(token) is not None:
        raise TraceError(
            f"people decide this, and {token.name!r} is a service token.",
            code="not_allowed",
            hint="Decide it on the page, or send your personal token.",
        )


def token_of(user: Any) -> ApiToken | None:
    """The personal token; None when there is none or it has ended."""
    personal = ApiToken.objects.filter(owner=user, kind=ApiToken.Kind.PERSONAL)
    token = personal.select_related("owner").first()
    return None if token is None or token.is_over else token


def service_tokens_of(user: Any) -> list[ApiToken]:
    found = list(ApiToken.objects.filter(owner=user.pk, kind=ApiToken.Kind.SERVICE))
    now = database_now() if found else None
    for token in found:
        token.asked_at = now
    return found


@transaction.atomic
def personal_token_make(
    *, user: Any, holds_all: bool = False, permissions: Iterable[str] = ()
) -> tuple[ApiToken, str]:
    """The user's only personal token and its text, which is to be shown now. The one before ends."""
    given = permissions_given(() if holds_all else permissions)
    user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    ApiToken.objects.filter(owner=user, kind=ApiToken.Kind.PERSONAL).delete()
    token, secret = _made(
        kind=ApiToken.Kind.PERSONAL,
        owner=user,
        created_by=user,
        password_mark=user.get_session_auth_hash(),
        expires_at=database_now() + timedelta(days=settings.TOKEN_DAYS),
        holds_all=holds_all,
        permissions=given,
    )
    detail = {"permissions": "all" if holds_all else given}
    audit_models.record(actor=user, action="token.created", obj=user, detail=detail)
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
    *,
    owner: Any,
    name: str,
    scopes: Collection[str],
    days: int,
    actor: Any,
    holds_all: bool = False,
    permissions: Iterable[str] = (),
) -> tuple[ApiToken, str]:
    """A token for a program and its text, which is to be shown now. Raises TraceError `bad_input`, `not_allowed`."""
    require_own_or_program(owner, actor)
    name, wanted = name.strip(), [scope for scope in SCOPES if scope in scopes]
    if not 0 < len(name) <= 100:
        raise TraceError("a name has 1 to 100 characters.", code="bad_input", where="name")
    if not wanted or set(scopes) - set(SCOPES):
        raise TraceError("choose what it may do.", code="bad_input", where="scopes")
    if not 0 < days <= MOST_DAYS:
        raise TraceError(f"a token lasts 1 to {MOST_DAYS} days.", code="bad_input", where="days")
    given = permissions_given(() if holds_all else permissions)
    token, secret = _made(
        kind=ApiToken.Kind.SERVICE,
        owner=owner,
        created_by=actor,
        name=name,
        scopes=wanted,
        expires_at=database_now() + timedelta(days=days),
        holds_all=holds_all,
        permissions=given,
    )
    held = "all" if holds_all else given
    detail = {"token": name, "scopes": wanted, "days": days, "permissions": held}
    audit_models.record(actor=actor, action="service_token.created", obj=owner, detail=detail)
    return token, secret


@transaction.atomic
def service_token_rotate(*, token: ApiToken, actor: Any) -> tuple[ApiToken, str]:
    """Another text for the same token, which lasts as long again; the old text is of no use from now on. Whoever gets
    the new text is who made the token.

    Raises TraceError `not_allowed`; `not_found` for one that somebody else has revoked.
    """
    token = _locked(token)
    require_own_or_program(token.owner, actor)
    secret = _new_secret()
    now = database_now()
    token.created_at, token.expires_at = now, now + (token.expires_at - token.created_at)
    token.prefix, token.digest, token.last_used_at = secret[:12], digest_of(secret), None
    token.created_by = actor
    token.save(update_fields=["created_at", "created_by", "expires_at", "prefix", "digest", "last_used_at"])
    detail = {"token": token.name}
    audit_models.record(actor=actor, action="service_token.replaced", obj=token.owner, detail=detail)
    return token, secret


@transaction.atomic
def service_token_permit(
    *, token: ApiToken, holds_all: bool, permissions: Iterable[str], actor: Any
) -> ApiToken:
    """What the token holds from its next request on; its text stays. Raises TraceError as `service_token_make`."""
    given = permissions_given(() if holds_all else permissions)
    token = _locked(token)
    require_power_over(token.owner, actor)
    token.holds_all, token.permissions = holds_all, given
    token.save(update_fields=["holds_all", "permissions"])
    detail = {"token": token.name, "permissions": "all" if holds_all else given}
    audit_models.record(actor=actor, action="service_token.permitted", obj=token.owner, detail=detail)
    return token


@transaction.atomic
def service_token_revoke(*, token: ApiToken, actor: Any) -> None:
    """Raises TraceError `not_found` for one that somebody else has revoked."""
    token = _locked(token)
    audit_models.record(
        actor=actor, action="service_token.revoked", obj=token.owner, detail={"token": token.name}
    )
    token.delete()


def tokens_end(*, owner: User) -> list[str]:
    """End every token of the account; the names of the service tokens among them. The caller records it."""
    found = ApiToken.objects.filter(owner=owner)
    names = list(found.filter(kind=ApiToken.Kind.SERVICE).values_list("name", flat=True))
    found.delete()
    return names


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
