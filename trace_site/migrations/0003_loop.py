"""One kind of notice more: what a gated model made of one's rule."""

from django.db import migrations, models

KINDS = [
    ("assignment", "Samples were assigned to you."),
    ("rule_rejections", "Reviewers rejected samples of your rule."),
    ("adjudication", "Two reviewers disagree; a third is needed."),
    ("batch_failed", "A batch failed its acceptance sampling."),
    ("comment", "Somebody commented on a sample you decided or mentioned you."),
    ("retraining", "A retraining policy started a run, or one of its runs failed."),
    ("candidate", "A newly trained model stands beside the champion."),
    ("rule_result", "A model that learned your rule was gated: whether the rule helped."),
]


class Migration(migrations.Migration):
    dependencies = [("trace_site", "0002_triggers")]
    operations = [
        migrations.AlterField("notice", "kind", models.CharField(choices=KINDS, max_length=30)),
    ]
