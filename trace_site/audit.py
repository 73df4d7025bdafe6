"""Who did what, when: append-only entries written in the same transaction as the change."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db import models


class AuditEntry(models.Model):
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    action = models.CharField(max_length=60)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=60)
    object_label = models.CharField(max_length=300)
    detail = models.JSONField(default=dict)

    class Meta:
        app_label = "trace_site"
        ordering = ["-id"]
        indexes = [models.Index(fields=["object_type", "object_id"])]

    def __str__(self) -> str:
        return f"{self.action} {self.object_label}"


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
