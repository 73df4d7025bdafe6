"""Notices of retraining and of candidates."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('trace_site', '0012_workers')]

    operations = [
        migrations.AlterField(
            model_name='notice',
            name='kind',
            field=models.CharField(
                choices=[
                    ('assignment', 'Samples were assigned to you.'),
                    ('rule_rejections', 'Reviewers rejected samples of your rule.'),
                    ('adjudication', 'Two reviewers disagree; a third is needed.'),
                    ('batch_failed', 'A batch failed its acceptance sampling.'),
                    ('comment', 'Somebody commented on a sample you decided or mentioned you.'),
                    ('retraining', 'A retraining policy started a run, or one of its runs failed.'),
                    ('candidate', 'A newly trained model stands beside the champion.'),
                ],
                max_length=30,
            ),
        ),
    ]
