"""Database triggers tell the audit ledger of every change of runs, decisions and snapshots; samples only where a person or a policy decides."""

from django.db import migrations

from trace_site.lib.audited import audited_sql, unaudited_sql

# what the machine writes while a sample is made is no decision
SAMPLE_DECIDED = """
OLD.human <> NEW.human OR OLD.approved_by <> NEW.approved_by
OR (OLD.machine = 'ready' AND (OLD.query, OLD.trace, OLD.answer) IS DISTINCT FROM (NEW.query, NEW.trace, NEW.answer))
"""
AUDITED = {
    'synthesis_synthesisrun': {'omit': ['skipped']},
    'synthesis_sample': {'omit': ['updated_at'], 'operations': ['UPDATE', 'DELETE'], 'update_when': SAMPLE_DECIDED},
    'synthesis_decision': {},
    'synthesis_snapshot': {'omit': ['manifest']},
}


class Migration(migrations.Migration):
    dependencies = [('synthesis', '0002_frozen'), ('trace_site', '0006_audit_changes')]
    operations = [
        migrations.RunSQL(audited_sql(table, **options), unaudited_sql(table)) for table, options in AUDITED.items()
    ]
