"""How many samples a run planned, and the units of a run that its samples do not tell."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0017_own_decisions")]
    operations = [
        migrations.AddField(
            "synthesisrun",
            "units",
            models.BigIntegerField(
                null=True, help_text="how many samples it planned; none: as many as it has"
            ),
        ),
        migrations.CreateModel(
            name="RunUnit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "why",
                    models.CharField(blank=True, help_text="why it is not written any more", max_length=300),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="synthesis.synthesisrun",
                    ),
                ),
                (
                    "sample",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="shared_by",
                        to="synthesis.sample",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=["run", "sample"], name="one_unit_of_a_run")]
            },
        ),
    ]
