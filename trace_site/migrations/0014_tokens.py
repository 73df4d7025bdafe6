"""API tokens as hashes. The tokens of before go on for 90 days; their plain texts go with their table."""

import hashlib
from datetime import timedelta

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models
from django.utils import timezone
from django.utils.crypto import salted_hmac

from trace_site.lib.audited import audited_sql, unaudited_sql

# AbstractBaseUser.get_session_auth_hash, which the models of a migration do not have
MARK = 'django.contrib.auth.models.AbstractBaseUser.get_session_auth_hash'


def take_over(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('authtoken_token')")
        if cursor.fetchone()[0] is None:
            return
        cursor.execute('SELECT t.key, t.created, u.id, u.password FROM authtoken_token t JOIN auth_user u ON u.id = t.user_id')
        rows = cursor.fetchall()
    token = apps.get_model('trace_site', 'ApiToken')
    token.objects.bulk_create(
        token(
            kind='personal',
            owner_id=user,
            created_by_id=user,
            prefix=key[:4],
            digest=hashlib.sha256(key.encode()).hexdigest(),
            password_mark=salted_hmac(MARK, password, algorithm='sha256').hexdigest(),
            created_at=created,
            expires_at=timezone.now() + timedelta(days=90),
        )
        for key, created, user, password in rows
    )


class Migration(migrations.Migration):

    dependencies = [
        ('trace_site', '0013_notice_kinds'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('personal', 'Personal'), ('service', 'Service')], max_length=8)),
                ('name', models.CharField(blank=True, max_length=100)),
                ('prefix', models.CharField(help_text='how it begins, to tell it by', max_length=12)),
                ('digest', models.CharField(help_text='SHA-256 of the token', max_length=64, unique=True)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=20), default=list, size=None)),
                ('password_mark', models.CharField(blank=True, max_length=64)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField()),
                ('last_used_at', models.DateTimeField(null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'API token',
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('kind', 'personal')), fields=('owner',), name='one_personal_token_a_person')],
            },
        ),
        migrations.RunSQL(
            audited_sql('trace_site_apitoken', omit=['last_used_at'], secret=['digest', 'password_mark']),
            unaudited_sql('trace_site_apitoken'),
        ),
        migrations.RunPython(take_over, migrations.RunPython.noop),
        migrations.RunSQL(
            'DROP TABLE IF EXISTS authtoken_token CASCADE; DROP FUNCTION IF EXISTS trace_audit_of_authtoken_token()',
            migrations.RunSQL.noop,
        ),
    ]
