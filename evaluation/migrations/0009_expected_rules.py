"""Gaps that were not measured are ordered by the rules that signals let expect, no longer by similarity. Numbers from
before are counted anew: the key of rollups holds the edition of the arithmetic."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('evaluation', '0008_rollups')]

    operations = [
        migrations.RenameField('ClusterRollup', 'likeness', 'expected_rules'),
        migrations.AlterField(
            'ClusterRollup',
            'expected_rules',
            models.FloatField(help_text='over its uncovered pairs, from signals alone; orders what is not measured; no cost'),
        ),
    ]
