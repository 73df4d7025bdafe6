"""A reviewer's decisions in the order they look back through, where many were made at one instant too."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0016_later_readings")]
    operations = [
        migrations.RemoveIndex("decision", "decisions_of_reviewer"),
        migrations.AddIndex(
            "decision", models.Index(fields=["reviewer", "at", "id"], name="decisions_of_reviewer")
        ),
    ]
