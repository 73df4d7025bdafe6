"""Later readings in the order of the queue, so that a claim of them passes over no first ones."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0015_count_levels")]
    operations = [
        migrations.RemoveIndex("reviewitem", "queue_open_again"),
        migrations.AddIndex(
            "reviewitem",
            models.Index(
                fields=["rank", "id"],
                condition=Q(state="open", first_by__isnull=False),
                name="queue_open_again",
            ),
        ),
    ]
