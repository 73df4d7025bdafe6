"""A gate report says by which definition its groups were counted, and a rule's tests by which backend they were answered."""

import django.db.models.deletion
from django.db import migrations, models


# the earlier version knows one backend: ours
FORGET = "DELETE FROM evaluation_ruletestresult WHERE backend <> ''"


class Migration(migrations.Migration):

    dependencies = [
        ('evaluation', '0005_groups'),
        ('rules', '0002_triggers'),
        ('trace_site', '0004_token_permissions'),
        ('training', '0004_loop'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='ruletestresult',
            name='one_test_result_per_version',
        ),
        migrations.AddField(
            model_name='gatereport',
            name='definition',
            field=models.ForeignKey(help_text='its groups were counted by; null: it has none, or was made before that was kept', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='evaluation.groupdefinition'),
        ),
        migrations.AddField(
            model_name='ruletestresult',
            name='backend',
            field=models.CharField(blank=True, db_default='', default='', help_text='empty: our own engine; completions: a server in its place', max_length=20),
        ),
        migrations.AlterField(
            model_name='gatereport',
            name='counted_from',
            field=models.JSONField(default=dict, help_text='{rule: of deciding, weights: [digests], backends, evaluations: [keys], benchmarks: [ids], rule_tests: [ids], definition: id, answers: hash of groups and scores}'),
        ),
        migrations.AlterField(
            model_name='gatereport',
            name='key',
            field=models.CharField(help_text='hash of both models, of all that was counted, and of the report before: made once', max_length=64, unique=True),
        ),
        migrations.AddConstraint(
            model_name='ruletestresult',
            constraint=models.UniqueConstraint(fields=('model', 'version', 'backend'), name='one_test_result_per_backend'),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, FORGET),
    ]
