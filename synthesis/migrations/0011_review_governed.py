"""What people set about reviewing is told to the audit ledger; comments and guidelines are append-only."""

from django.db import migrations

from trace_site.lib.audited import audited_sql, unaudited_sql
from trace_site.lib.frozen import freeze_sql, unfreeze_sql

AUDITED = [
    "synthesis_assignment",
    "synthesis_batch",
    "synthesis_guideline",
    "synthesis_samplecomment",
    "synthesis_secondshare",
]
FROZEN = ["synthesis_guideline", "synthesis_samplecomment"]


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0010_queue_triggers"), ("trace_site", "0006_audit_changes")]
    operations = [
        *[migrations.RunSQL(audited_sql(table), unaudited_sql(table)) for table in AUDITED],
        *[migrations.RunSQL(freeze_sql(table), unfreeze_sql(table)) for table in FROZEN],
    ]
