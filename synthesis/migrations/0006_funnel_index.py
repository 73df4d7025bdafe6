"""An index that holds what the funnel of a run counts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0005_calls_and_slots")]
    operations = [
        migrations.AddIndex(
            "sample",
            models.Index(
                fields=["run", "id"],
                include=["machine", "human", "domain", "rule_version", "style", "tier"],
                name="funnel_of_run",
            ),
        ),
    ]
