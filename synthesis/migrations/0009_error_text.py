"""What the server of a call said, and whether its answer stood in a wrapping."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0008_database_clock")]
    operations = [
        migrations.AddField(
            "modelcall",
            "error_text",
            models.TextField(
                blank=True,
                db_default="",
                help_text="the server's own sentence, without keys, cut; or what it sent instead",
            ),
        ),
        migrations.AddField(
            "modelcall",
            "unwrapped",
            models.BooleanField(db_default=False, help_text="its answer stood in a wrapping"),
        ),
    ]
