"""Definitions of groups are kept and frozen, and each evaluation says by which it was counted."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evaluation', '0004_requests'),
        ('trace_site', '0002_triggers'),
    ]

    operations = [
        migrations.CreateModel(
            name='GroupDefinition',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hash', models.CharField(help_text='of clusterings, dismissals, rules and words', max_length=64)),
                ('clusterings', models.JSONField(help_text='{domain: version of its clustering}')),
                ('dismissed', models.JSONField(help_text='[ids of clusters that count for nothing]')),
                ('rules', models.JSONField(help_text='{domain: [ids of its published rule versions]}')),
                ('words', models.TextField(help_text='what the three groups are')),
                ('made_at', models.DateTimeField(auto_now_add=True)),
                ('job', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='trace_site.job')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.AddField(
            model_name='evaluation',
            name='definition',
            field=models.ForeignKey(help_text='its groups are counted by; null: it has none, or they were counted before definitions were kept', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='evaluations', to='evaluation.groupdefinition'),
        ),
        migrations.RunSQL("SELECT trace_freeze('evaluation_groupdefinition')", migrations.RunSQL.noop),
    ]
