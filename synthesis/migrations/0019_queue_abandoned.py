"""What an ended run planned and did not write replaces nothing: the sample before it waits for review as it did.

Nothing is told when a job ends, so that the items of such samples follow with the next sweep of `reconcile`.
"""

from importlib import import_module

from django.db import migrations

BEFORE = import_module("synthesis.migrations.0010_queue_triggers").SYNC.replace(
    "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"
)
STANDS = "n.machine <> 'dropped' AND n.human <> 'rejected'"
WRITTEN = f"""{STANDS}
          AND NOT (n.machine = 'pending' AND EXISTS (
            SELECT 1 FROM synthesis_synthesisrun u JOIN trace_site_job j ON j.id = u.job_id
            WHERE u.id = n.run_id AND j.state IN ('done', 'failed', 'cancelled', 'quarantined')))"""


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0018_run_units")]
    operations = [migrations.RunSQL(BEFORE.replace(STANDS, WRITTEN), BEFORE)]
