"""Answers to benchmark requests that were not asked as callers ask are removed, and what was fitted on them.

The engine was told the domain that the label of a request names, which no caller has to know, and left out all tools of
other domains. What was measured so is not what is served. Evaluate the models again: manage.py evaluate, or the button
of a domain's page; their gate reports no longer apply and are made anew.
"""

from django.db import migrations, models

DECODES = [
    ("trace", "Trace"),
    ("trace-free", "Trace Free"),
    ("fast", "Fast"),
    ("beam", "Beam"),
    ("letters", "Letters"),
    ("embedding", "embedding baseline"),
    ("fast-domain", "fast, domain given"),
    ("embedding-domain", "embedding baseline, domain given"),
]


def remove_answers(apps, schema_editor):
    told = apps.get_model("evaluation", "Evaluation").objects.filter(
        model__isnull=False, benchmark__kind__in=["prb", "outside"]
    )
    apps.get_model("evaluation", "Prediction").objects.filter(evaluation__in=told).delete()
    told.delete()
    apps.get_model("evaluation", "Calibration").objects.all().delete()


class Migration(migrations.Migration):

    dependencies = [("evaluation", "0009_expected_rules")]

    operations = [
        migrations.AlterField("Evaluation", "decode", models.CharField(max_length=20, choices=DECODES)),
        migrations.AlterField("Calibration", "decode", models.CharField(max_length=20, choices=DECODES)),
        migrations.RunPython(remove_answers, migrations.RunPython.noop),
    ]
