"""A person may say of a model that its files stay."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('training', '0005_stage_claims')]

    operations = [
        migrations.AddField(
            model_name='model',
            name='kept_because',
            field=models.CharField(
                blank=True,
                db_default='',
                default='',
                help_text='why retention must not remove it',
                max_length=300,
            ),
        ),
    ]
