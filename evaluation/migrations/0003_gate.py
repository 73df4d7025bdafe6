"""Reports of the gate: frozen, and told to the ledger without their rows."""

import django.db.models.deletion
from django.db import migrations, models

HELD = """
SELECT trace_freeze('evaluation_gatereport');
SELECT trace_audit('evaluation_gatereport', omit => '{report}');
"""
LET_GO = "DROP FUNCTION trace_audit_of_evaluation_gatereport() CASCADE;"


class Migration(migrations.Migration):

    dependencies = [
        ('evaluation', '0002_triggers'),
        ('trace_site', '0002_triggers'),
        ('training', '0003_gate'),
    ]

    operations = [
        migrations.CreateModel(
            name='GateReport',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='hash of both models and of all that was counted: made once', max_length=64, unique=True)),
                ('verdict', models.CharField(choices=[('pass', 'pass'), ('fail', 'fail'), ('cannot tell', 'cannot tell')], max_length=11)),
                ('report', models.JSONField(help_text='evaluation.core.gate.Gate: rows, rules, margin, level, draws, seed')),
                ('counted_from', models.JSONField(default=dict, help_text='{evaluations: [keys], benchmarks: [ids], rule_tests: [ids], answers: hash of groups and scores}')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('candidate', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='gate_reports', to='training.model')),
                ('champion', models.ForeignKey(help_text='null: there was none', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='training.model')),
                ('job', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='gate_reports', to='trace_site.job')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.RunSQL(HELD, LET_GO),
    ]
