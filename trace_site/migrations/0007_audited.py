"""Database triggers tell the audit ledger of every change of users, their roles, and webhooks."""

from django.db import migrations

from trace_site.lib.audited import audited_sql, unaudited_sql

AUDITED = {
    'auth_user': {'omit': ['last_login'], 'secret': ['password']},
    'auth_group': {},
    'auth_user_groups': {},
    'auth_user_user_permissions': {},
    'auth_group_permissions': {},
    'trace_site_webhook': {'omit': ['failures'], 'secret': ['salt']},
}


class Migration(migrations.Migration):
    dependencies = [('trace_site', '0006_audit_changes'), ('auth', '0012_alter_user_first_name_max_length')]
    operations = [
        migrations.RunSQL(audited_sql(table, **options), unaudited_sql(table)) for table, options in AUDITED.items()
    ]
