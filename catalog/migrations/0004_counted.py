"""Changes of the catalog raise the counter `catalog`; new embeddings do not."""

from django.db import migrations

from trace_site.generation import counted_sql, uncounted_sql

SQL = counted_sql("catalog_tool", "catalog", "name, description, domain_id, deprecated, status")


class Migration(migrations.Migration):
    dependencies = [("catalog", "0003_twins_and_undo"), ("trace_site", "0003_generation")]
    operations = [migrations.RunSQL(SQL, uncounted_sql("catalog_tool"))]
