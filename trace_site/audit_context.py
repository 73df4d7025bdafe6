"""Who is at work on this thread's database connection, and through what: the audit triggers read it there.

Said to the connection when it begins and taken back when it ends, errors included; a connection that is made anew in
between is told again. The API says it once it knows who asks, and where nothing is changed not at all. A pooler between
us and the database must pool sessions, not transactions.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import psycopg
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

log = logging.getLogger(__name__)
NOBODY = ("", "")
_now: ContextVar[tuple[str, str]] = ContextVar("acting", default=NOBODY)
_unsaid: ContextVar[str] = ContextVar("unsaid", default="")  # a source whose user is not known yet


@contextmanager
def acting(actor: Any, source: str) -> Iterator[None]:
    """Row changes inside carry the user (or its id; None: nobody) and `source`: `page /rules/`, `job 12`."""
    outer = _now.get()
    _say(_key(actor), source[:200])
    try:
        yield
    finally:
        _say(*outer)


@contextmanager
def named(actor: Any) -> Iterator[None]:
    """Inside, it is this actor who works, through what was said before."""
    here, source = _now.get()
    if here == _key(actor):
        yield
        return
    with acting(actor, source):
        yield


@contextmanager
def identified_later(source: str) -> Iterator[None]:
    """What `identify` is called in: from there on row changes carry the user and the source, before that neither."""
    outer, token = _now.get(), _unsaid.set(source[:200])
    try:
        yield
    finally:
        _unsaid.reset(token)
        if _now.get() != outer:
            _say(*outer)


def identify(actor: Any, service_token: int | None = None) -> None:
    """Name the user after the work began: the API knows the token's owner only then. Holds until the work ends.

    A service token acts as its owner without being them: it is named as well, `api token 3 /api/v1/rules`.
    """
    source = _unsaid.get() or _now.get()[1]
    if service_token is not None:
        source = source.replace("api ", f"api token {service_token} ", 1)[:200]
    if source and _now.get() != (_key(actor), source):
        _say(_key(actor), source)


def _key(actor: Any) -> str:
    return str(getattr(actor, "pk", actor) or "")


def _say(actor: str, source: str) -> None:
    _now.set((actor, source))
    if connection.connection is not None:
        _tell(connection)


def _tell(wrapper: BaseDatabaseWrapper) -> None:
    """One round trip on the driver's own connection. One that refuses is closed rather than left with a wrong name."""
    try:
        wrapper.connection.execute(
            "SELECT set_config('trace.actor', %s, false), set_config('trace.source', %s, false)", _now.get()
        )
    except psycopg.Error as error:
        # a broken transaction takes the name back itself when it is rolled back
        if not wrapper.in_atomic_block:
            log.warning("a connection could not be told who is at work: %s", error)
            wrapper.close()


def _tell_new(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if _now.get() != NOBODY:
        _tell(connection)


connection_created.connect(_tell_new, dispatch_uid="trace_site.audit_context")
