"""Database triggers tell the audit ledger of every change of rules, their versions, and the requests that change them."""

from django.db import migrations

from trace_site.lib.audited import audited_sql, unaudited_sql

AUDITED = {
    'rules_rule': {},
    'rules_ruleversion': {},
    'rules_changerequest': {'omit': ['updated_at']},
    'rules_rulechange': {'omit': ['edited_at']},
    'rules_approval': {},
    'rules_changecomment': {},
}


class Migration(migrations.Migration):
    dependencies = [('rules', '0005_applied_requests_kept'), ('trace_site', '0006_audit_changes')]
    operations = [
        migrations.RunSQL(audited_sql(table, **options), unaudited_sql(table)) for table, options in AUDITED.items()
    ]
