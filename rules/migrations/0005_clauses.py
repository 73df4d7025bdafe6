"""Clauses of rules with their tokens; rules that are published get theirs once this is applied (apps.py)."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0005_clause_tokens'),
        ('rules', '0004_suggestions'),
    ]

    operations = [
        migrations.CreateModel(
            name='RuleClause',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(help_text='within the rule, over all its versions')),
                ('text', models.TextField(help_text='as it stands in the rule')),
                ('stance', models.CharField(help_text='use, tells, limits: leads to its tools; not, dead: away', max_length=6)),
                ('tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=400), help_text='names; tools are never renamed', size=None)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='text_clauses', to='rules.rule')),
                ('token', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='clause', to='catalog.tokenunit')),
            ],
            options={
                'ordering': ['rule', 'number'],
                'constraints': [models.UniqueConstraint(fields=('rule', 'number'), name='one_clause_number')],
            },
        ),
        migrations.RunSQL("SELECT trace_freeze('rules_ruleclause')", migrations.RunSQL.noop),
    ]
