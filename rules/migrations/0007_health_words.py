"""The list of rules is searched in one folded text per rule. Rows without it are made anew when the list is opened."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [('rules', '0006_audited')]
    operations = [
        migrations.AddField(
            model_name='rulehealth',
            name='words',
            field=models.TextField(
                default='', help_text='code, target and text, casefolded: what the list of rules is searched in'
            ),
        ),
        migrations.AlterField(
            model_name='rulehealth',
            name='findings',
            field=models.JSONField(
                default=list,
                help_text='[{code, level, sentence, fix, other, place: {pointer, start, end}, path}]',
            ),
        ),
        migrations.RunSQL('DELETE FROM rules_rulehealth', migrations.RunSQL.noop),
    ]
