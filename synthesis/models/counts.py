"""Rollups: rows are deltas that triggers write, their sum is the count; `counts.fold` makes them few again."""

from django.db import models


class Level(models.IntegerChoices):
    """Of a rollup's row. A count is the sum of the rows of LOOSE and of one of the other two."""

    LOOSE = 0, "what one statement changed"
    FINE = 1, "folded"
    COARSE = 2, "folded, all rules together"


class SampleCount(models.Model):
    """Rollup: samples by what lists filter on. Loose rows are written by triggers and folded by `counts.fold`
    (migration `counts`). An id of 0 means none.
    """

    branch = models.CharField(max_length=8)
    domain = models.CharField(max_length=60)
    rule_version = models.BigIntegerField()
    style = models.CharField(max_length=14)
    tier = models.CharField(max_length=6)
    machine = models.CharField(max_length=8)
    human = models.CharField(max_length=8)
    approved_how = models.CharField(max_length=11)
    writer = models.CharField(max_length=120, help_text="offline, llm or import")
    n = models.BigIntegerField()
    level = models.PositiveSmallIntegerField(choices=Level, db_default=0)

    class Meta:
        indexes = [models.Index(fields=["level", "rule_version"], name="sample_counts_of_level")]

    def __str__(self) -> str:
        return f"{self.n:+}"


class ReviewCount(models.Model):
    """Rollup: items that wait (open, claimed or held) by what the queue filters on, as above; a claim changes none."""

    round = models.PositiveSmallIntegerField()
    branch = models.CharField(max_length=8)
    domain = models.CharField(max_length=60)
    rule = models.BigIntegerField()
    style = models.CharField(max_length=14)
    tier = models.CharField(max_length=6)
    held = models.BooleanField()
    calibration = models.BooleanField()
    assigned_to = models.BigIntegerField()
    first_by = models.BigIntegerField()
    n = models.BigIntegerField()
    level = models.PositiveSmallIntegerField(choices=Level, db_default=0)

    class Meta:
        indexes = [models.Index(fields=["level", "rule"], name="review_counts_of_level")]

    def __str__(self) -> str:
        return f"{self.n:+}"
