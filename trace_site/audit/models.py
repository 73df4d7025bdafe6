"""Who did what, when. Two append-only tables, both refused to UPDATE, DELETE and TRUNCATE by triggers.

AuditEntry is a note: an action with a name, written by `record` in the transaction of the change. AuditChange is the
proof: one row per changed row of every governed table, written by database triggers only, so that bulk writes and raw
SQL leave one as well. `txid` joins the note with what it changed.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import Func

TRANSACTION = Func(function="txid_current", output_field=models.BigIntegerField())


class AuditEntry(models.Model):
    at = models.DateTimeField(auto_now_add=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    action = models.CharField(max_length=60)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=60)
    object_label = models.CharField(max_length=300)
    detail = models.JSONField(default=dict)
    txid = models.BigIntegerField(null=True, db_index=True, db_default=TRANSACTION)

    class Meta:
        app_label = "trace_site"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["object_type", "object_id"]),
            models.Index(fields=["-at", "-id"], name="audit_entry_newest"),
            models.Index(fields=["action", "-at", "-id"], name="audit_entry_action"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.object_label}"


class AuditChange(models.Model):
    """A row that was inserted, updated or deleted; triggers write it."""

    at = models.DateTimeField()
    txid = models.BigIntegerField(db_index=True)
    actor_id = models.BigIntegerField(null=True, help_text="id of a user; no foreign key: users may go")
    source = models.CharField(max_length=200, help_text="page, api, job or command; empty for raw SQL")
    db_user = models.CharField(max_length=63)
    table_name = models.CharField(max_length=63)
    operation = models.CharField(max_length=8)
    row_id = models.CharField(max_length=100)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        app_label = "trace_site"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["-at", "-id"], name="audit_change_newest"),
            models.Index(fields=["table_name", "row_id"], name="audit_change_row"),
            models.Index(fields=["source"], opclasses=["varchar_pattern_ops"], name="audit_change_source"),
            models.Index(
                fields=["-at", "-id"],
                condition=models.Q(operation__in=["DELETE", "TRUNCATE"]),
                name="audit_change_removed",
            ),
            models.Index(fields=["table_name", "-at", "-id"], name="audit_change_table"),
            models.Index(fields=["actor_id", "-at", "-id"], name="audit_change_actor"),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.table_name} {self.row_id}"


def record(*, actor: Any, action: str, obj: models.Model, detail: dict[str, Any] | None = None) -> None:
    """Write one entry; `actor` None means a command line or a job."""
    record_all(actor=actor, action=action, objects=[(obj, detail or {})])


def record_all(*, actor: Any, action: str, objects: Iterable[tuple[models.Model, dict[str, Any]]]) -> None:
    """Write one entry for each object and its detail, in one query."""
    AuditEntry.objects.bulk_create(
        [
            AuditEntry(
                actor=actor,
                action=action,
                object_type=obj._meta.model_name or "",
                object_id=str(obj.pk),
                object_label=str(obj)[:300],
                detail=detail,
            )
            for obj, detail in objects
        ],
        batch_size=1000,
    )


# Who is at work on this thread's database connection, and through what: the audit triggers read it there.
#
# Said to the connection when it begins and taken back when it ends, errors included; a connection that is made anew in
# between is told again. A pooler between us and the database must pool sessions, not transactions.


log = logging.getLogger(__name__)
NOBODY = ("", "")
_now: ContextVar[tuple[str, str]] = ContextVar("acting", default=NOBODY)


@contextmanager
def acting(actor: Any, source: str) -> Iterator[None]:
    """Row changes inside carry the user (or its id; None: nobody) and `source`: `page /rules/`, `job 12`."""
    outer = _now.get()
    _say(_key(actor), source[:200])
    try:
        yield
    finally:
        _say(*outer)


def identify(actor: Any, service_token: int | None = None) -> None:
    """Name the user after the work began: the API knows the token's owner only then. Holds until `acting` ends.

    A service token acts as its owner without being them: it is named as well, `api token 3 /api/v1/rules`.
    """
    _, source = _now.get()
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


connection_created.connect(_tell_new, dispatch_uid="trace_site.audit")
