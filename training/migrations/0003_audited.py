"""Database triggers tell the audit ledger of every change of runs (not their progress), models and aliases."""

from django.db import migrations

from trace_site.lib.audited import audited_sql, unaudited_sql

AUDITED = {
    'training_run': {'omit': ['log_tail', 'summary', 'hardware']},
    'training_model': {'omit': ['card']},
    'training_aliasmove': {},
}


class Migration(migrations.Migration):
    dependencies = [('training', '0002_frozen'), ('trace_site', '0006_audit_changes')]
    operations = [
        migrations.RunSQL(audited_sql(table, **options), unaudited_sql(table)) for table, options in AUDITED.items()
    ]
