"""Frozen datasets and what is in them."""

from django.conf import settings
from django.db import models
from django.db.models import Func

from synthesis.models.samples import Sample


class Snapshot(models.Model):
    """A frozen dataset. Database triggers refuse UPDATE, DELETE and TRUNCATE here, on its members, and on what its
    members say; no member comes in after the transaction that made it (migration `triggers`).
    """

    hash = models.CharField(max_length=64, unique=True)
    strategy = models.CharField(max_length=10)
    per_rule = models.PositiveIntegerField()
    params = models.JSONField(default=dict)
    counts = models.JSONField(default=dict)
    manifest = models.JSONField(default=dict)
    parts = models.JSONField(
        default=dict,
        help_text="{file: digests of its FrozenLines}: every file that is not made from the members",
    )
    store_key = models.CharField(max_length=200)
    store_digest = models.CharField(max_length=64)
    catalog_hash = models.CharField(
        max_length=64, help_text="over tools, neighbours and tokens: Stage 1 depends on it"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    txid = models.BigIntegerField(
        db_default=Func(function="txid_current", output_field=models.BigIntegerField()),
        help_text="the transaction that made it: members come in with it and never after",
    )

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
            models.UniqueConstraint(fields=["snapshot", "sample"], name="sample_once_per_snapshot"),
            models.UniqueConstraint(fields=["snapshot", "position"], name="one_sample_a_position"),
        ]


class FrozenLines(models.Model):
    """A part of a snapshot's file as it was written, kept once however many snapshots hold it; append-only."""

    digest = models.CharField(max_length=64, primary_key=True, help_text="sha256 of the lines")
    rows = models.PositiveIntegerField()
    data = models.BinaryField(help_text="the lines, zlib")

    class Meta:
        verbose_name_plural = "frozen lines"
