"""Database triggers tell the audit ledger of every change of benchmarks, and of evaluations that were asked for."""

from django.db import migrations

from trace_site.lib.audited import audited_sql, unaudited_sql

AUDITED = {
    'evaluation_benchmark': {},
    'evaluation_evaluation': {'operations': ['INSERT', 'DELETE']},
}


class Migration(migrations.Migration):
    dependencies = [('evaluation', '0003_map_and_rule_tests'), ('trace_site', '0006_audit_changes')]
    operations = [
        migrations.RunSQL(audited_sql(table, **options), unaudited_sql(table)) for table, options in AUDITED.items()
    ]
