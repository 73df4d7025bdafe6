"""Revisions are frozen; the ledger is told of the catalog, not of what is computed from it; its changes are counted."""

from django.db import migrations

SQL = """
SELECT trace_freeze('catalog_toolrevision');
SELECT trace_audit('catalog_domain', row_id => 'slug');
SELECT trace_audit('catalog_tool', omit => '{embedding,embedding_key,search,words,cluster_id,updated_at}');
SELECT trace_audit('catalog_cluster', omit => '{tool_ids,edges,mean_similarity}', operations => '{UPDATE}',
  update_when => 'OLD.dismissed_at IS DISTINCT FROM NEW.dismissed_at OR OLD.dismissed_reason <> NEW.dismissed_reason');
SELECT trace_audit('catalog_labelledquery', omit => '{text_key}');
SELECT trace_audit('catalog_catalogimport');

SELECT trace_count('catalog_tool', 'catalog', 'name, description, domain_id, deprecated, status');
-- what else makes a sample stale
CREATE TRIGGER catalog_tool_content_counted AFTER UPDATE OF permissions, content_hash ON catalog_tool
  FOR EACH STATEMENT EXECUTE FUNCTION trace_count_catalog();
SELECT trace_count('catalog_neighbourlist', 'neighbours');
"""


class Migration(migrations.Migration):
    dependencies = [("catalog", "0001_initial"), ("trace_site", "0002_triggers")]
    operations = [migrations.RunSQL(SQL)]
