"""Stage 1 becomes any shared stage; grids, retraining policies, lineage and retention come in."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


from trace_site.lib.audited import audited_sql, unaudited_sql
from trace_site.lib.frozen import freeze_sql, unfreeze_sql

KEEP_STAGE1_KEYS = """
UPDATE training_run SET stages = jsonb_build_array(jsonb_build_object('stage', 'stage1', 'key', stage1_key))
 WHERE stage1_key <> '';
"""
AUDITED = ['training_grid', 'training_retrainpolicy', 'training_retraining']


class Migration(migrations.Migration):

    dependencies = [
        ('training', '0003_audited'),
        ('trace_site', '0006_audit_changes'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='model',
            name='lineage',
            field=models.JSONField(default=dict, help_text='snapshot, rules, base, recipe and code revision it was made from'),
        ),
        migrations.AddField(
            model_name='model',
            name='removed_at',
            field=models.DateTimeField(help_text='when retention removed its files', null=True),
        ),
        migrations.AddField(
            model_name='run',
            name='cloned_from',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='clones', to='training.run'),
        ),
        migrations.AddField(
            model_name='run',
            name='stages',
            field=models.JSONField(default=list, help_text='[{stage, key}] in training order; equal keys train once'),
        ),
        migrations.RunSQL(KEEP_STAGE1_KEYS, migrations.RunSQL.noop),
        migrations.RemoveField(model_name='run', name='stage1_key'),
        migrations.AddField(
            model_name='run',
            name='why',
            field=models.CharField(choices=[('manual', 'started by a person'), ('grid', 'a cell of a grid'), ('policy', 'the retraining policy'), ('import', 'trained elsewhere')], default='manual', max_length=10),
        ),
        migrations.CreateModel(
            name='Grid',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('plan', models.JSONField(help_text='snapshots, base, formats, memos, retrievals, seeds, recipe')),
                ('key', models.CharField(help_text='hash of the resolved plan', max_length=64, unique=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='GridCell',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('grid', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cells', to='training.grid')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='grid_cells', to='training.run')),
            ],
            options={
                'ordering': ['grid', 'position'],
            },
        ),
        migrations.CreateModel(
            name='RetrainPolicy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('active', models.BooleanField(default=False, help_text='off: it says what it would do, a person starts it')),
                ('base', models.CharField(max_length=300)),
                ('format', models.CharField(choices=[('a', 'a (flat)'), ('b', 'b (hierarchical)'), ('c', 'c (wrapped)')], max_length=1)),
                ('memo', models.CharField(choices=[('none', 'None'), ('m', 'Memo'), ('mr', 'Reasoned')], max_length=4)),
                ('retrieval', models.CharField(choices=[('none', 'None'), ('n', 'Plain'), ('r', 'Reasoned'), ('r+R', 'Rules'), ('n>r', 'Plain Then Reasoned')], max_length=4)),
                ('recipe', models.JSONField(default=dict, help_text="empty: the base's default recipe")),
                ('seed', models.BigIntegerField(default=0)),
                ('snapshot', models.JSONField(default=dict, help_text='how the snapshot is built: strategy, per_rule, branches, rrb, seed')),
                ('approved_samples', models.PositiveIntegerField(default=50, help_text='0: never by this')),
                ('changed_rules', models.PositiveIntegerField(default=1, help_text='0: never by this')),
                ('quiet_minutes', models.PositiveIntegerField(default=30)),
                ('changed_at', models.DateTimeField(auto_now=True)),
                ('changed_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='Retraining',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reasons', models.JSONField(help_text='approved samples, changed rules, since which run')),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('actor', models.ForeignKey(help_text='who started it by hand; empty when the policy did', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='retrainings', to='training.run')),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='retrainings', to='training.retrainpolicy')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.RenameModel(old_name='Stage1', new_name='TrainedStage'),
        migrations.AddField(
            model_name='trainedstage',
            name='stage',
            field=models.CharField(choices=[('stage1', 'Stage 1'), ('plain', 'Stage 2, plain'), ('stage2', 'Stage 2')], default='stage1', max_length=10),
        ),
        migrations.AddField(model_name='trainedstage', name='bytes', field=models.BigIntegerField(default=0)),
        migrations.AddField(
            model_name='trainedstage',
            name='removed_at',
            field=models.DateTimeField(help_text='when retention removed its files', null=True),
        ),
        migrations.AddConstraint(
            model_name='gridcell',
            constraint=models.UniqueConstraint(fields=('grid', 'position'), name='one_cell_per_position'),
        ),
        migrations.AddConstraint(
            model_name='gridcell',
            constraint=models.UniqueConstraint(fields=('grid', 'run'), name='one_cell_per_run'),
        ),
        migrations.RunSQL(freeze_sql('training_retraining'), unfreeze_sql('training_retraining')),
        *(migrations.RunSQL(audited_sql(table), unaudited_sql(table)) for table in AUDITED),
    ]
