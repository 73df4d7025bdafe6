"""A policy may go on from the champion's decoder; a new installation has one policy, which is on.

It trains the cell that the demo trains, on the base that the installation has now. Where something was trained before,
or a policy was made, none is added: people there have decided.
"""

from django.conf import settings
from django.db import migrations, models

POCKET = "pocket"
NAME = "when rules change"
SNAPSHOT = {
    "strategy": "append",
    "per_rule": 12,
    "branches": ["rrb", "rule"],
    "rrb": None,
    "domain": "",
    "seed": 0,
    "strict": False,
    "budgets": {},
    "licence": "",
}


def make_policy(apps, schema_editor):
    policies, runs = apps.get_model("training", "RetrainPolicy"), apps.get_model("training", "Run")
    if policies.objects.exists() or runs.objects.exists():
        return
    policies.objects.create(
        name=NAME,
        active=True,
        base=settings.BASE_MODEL,
        format="a",
        memo="m",
        retrieval="r+R",
        snapshot=SNAPSHOT,
        approved_samples=50,
        changed_rules=1,
        # a pocket model trains in minutes, any other for an hour of a GPU
        quiet_minutes=1 if settings.BASE_MODEL == POCKET else 30,
    )


class Migration(migrations.Migration):
    dependencies = [("training", "0003_gate"), ("synthesis", "0005_loop")]
    operations = [
        migrations.AddField(
            model_name="retrainpolicy",
            name="continued_runs",
            field=models.PositiveSmallIntegerField(
                db_default=0,
                default=0,
                help_text="pocket only: runs in a row that begin with the champion's decoder and train it for fewer steps; 0: each trains its decoder anew",
            ),
        ),
        migrations.RunPython(make_policy, migrations.RunPython.noop),
    ]
