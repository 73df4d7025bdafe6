"""Frozen datasets and what is in them."""

from django.conf import settings
from django.db import models

from synthesis.models.samples import Sample


class Snapshot(models.Model):
    """A frozen dataset; a database trigger refuses UPDATE and DELETE here and on its members."""

    hash = models.CharField(max_length=64, unique=True)
    strategy = models.CharField(max_length=10)
    per_rule = models.PositiveIntegerField()
    params = models.JSONField(default=dict)
    counts = models.JSONField(default=dict)
    manifest = models.JSONField(default=dict)
    store_key = models.CharField(max_length=200)
    store_digest = models.CharField(max_length=64)
    catalog_hash = models.CharField(
        max_length=64, help_text="over tools, neighbours and tokens: Stage 1 depends on it"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"snapshot {self.pk}"


class SnapshotSample(models.Model):
    snapshot = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="members")
    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, related_name="memberships")
    position = models.PositiveIntegerField()
    sample_key = models.CharField(max_length=64)

    class Meta:
        ordering = ["snapshot", "position"]
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "sample"], name="sample_once_per_snapshot")
        ]

    def __str__(self) -> str:
        return f"{self.snapshot_id}:{self.sample_id}"
