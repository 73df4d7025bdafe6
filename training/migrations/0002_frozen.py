"""A database trigger refuses UPDATE and DELETE: what is frozen stays frozen, whoever asks."""

from django.db import migrations

from trace_site.lib.frozen import freeze_sql, unfreeze_sql

TABLES = ['training_aliasmove']


class Migration(migrations.Migration):
    dependencies = [('training', '0001_initial')]
    operations = [migrations.RunSQL(freeze_sql(table), unfreeze_sql(table)) for table in TABLES]
