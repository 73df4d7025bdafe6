"""Replies and the ledger of calls become two tables; samples get their place in the plan; prompts are kept by hash."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

# the parts of a slot that samples made so far tell in made_from
FILL_SLOTS = """
UPDATE synthesis_sample s SET slot = left(CASE s.branch
  WHEN 'rule' THEN concat_ws(':', 'rule', s.domain_id, s.made_from->'rule'->>'code', s.style, s.made_from->>'index')
  WHEN 'rrb' THEN concat_ws(':', 'rrb', s.domain_id, s.made_from->>'anchor', s.tier, s.made_from->>'index')
  ELSE '' END, 300)
"""


class Migration(migrations.Migration):
    dependencies = [('synthesis', '0004_pool_index')]
    operations = [
        migrations.RenameModel('ModelCall', 'ModelReply'),
        migrations.AlterModelOptions('modelreply', {'ordering': ['-id'], 'verbose_name_plural': 'model replies'}),
        migrations.RemoveField('modelreply', 'job'),
        migrations.RemoveField('modelreply', 'seconds'),
        migrations.CreateModel(
            name='ModelCall',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uid', models.UUIDField(help_text="sent as X-Client-Request-Id: the endpoint's own books name it", unique=True)),
                ('key', models.CharField(help_text='content key of what was asked', max_length=64)),
                ('purpose', models.CharField(max_length=20)),
                ('endpoint', models.CharField(max_length=200)),
                ('model', models.CharField(max_length=200)),
                ('prompt_hash', models.CharField(max_length=64)),
                ('state', models.CharField(choices=[('sent', 'Sent'), ('answered', 'Answered'), ('failed', 'Failed')], default='sent', max_length=8)),
                ('error_code', models.CharField(blank=True, max_length=60)),
                ('prompt_tokens', models.PositiveIntegerField(default=0)),
                ('completion_tokens', models.PositiveIntegerField(default=0)),
                ('cost', models.FloatField(default=0.0, help_text="in the currency of the endpoint's prices")),
                ('seconds', models.FloatField(default=0.0)),
                ('sent_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ended_at', models.DateTimeField(null=True)),
                ('job', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='trace_site.job')),
            ],
            options={'ordering': ['-id'], 'indexes': [models.Index(fields=['job', 'state'], name='synthesis_m_job_id_state')]},
        ),
        migrations.CreateModel(
            name='PromptVersion',
            fields=[
                ('hash', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=40)),
                ('source', models.TextField()),
                ('first_used', models.DateTimeField(auto_now_add=True)),
            ],
            options={'ordering': ['-first_used']},
        ),
        migrations.AddField(
            'sample',
            'slot',
            models.CharField(blank=True, default='', help_text='its place in the plan, kept while rule, tools and prompts change: `rule:hr:PAYOUT:explicit:3`', max_length=300),
            preserve_default=False,
        ),
        migrations.AddIndex('sample', models.Index(fields=['branch', 'slot'], name='samples_by_slot')),
        migrations.RunSQL(FILL_SLOTS, migrations.RunSQL.noop),
    ]
