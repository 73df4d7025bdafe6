"""What a pool says is part of whether its samples count: new tool texts and look-alikes move the stamp `samples`."""

from importlib import import_module

from django.db import migrations

trigger = import_module("evaluation.migrations.0002_coverage_stamps").trigger
TRIGGERS = [
    ("catalog_tool", "samples", "UPDATE OF content_hash, description, permissions, deprecated, status"),
    ("catalog_neighbourlist", "samples", "INSERT OR DELETE OR UPDATE"),
    ("rules_rule", "samples", "UPDATE OF published_id"),
]


class Migration(migrations.Migration):
    dependencies = [("catalog", "0008_audited"), ("evaluation", "0004_audited"), ("rules", "0001_initial")]
    operations = [trigger(*row) for row in TRIGGERS]
