"""Which decisions stand, how attempts ended and what the calibration draw holds, counted from indexes alone."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0013_snapshot_frozen")]
    operations = [
        migrations.AlterField(
            "decision",
            "item",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="decisions",
                to="synthesis.reviewitem",
            ),
        ),
        migrations.AddIndex(
            "decision",
            models.Index(fields=["item", "take"], include=("verdict", "reviewer"), name="decisions_that_stand"),
        ),
        migrations.AddIndex(
            "reviewitem",
            models.Index(
                condition=models.Q(("calibration", True)),
                fields=["state", "rank", "id"],
                name="queue_of_calibration",
            ),
        ),
        migrations.RemoveConstraint("attempt", "one_attempt_number"),
        migrations.AddConstraint(
            "attempt",
            models.UniqueConstraint(
                fields=("sample", "number"), include=("outcome",), name="one_attempt_number"
            ),
        ),
    ]
