"""Who is at work on this thread's database connection, and through what: the audit triggers read it there.

Said to the connection when it begins and taken back when it ends, errors included; a connection that is made anew in
between is told again. The API says it once it knows who asks, and where nothing is changed not at all. A pooler between
us and the database must pool sessions, not transactions.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import psycopg
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

log = logging.getLogger(__name__)
NOBODY = ("", "", "")
_now: ContextVar[tuple[str, str, str]] = ContextVar("acting", default=NOBODY)  # actor, source, token as JSON
_unsaid: ContextVar[str] = ContextVar("unsaid", default="")  # a source whose user is not known yet


def acting(actor: Any, source: str) -> AbstractContextManager[None]:
    """Row changes inside carry the user (or its id; None: nobody) and `source`: `page /rules/`, `job 12`."""
    return _inside(_key(actor), source[:200], "")


def named(actor: Any) -> AbstractContextManager[None]:
    """Inside, it is this actor who works, through what was said before."""
    return _inside(_key(actor), *_now.get()[1:])


@contextmanager
def _inside(*said: str) -> Iterator[None]:
    outer = _now.get()
    if outer != said:
        _say(*said)
    try:
        yield
    finally:
        if _now.get() != outer:
            _say(*outer)


@contextmanager
def identified_later(source: str) -> Iterator[None]:
    """What `identify` is called in: from there on row changes carry the user and the source, before that neither."""
    token = _unsaid.set(source[:200])
    try:
        with _inside(*_now.get()):
            yield
    finally:
        _unsaid.reset(token)


def identify(actor: Any, token: Mapping[str, Any] | None = None) -> None:
    """Name the user after the work began: the API knows the token's owner only then. Holds until the work ends.

    A token acts for its owner without being them, so it is named as well, with who made it: {"id", "kind", "name",
    "maker", "maker_id"}. A service token stands in the source too: `api token 3 /api/v1/rules`.
    """
    source = _unsaid.get() or _now.get()[1]
    if token and token["kind"] == "service":
        source = source.replace("api ", f"api token {token['id']} ", 1)[:200]
    said = (_key(actor), source, json.dumps(token) if token else "")
    if source and _now.get() != said:
        _say(*said)


def token_maker() -> int | None:
    """The id of who made the token that this work comes through."""
    token = _now.get()[2]
    maker: int | None = json.loads(token)["maker_id"] if token else None
    return maker


def _key(actor: Any) -> str:
    return str(getattr(actor, "pk", actor) or "")


def _say(actor: str, source: str, token: str = "") -> None:
    """Told at once to the connection that is there. One that refuses is closed rather than left with a wrong name."""
    _now.set((actor, source, token))
    if connection.connection is None:
        return
    try:
        _tell(connection)
    except psycopg.Error as error:
        # a broken transaction takes the name back itself when it is rolled back
        if not connection.in_atomic_block:
            log.warning("a connection could not be told who is at work: %s", error)
            connection.close()


def _tell(wrapper: BaseDatabaseWrapper) -> None:
    """One round trip on the driver's own connection."""
    wrapper.connection.execute(
        "SELECT set_config('trace.actor', %s, false), set_config('trace.source', %s, false), "
        "set_config('trace.token', %s, false)",
        _now.get(),
    )


def _tell_new(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """One that refuses was never made: who asked for it hears so."""
    if _now.get() == NOBODY:
        return
    try:
        _tell(connection)
    except psycopg.Error:
        connection.close()
        raise


connection_created.connect(_tell_new, dispatch_uid="trace_site.audit_context")
