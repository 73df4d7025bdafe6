"""What makes a sample wrong as a column of its own, and counters that move with what it is compared with."""

import django.db.models.fields.json
from django.db import migrations, models

from trace_site.generation import counted_sql, uncounted_sql

TABLES = {"catalog_tool": ("catalog", "permissions, content_hash"), "rules_rule": ("rules", "code, domain_id")}


def counted_too(table, name, columns):
    return migrations.RunSQL(
        f"CREATE TRIGGER {table}_content_counted AFTER UPDATE OF {columns} ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION trace_count_{name}()",
        f"DROP TRIGGER {table}_content_counted ON {table}",
    )


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0008_audited"),
        ("rules", "0006_audited"),
        ("synthesis", "0006_funnel_index"),
    ]
    operations = [
        migrations.AddField(
            "sample",
            "content",
            models.GeneratedField(
                db_persist=True,
                expression=django.db.models.fields.json.KeyTextTransform("content", "made_from"),
                output_field=models.CharField(max_length=64),
            ),
        ),
        migrations.AddIndex(
            "sample",
            models.Index(fields=["rule_version", "anchor", "content"], name="content_of_samples"),
        ),
        migrations.RunSQL(
            counted_sql("catalog_neighbourlist", "neighbours"), uncounted_sql("catalog_neighbourlist")
        ),
        *[counted_too(table, name, columns) for table, (name, columns) in TABLES.items()],
    ]
