"""SESSION_ENGINE: Django's sessions in the database, which also know whose they are and when they were last used.

A person sees and ends their own. Keys lie in the table as Django keeps them; a page names a session by a mark instead.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseSessions
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.dateparse import parse_datetime

CAME = "came"  # in the session's data: {at, address, agent} of the sign-in
# as user agents write them, the more special first: Edge says it is Chrome, and Chrome that it is Safari
BROWSERS = {"Edg/": "Edge", "OPR/": "Opera", "Firefox/": "Firefox", "Chrome/": "Chrome", "Safari/": "Safari"}
SYSTEMS = {"Android": "Android", "iPhone": "iPhone", "iPad": "iPad", "Windows": "Windows", "Mac OS": "macOS"}
SYSTEMS |= {"Linux": "Linux"}
SEEN_EVERY = timedelta(minutes=10)  # how exact seen_at is


class Session(AbstractBaseSession):
    account = models.BigIntegerField(null=True, db_index=True, help_text="id of the user; null: nobody")
    seen_at = models.DateTimeField(db_default=Now())

    class Meta(AbstractBaseSession.Meta):
        app_label = "trace_site"

    @classmethod
    def get_session_store_class(cls) -> type["SessionStore"]:
        return SessionStore


class SessionStore(DatabaseSessions):
    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def create_model_instance(self, data: dict[str, Any]) -> Any:
        row: Any = super().create_model_instance(data)
        row.account, row.seen_at = data.get(SESSION_KEY), timezone.now()
        return row

    def _get_session_from_db(self) -> Any:
        row = super()._get_session_from_db()  # type: ignore[misc]
        if row is not None and timezone.now() - row.seen_at > SEEN_EVERY:
            Session.objects.filter(pk=row.pk).update(seen_at=Now())
        return row


@dataclass(frozen=True, slots=True)
class OpenSession:
    """One browser somebody is signed in with."""

    mark: str
    is_this: bool
    since: datetime | None
    seen_at: datetime
    address: str
    agent: str

    @property
    def browser(self) -> str:
        """`Firefox on Windows`, or what the browser says of itself."""
        names = [
            next((name for sign, name in known.items() if sign in self.agent), "")
            for known in (BROWSERS, SYSTEMS)
        ]
        return " on ".join(filter(None, names)) or self.agent[:60]


def note_sign_in(request: Any, address: str) -> None:
    """Keep with the session from where and with what it was opened."""
    agent = request.META.get("HTTP_USER_AGENT", "")[:200]
    request.session[CAME] = {"at": timezone.now().isoformat(), "address": address, "agent": agent}


def sessions_of(user: Any, key: str | None) -> list[OpenSession]:
    """The user's sessions, the newest use first; `key` is that of the session that asks."""
    found = []
    for row in _open_rows(user).order_by("-seen_at"):
        came = row.get_decoded().get(CAME, {})
        since = parse_datetime(came["at"]) if came else None
        address, agent = came.get("address", ""), came.get("agent", "")
        found.append(OpenSession(mark_of(row.pk), row.pk == key, since, row.seen_at, address, agent))
    return found


def session_end(*, user: Any, mark: str) -> bool:
    """End the session of this user that has the mark; whether there was one."""
    wanted = [row.pk for row in _open_rows(user) if mark_of(row.pk) == mark]
    return bool(Session.objects.filter(pk__in=wanted).delete()[0])


def sessions_end(*, user: Any, keep: str | None = None) -> int:
    """End all of the user's sessions but the one with the key `keep`; how many."""
    return Session.objects.filter(account=user.pk).exclude(pk=keep or "").delete()[0]


def mark_of(key: str) -> str:
    return salted_hmac("trace_site.people.sessions", key).hexdigest()[:16]


def forget_old() -> int:
    """Delete the sessions whose time is over; returns how many."""
    return Session.objects.filter(expire_date__lt=Now()).delete()[0]


def _open_rows(user: Any) -> QuerySet[Session]:
    return Session.objects.filter(account=user.pk, expire_date__gt=Now())
