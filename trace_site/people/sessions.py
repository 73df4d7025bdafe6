"""Who signs in, who fails to, and the sessions that come of it.

SESSION_ENGINE: Django's sessions in the database, which also know whose they are and when they were last used.
A person sees and ends their own. The table holds the hash of each key, so that nobody signs in with what a copy of the
database says; a page names a session by a mark.

Wrong passwords are counted, and each sign-in stands in the audit. django-axes counts for each pair of name and address,
so that nobody locks an admin out from elsewhere; here the names tried from one address are counted together as well,
which keeps out there only those who never signed in from it.
Both counts lie in the database. What is refused for having been tried too often is not tried, not counted and not
recorded: an anonymous flood leaves AXES_FAILURE_LIMIT lines a pair and SIGN_IN_FAILURES lines an address in each
AXES_COOLOFF_TIME.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore as DatabaseSessions
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models import QuerySet, Sum
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.crypto import salted_hmac
from django.utils.dateparse import parse_datetime
from django.utils.functional import cached_property

from trace_site.audit import models as audit_models
from trace_site.database import database_now
from trace_site.rest.throttles import address_of, counted_address

CAME = "came"  # in the session's data: {at, address, agent} of the sign-in
# as user agents write them, the more special first: Edge says it is Chrome, and Chrome that it is Safari
BROWSERS = {"Edg/": "Edge", "OPR/": "Opera", "Firefox/": "Firefox", "Chrome/": "Chrome", "Safari/": "Safari"}
SYSTEMS = {"Android": "Android", "iPhone": "iPhone", "iPad": "iPad", "Windows": "Windows", "Mac OS": "macOS"}
SYSTEMS |= {"Linux": "Linux"}
SEEN_EVERY = timedelta(minutes=10)  # how exact seen_at is


class Session(AbstractBaseSession):
    account = models.BigIntegerField(null=True, db_index=True, help_text="id of the user; null: nobody")
    seen_at = models.DateTimeField(db_default=Now())
    is_this = False  # the one that asks

    class Meta(AbstractBaseSession.Meta):
        app_label = "trace_site"

    @property
    def mark(self) -> str:
        return salted_hmac("trace_site.people.sessions", self.pk).hexdigest()[:16]

    @cached_property
    def came(self) -> dict[str, str]:
        found: dict[str, str] = self.get_decoded().get(CAME, {})
        return found

    @property
    def since(self) -> datetime | None:
        return parse_datetime(self.came["at"]) if self.came else None

    @property
    def browser(self) -> str:
        """`Firefox on Windows`, or what the browser says of itself."""
        agent = self.came.get("agent", "")
        names = [
            next((name for sign, name in known.items() if sign in agent), "") for known in (BROWSERS, SYSTEMS)
        ]
        return " on ".join(filter(None, names)) or agent[:60]

    @classmethod
    def get_session_store_class(cls) -> type["SessionStore"]:
        return SessionStore


def stored_key(key: str | None) -> str:
    """What the table holds of the key that the browser has; as long as the column is wide."""
    return hashlib.sha256((key or "").encode()).hexdigest()[:40]


class SessionStore(DatabaseSessions):
    """Where Django looks for a key, its hash is looked for."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def exists(self, session_key: str) -> bool:
        return super().exists(stored_key(session_key))

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            super().delete(stored_key(key))

    def create_model_instance(self, data: dict[str, Any]) -> Any:
        row: Any = super().create_model_instance(data)
        row.session_key = stored_key(row.session_key)
        row.account, row.seen_at = data.get(SESSION_KEY), Now()
        row.expire_date = Now() + timedelta(seconds=self.get_expiry_age())
        return row

    def _get_session_from_db(self) -> Any:
        """As Django's, by the hash and by the database's clock."""
        now = {"asked_at": Now()}
        row: Any = _open_rows().filter(pk=stored_key(self.session_key)).annotate(**now).first()
        if row is None:
            self._session_key = None
        elif row.asked_at - row.seen_at > SEEN_EVERY:
            Session.objects.filter(pk=row.pk).update(seen_at=Now())
        return row


def sessions_of(user: Any, key: str | None) -> list[Session]:
    """The user's sessions, the newest use first; `key` is that of the session that asks."""
    found = list(_open_rows().filter(account=user.pk).order_by("-seen_at"))
    for row in found:
        row.is_this = row.pk == stored_key(key)
    return found


def session_end(*, user: Any, mark: str, keep: str | None) -> bool:
    """End the session of this user that has the mark, unless it has the key `keep`; whether there was one."""
    others = _open_rows().filter(account=user.pk).exclude(pk=stored_key(keep))
    wanted = [row.pk for row in others if row.mark == mark]
    return bool(Session.objects.filter(pk__in=wanted).delete()[0])


