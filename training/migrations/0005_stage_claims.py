"""One owner per stage while it is trained."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('trace_site', '0006_audit_changes'),
        ('training', '0004_stages_grids_policies'),
    ]

    operations = [
        migrations.CreateModel(
            name='StageClaim',
            fields=[
                ('key', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('fence', models.PositiveIntegerField()),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='trace_site.job')),
            ],
        ),
    ]
