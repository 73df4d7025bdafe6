"""Fills what imports and clusterings keep from now on: families and versions, clusters, and the catalog's words."""

from django.db import migrations

from catalog.core.spelling import trigrams, vocabulary
from catalog.core.twins import api_family

BATCH = 2000
CLUSTERS = """
UPDATE catalog_tool AS tool SET cluster_id = cluster.id
FROM catalog_cluster AS cluster
WHERE tool.id = ANY (cluster.tool_ids) AND cluster.clustering_id IN (
  SELECT DISTINCT ON (domain_id) id FROM catalog_clustering ORDER BY domain_id, version DESC
)
"""


def fill(apps, schema_editor):
    Tool, CatalogWord = apps.get_model('catalog', 'Tool'), apps.get_model('catalog', 'CatalogWord')
    for api in Tool.objects.order_by().values_list('api', flat=True).distinct():
        family, version = api_family(api)
        Tool.objects.filter(api=api).update(family=family, api_version=version)
    words = set()
    for name, text in Tool.objects.values_list('name', 'description').iterator(BATCH):
        words |= vocabulary(name, text)
    rows = [CatalogWord(word=word, trigrams=trigrams(word)) for word in sorted(words)]
    CatalogWord.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)


class Migration(migrations.Migration):
    dependencies = [('catalog', '0005_undo_and_spelling')]
    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.RunSQL(CLUSTERS, migrations.RunSQL.noop),
    ]