def sessions_end(*, user: Any, keep: str | None = None) -> int:
    """End all of the user's sessions but the one with the key `keep`; how many."""
    return Session.objects.filter(account=user.pk).exclude(pk=stored_key(keep)).delete()[0]


def _open_rows() -> QuerySet[Session]:
    return Session.objects.filter(expire_date__gt=Now())


def expired() -> QuerySet[Session]:
    return Session.objects.filter(expire_date__lt=Now())


def expired_attempts() -> Any:
    """Rows of wrong passwords that count no more; what was typed as a name may be one."""
    return AccessAttempt.objects.filter(attempt_time__lt=Now() - settings.AXES_COOLOFF_TIME)


LAST_SIGN_INS = 100  # that tell from where somebody comes
NOBODY = "a name that nobody has"  # what was typed there may be a password


class SignIns(AxesDatabaseHandler):  # type: ignore[misc]
    """AXES_HANDLER."""

    def is_allowed(self, request: Any, credentials: Any = None) -> bool:
        """Asked first: the attempt is of this time by the database's clock."""
        request.axes_attempt_time = database_now()
        return bool(super().is_allowed(request, credentials))

    def is_locked(self, request: Any, credentials: Any = None) -> bool:
        if super().is_locked(request, credentials):
            return True
        recent = AccessAttempt.objects.filter(
            ip_address=request.axes_ip_address, attempt_time__gte=get_cool_off_threshold(request)
        )
        failed = recent.aggregate(failed=Sum("failures_since_start"))["failed"]
        return (failed or 0) >= settings.SIGN_IN_FAILURES and not _came_from_here(request, credentials)

    def user_login_failed(self, sender: Any, credentials: Any, request: Any = None, **kwargs: Any) -> None:
        super().user_login_failed(sender, credentials, request, **kwargs)
        if request is None or request.axes_failures_since_start is None:
            return
        name = name_tried(request, credentials)
        # a row that was made now has the process' time
        made = AccessAttempt.objects.filter(username=name, ip_address=request.axes_ip_address)
        made.filter(failures_since_start=1).update(attempt_time=request.axes_attempt_time)
        user = User.objects.filter(username=name).first()
        _record("login.failed", request, user, actor=None)
        if request.axes_locked_out:
            _record("login.locked", request, user, actor=None)

    def user_logged_in(self, sender: Any, request: Any, user: Any, **kwargs: Any) -> None:
        super().user_logged_in(sender, request, user, **kwargs)
        asks = {"address": address_of(request), "agent": request.META.get("HTTP_USER_AGENT", "")[:200]}
        request.session[CAME] = {"at": database_now().isoformat(), **asks}
        _record("login.ok", request, user, actor=user)

    def user_logged_out(self, sender: Any, request: Any, user: Any, **kwargs: Any) -> None:
        super().user_logged_out(sender, request, user, **kwargs)
        if user is not None:
            _record("logout", request, user, actor=user)


def _came_from_here(request: Any, credentials: Any) -> bool:
    """Whether who has this name signed in from this address before: what others guess there does not keep them out.
    Their own wrong passwords still count, by name and address."""
    user = User.objects.filter(username=name_tried(request, credentials)).first()
    came = audit_models.AuditEntry.objects.filter(
        object_type="user", object_id=str(user and user.pk), action="login.ok"
    )
    addresses = came.order_by("-id").values_list("detail__address", flat=True)[:LAST_SIGN_INS]
    return any(counted_address(address or "") == request.axes_ip_address for address in addresses)


def name_tried(request: HttpRequest, credentials: Mapping[str, Any] | None) -> str:
    """AXES_USERNAME_CALLABLE: no name is longer than what a user can have."""
    given = (credentials or {}).get("username") or request.POST.get("username") or ""
    return str(given)[:150]


def locked_out(request: HttpRequest, response: Any, credentials: Any) -> HttpResponse:
    """AXES_LOCKOUT_CALLABLE: the sign-in page with the reason."""
    seconds = int(settings.AXES_COOLOFF_TIME.total_seconds())
    context = {"locked_minutes": seconds // 60, "next": request.POST.get("next", "")}
    refusal = render(request, "registration/login.html", context, status=429)
    refusal["Retry-After"] = str(seconds)
    return refusal


def forget_failures(user: User) -> None:
    """Somebody whom an admin gave a link need not wait."""
    AccessAttempt.objects.filter(username=user.get_username()).delete()


def _record(action: str, request: HttpRequest, user: User | None, *, actor: User | None) -> None:
    audit_models.note(
        actor,
        {
            "action": action,
            "object_type": "user",
            "object_id": str(user.pk) if user else "",
            "object_label": user.get_username() if user else NOBODY,
            "detail": {
                "address": address_of(request),
                "agent": request.META.get("HTTP_USER_AGENT", "")[:200],
            },
        },
    )
