"""What an import's file may be used for, as whoever imports it says."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalog", "0008_audited")]
    operations = [
        migrations.AddField(
            "catalogimport",
            "licence",
            models.CharField(
                max_length=100,
                blank=True,
                default="",
                db_default="",
                help_text="SPDX identifier or a few words; empty: not recorded",
            ),
        )
    ]
