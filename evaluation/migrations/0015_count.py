"""What was counted last is one row, which pages read whole; it is counted anew at once."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("evaluation", "0014_at_the_look")]
    operations = [
        *(migrations.DeleteModel(name) for name in ("LabelledOutcome", "ToolRollup", "ClusterRollup", "DomainRollup")),
        migrations.CreateModel(
            "Count",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "edition",
                    models.PositiveIntegerField(help_text="of the arithmetic and of the rows; others are not read"),
                ),
                (
                    "key",
                    models.CharField(
                        max_length=64, help_text="hash of all that was counted from: another one makes a count due"
                    ),
                ),
                (
                    "basis",
                    models.CharField(
                        max_length=64,
                        help_text="hash of its rules, clusters and model: another one makes a count due at once",
                    ),
                ),
                (
                    "counted",
                    models.JSONField(
                        help_text="{outcomes, tools, clusters, domains}: rows of evaluation.coverage.counted"
                    ),
                ),
                ("at", models.DateTimeField(help_text="when it was counted")),
            ],
            options={"ordering": ["-id"]},
        ),
        migrations.AlterField(
            "domainpoint",
            "why",
            models.JSONField(
                default=dict,
                help_text="{rules: {added, gone} version ids, clustering: [old, new], model: [old, new], counted: true "
                "where pairs count otherwise for another reason}; empty: the first",
            ),
        ),
    ]
