"""Who did what, when. Two append-only tables, both refused to UPDATE, DELETE and TRUNCATE by triggers.

AuditEntry is a note: an action with a name, written by `record` in the transaction of the change, as what the
application says of itself; date, transaction and actor are the connection's. AuditChange is the proof: one row per
changed row of every governed table, written by database triggers only, so that bulk writes and raw SQL leave one as
well. `txid` joins the note with what it changed. `token` says in both through which token a program acted and who made
it; the database takes it from the connection (audit_context.py), whoever writes the row.
"""

import json
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db import connection, models
from django.db.models import Func, Value
from django.db.models.functions import Cast, Now, NullIf

from trace_site.audit_context import named
from trace_site.database import NOTE

TRANSACTION = Func(function="txid_current", output_field=models.BigIntegerField())
THROUGH = Cast(
    NullIf(
        Func(Value("trace.token"), Value(True), function="current_setting", output_field=models.TextField()),
        Value(""),
    ),
    models.JSONField(),
)


class AuditEntry(models.Model):
    at = models.DateTimeField(db_default=Now())
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    action = models.CharField(max_length=60)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=60)
    object_label = models.CharField(max_length=300)
    detail = models.JSONField(default=dict)
    txid = models.BigIntegerField(null=True, db_index=True, db_default=TRANSACTION)
    token = models.JSONField(null=True, db_default=THROUGH)

    class Meta:
        app_label = "trace_site"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["object_type", "object_id"]),
            models.Index(fields=["-at", "-id"], name="audit_entry_newest"),
            models.Index(fields=["action", "-at", "-id"], name="audit_entry_action"),
        ]


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
    token = models.JSONField(null=True, db_default=THROUGH)

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


def record(*, actor: Any, action: str, obj: models.Model, detail: dict[str, Any] | None = None) -> None:
    """Write one entry; `actor` None means a command line or a job."""
    record_all(actor=actor, action=action, objects=[(obj, detail or {})])


def record_all(*, actor: Any, action: str, objects: Iterable[tuple[models.Model, dict[str, Any]]]) -> None:
    """Write one entry for each object and its detail, in one query."""
    note(
        actor,
        *(
            {
                "action": action,
                "object_type": obj._meta.model_name or "",
                "object_id": str(obj.pk),
                "object_label": str(obj)[:300],
                "detail": detail,
            }
            for obj, detail in objects
        ),
    )


def note(actor: Any, *entries: dict[str, Any]) -> None:
    """Entries as their columns. The database dates them and takes the actor from whom the connection works for: the
    role may not insert (migration 0006)."""
    if entries:
        with named(actor), connection.cursor() as cursor:
            cursor.execute(f"SELECT {NOTE}(%s)", [json.dumps(entries)])
