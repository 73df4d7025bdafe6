"""Database triggers tell the audit ledger of every change of the catalog; what is computed from it is left out."""

from django.db import migrations

from trace_site.lib.audited import audited_sql, unaudited_sql

AUDITED = {
    'catalog_domain': {'row_id': 'slug'},
    'catalog_tool': {'omit': ['embedding', 'embedding_key', 'search', 'words', 'cluster_id', 'updated_at']},
    'catalog_cluster': {'omit': ['tool_ids', 'edges', 'mean_similarity'], 'operations': ['UPDATE'], 'update_when': 'OLD.dismissed_at IS DISTINCT FROM NEW.dismissed_at OR OLD.dismissed_reason <> NEW.dismissed_reason'},
    'catalog_labelledquery': {'omit': ['text_key']},
    'catalog_catalogimport': {},
}


class Migration(migrations.Migration):
    dependencies = [('catalog', '0007_indexes'), ('trace_site', '0006_audit_changes')]
    operations = [
        migrations.RunSQL(audited_sql(table, **options), unaudited_sql(table)) for table, options in AUDITED.items()
    ]
