"""Places of clusters on the map, and what models answered to the tests of rules."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0001_initial"),
        ("evaluation", "0002_coverage_stamps"),
        ("rules", "0001_initial"),
        ("trace_site", "0001_initial"),
        ("training", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="ClusterPlace",
            fields=[
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="place",
                        serialize=False,
                        to="catalog.cluster",
                    ),
                ),
                ("x", models.IntegerField()),
                ("y", models.IntegerField()),
                ("radius", models.IntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="RuleTestResult",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("passed", models.PositiveIntegerField()),
                ("total", models.PositiveIntegerField()),
                (
                    "results",
                    models.JSONField(
                        help_text="[{query, tools, found}] in the order of the tests; found: ranked names"
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "job",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="trace_site.job",
                    ),
                ),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="rule_tests",
                        to="training.model",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="test_results",
                        to="rules.ruleversion",
                    ),
                ),
            ],
            options={
                "ordering": ["version", "model"],
                "constraints": [
                    models.UniqueConstraint(fields=("model", "version"), name="one_test_result_per_version")
                ],
            },
        ),
    ]
