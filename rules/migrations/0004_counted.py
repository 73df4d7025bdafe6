"""Publishing raises the counter `rules`; what was said about a request stays said."""

from django.db import migrations

from trace_site.generation import counted_sql, uncounted_sql
from trace_site.lib.frozen import freeze_sql, unfreeze_sql

FROZEN = ["rules_approval", "rules_changecomment"]


class Migration(migrations.Migration):
    dependencies = [("rules", "0003_change_requests"), ("trace_site", "0003_generation")]
    operations = [
        migrations.RunSQL(counted_sql("rules_rule", "rules", "published_id"), uncounted_sql("rules_rule")),
        *[migrations.RunSQL(freeze_sql(table), unfreeze_sql(table)) for table in FROZEN],
    ]
