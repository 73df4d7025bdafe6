"""A sample that leaves a slot leaves it to the one before it: both slots are looked at, the old and the new."""

from importlib import import_module

from django.db import migrations

BEFORE = (
    import_module("synthesis.migrations.0010_queue_triggers")
    .SAMPLES.partition("CREATE TRIGGER")[0]
    .replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
)
COLUMNS = "SELECT id, branch, slot, machine, human FROM"
NEW_SLOT = f"""{COLUMNS} new_rows
        EXCEPT {COLUMNS} old_rows
      )"""
BOTH_SLOTS = f"""({COLUMNS} new_rows EXCEPT {COLUMNS} old_rows)
        UNION ALL ({COLUMNS} old_rows EXCEPT {COLUMNS} new_rows)
      )"""
assert NEW_SLOT in BEFORE


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0019_queue_abandoned")]
    operations = [migrations.RunSQL(BEFORE.replace(NEW_SLOT, BOTH_SLOTS), BEFORE)]
