"""Sessions that know whose they are. Everybody signs in once more: the rows of before are deleted."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('trace_site', '0014_tokens'), ('sessions', '0001_initial')]

    operations = [
        migrations.CreateModel(
            name='Session',
            fields=[
                ('session_key', models.CharField(max_length=40, primary_key=True, serialize=False, verbose_name='session key')),
                ('session_data', models.TextField(verbose_name='session data')),
                ('expire_date', models.DateTimeField(db_index=True, verbose_name='expire date')),
                ('account', models.BigIntegerField(db_index=True, help_text='id of the user; null: nobody', null=True)),
                ('seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'verbose_name': 'session',
                'verbose_name_plural': 'sessions',
                'abstract': False,
            },
        ),
        migrations.RunSQL('DELETE FROM django_session', migrations.RunSQL.noop),
    ]
