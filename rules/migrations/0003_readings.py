"""Which pairs each version tells apart, as read from its words; what is there is read once this is applied (apps.py)."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

HELD = """
SELECT trace_freeze('rules_rulereading');
SELECT trace_audit('rules_rulereading', omit => '{said,pairs}');
"""
LEFT = "DROP FUNCTION trace_audit_of_rules_rulereading() CASCADE"


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0002_triggers'),
        ('rules', '0002_triggers'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='RuleReading',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('reader', models.PositiveSmallIntegerField(help_text='edition of the reading that found the pairs')),
                ('said', models.JSONField(help_text='[{tool, kind, firm, pointer, start, end}], what the version says of a tool, by its id')),
                ('pairs', models.JSONField(help_text='[[tool, tool, apart | named | unnamed, place in said, place in said]] as read')),
                ('corrections', models.JSONField(default=list, help_text='[{pair, apart, reason, author, at}] that are in force')),
                ('apart', models.JSONField(help_text='[[tool, tool]] that count as told apart, corrections included; the smaller id first')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('version', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='readings', to='rules.ruleversion')),
            ],
            options={
                'ordering': ['-id'],
                'constraints': [models.UniqueConstraint(fields=('version', 'number'), name='one_reading_number')],
            },
        ),
        migrations.RunSQL(HELD, LEFT),
    ]
