"""What goes on by itself from a published rule to a model: one row, told to the ledger.

Writing is on in a new installation, whose rules are all still to come, and off in one that has written before: there
an admin sees first what would be written.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

MOST_LOAD = 0.75  # a core
AUDITED = "SELECT trace_audit('synthesis_loopsettings')"
NOT_AUDITED = "DROP FUNCTION trace_audit_of_synthesis_loopsettings() CASCADE"


def make_row(apps, schema_editor):
    is_new = not apps.get_model("synthesis", "SynthesisRun").objects.exists()
    row = apps.get_model("synthesis", "LoopSettings")
    row.objects.get_or_create(pk=1, defaults={"write": is_new, "most_load": MOST_LOAD})


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0004_counts"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        migrations.CreateModel(
            name="LoopSettings",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "write",
                    models.BooleanField(
                        default=False, help_text="samples that published rules lack are written by themselves"
                    ),
                ),
                (
                    "per_rule",
                    models.PositiveSmallIntegerField(default=12, help_text="samples a rule is filled up to"),
                ),
                (
                    "budget",
                    models.JSONField(
                        default=dict,
                        help_text="{calls, tokens, money}: the most that automatic runs may spend in a calendar month; empty: nothing",
                    ),
                ),
                ("train", models.BooleanField(default=True, help_text="policies that are on start by themselves")),
                (
                    "most_load",
                    models.FloatField(
                        default=0.0,
                        help_text="load a core from which on no training starts by itself; 0: not asked",
                    ),
                ),
                (
                    "evaluate",
                    models.BooleanField(
                        default=True,
                        help_text="a new model is evaluated, and the champion asked the tests of new rules",
                    ),
                ),
                ("changed_at", models.DateTimeField(auto_now=True)),
                (
                    "changed_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="loopsettings",
            constraint=models.CheckConstraint(condition=models.Q(("pk", 1)), name="one_row_of_loop_settings"),
        ),
        migrations.AddConstraint(
            model_name="loopsettings",
            constraint=models.CheckConstraint(
                condition=models.Q(("most_load__gte", 0)), name="load_is_not_negative"
            ),
        ),
        migrations.RunSQL(AUDITED, NOT_AUDITED),
        migrations.RunPython(make_row, migrations.RunPython.noop),
    ]
