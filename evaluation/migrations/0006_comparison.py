"""Paired comparisons of two evaluations are kept: what they were computed from never changes."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('evaluation', '0005_stale_samples')]

    operations = [
        migrations.CreateModel(
            name='Comparison',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rows', models.JSONField(help_text='[evaluation.core.versus.Row]: all domains first, then each')),
                ('draws', models.PositiveIntegerField(help_text='bootstrap draws')),
                ('seed', models.BigIntegerField(help_text='of the draws')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('against', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='evaluation.evaluation')),
                ('evaluation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comparisons', to='evaluation.evaluation')),
            ],
            options={'ordering': ['id']},
        ),
        migrations.AddConstraint(
            model_name='comparison',
            constraint=models.UniqueConstraint(fields=('evaluation', 'against'), name='one_comparison_per_pair'),
        ),
    ]
