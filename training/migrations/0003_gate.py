"""A promotion keeps what the gate said of it, and the words of who promoted it all the same."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('training', '0002_triggers'),
    ]

    operations = [
        migrations.AddField(
            model_name='aliasmove',
            name='gate',
            field=models.JSONField(db_default={}, default=dict, help_text='of a promotion: {report, verdict, said}, what the gate said of it then'),
        ),
        migrations.AddField(
            model_name='aliasmove',
            name='override',
            field=models.TextField(blank=True, db_default='', default='', help_text='why the actor promoted it without a passed gate'),
        ),
    ]
