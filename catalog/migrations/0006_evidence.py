"""Versions of clusters and the ledger of tokens keep what they say; what people decide of a cluster may change."""

from django.db import migrations

HELD = """
SELECT trace_freeze('catalog_clustering');
SELECT trace_keep('catalog_cluster', '{dismissed_reason,dismissed_by_id,dismissed_at,owner_id,due}');
SELECT trace_keep('catalog_tokenunit', '{state}');
"""
LET_GO = "SELECT trace_let_go('catalog_clustering', 'catalog_cluster', 'catalog_tokenunit')"


class Migration(migrations.Migration):
    dependencies = [("catalog", "0005_clause_tokens"), ("trace_site", "0009_evidence")]
    operations = [migrations.RunSQL(HELD, LET_GO)]
