"""Samples by the tools of their pools, and approved samples by rule version."""

import django.contrib.postgres.indexes
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("synthesis", "0003_audited")]

    operations = [
        migrations.AddIndex(
            model_name='sample',
            index=models.Index(condition=models.Q(('human', 'approved'), ('machine', 'ready')), fields=['rule_version'], name='approved_of_rule_version'),
        ),
        migrations.AddIndex(
            model_name='sample',
            index=django.contrib.postgres.indexes.GinIndex(fields=['pool'], name='samples_by_pool'),
        ),
    ]
